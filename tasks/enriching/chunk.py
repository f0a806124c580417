"""Cut a structured document into evidence: text, tables and figures."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import regex

from schemas.documents import Block, BlockKind, Chunk, Page, PlacedFigure, Region, Role, StructuredDocument
from schemas.filters import Modality
from schemas.tags import placeholder, placeholders, strip
from schemas.text import fenced
from tasks.enriching.cut import (
    CountTokens,
    TablePiece,
    cut,
    cut_lines,
    cut_table,
    first_words,
    joining_tokens,
    without_markup,
)
from tasks.tables.mark_up import caption_of, regions_of

CHUNK_VERSION = "11"

_BETWEEN = "\n\n"


@dataclass(frozen=True)
class _Unit:
    """Blocks that stay together: a paragraph, code between fences, or a figure with its caption."""

    blocks: tuple[Block, ...]
    text: str
    tokens: int

    @property
    def is_figure(self) -> bool:
        return self.blocks[0].placement is not None

    def holds(self, orders: Collection[int]) -> bool:
        return any(block.order in orders for block in self.blocks)


def chunk(
    document: StructuredDocument,
    count_tokens: CountTokens,
    *,
    max_tokens: int,
    by: Literal["sections", "pages"] = "sections",
) -> list[Chunk]:
    """Cut a document by its structure; chunks are in order, ``tagged_text`` has placeholders, ``text`` neither them nor leaders.

    Text chunks follow sections and paragraphs, or whole pages; a figure stays with its caption and adjacent step if they fit
    one chunk; a table is a chunk of its own, its header repeated in each part; each content figure has a chunk, whose text
    ``describe`` composes later.
    """
    captions = {block.placement: block for block in document.blocks if block.kind is BlockKind.CAPTION}
    steps = {figure.placement.order: figure.stands_by for figure in document.figures}

    def count(texts: Sequence[str]) -> list[int]:
        return count_tokens([without_markup(text) for text in texts])

    chunks: list[Chunk] = []
    run: list[_Unit] = []
    between = joining_tokens(count, _BETWEEN)
    for unit in _units(document.blocks, count, max_tokens):
        if unit.blocks[0].kind is BlockKind.TABLE:
            # By pages, a table doesn't cut the text of its page in two.
            if by == "sections":
                chunks.extend(_packed(_join_figures_with_text(run, steps, max_tokens, between), max_tokens, between))
                run = []
            chunks.extend(_table_chunks(unit, count, max_tokens))
        else:
            run.append(unit)
    pack = _packed if by == "sections" else _pages
    chunks.extend(pack(_join_figures_with_text(run, steps, max_tokens, between), max_tokens, between))
    blocks = {block.order: block for block in document.blocks}
    for figure in document.figures:
        if figure.placement.role is Role.CONTENT:
            caption = captions.get(figure.placement.order)
            beside = [*([caption] if caption is not None else []), *(blocks[order] for order in figure.stands_by)]
            chunks.append(_figure_chunk(figure, beside, blocks[figure.block].order, count, max_tokens))
    return sorted(chunks, key=lambda piece: (piece.order, piece.modality))


def _units(blocks: Sequence[Block], count_tokens: CountTokens, max_tokens: int) -> Iterator[_Unit]:
    groups: list[list[Block]] = []
    for block in blocks:
        if block.kind is BlockKind.MARGIN or not block.text.strip():
            continue
        if groups and block.placement is not None and groups[-1][-1].placement == block.placement:
            groups[-1].append(block)
        else:
            groups.append([block])
    texts = ["\n".join(_written(block) for block in group).strip() for group in groups]
    for group, text, tokens in zip(groups, texts, count_tokens(texts), strict=True):
        if tokens <= max_tokens or group[0].kind is BlockKind.TABLE:
            yield _Unit(tuple(group), text, tokens)
        else:
            pieces = (
                _code_pieces(group[0].text, count_tokens, max_tokens)
                if group[0].kind is BlockKind.CODE
                else cut(text, count_tokens, max_tokens)
            )
            parts = zip(pieces, count_tokens(pieces), strict=True)
            yield from (_Unit(tuple(group), piece, count) for piece, count in parts)


def _written(block: Block) -> str:
    return fenced(block.text) if block.kind is BlockKind.CODE else block.text


def _code_pieces(code: str, count_tokens: CountTokens, max_tokens: int) -> list[str]:
    def count(parts: Sequence[str]) -> list[int]:
        return count_tokens([fenced(part) for part in parts])

    return [fenced(piece) for piece in cut_lines(code, count, max_tokens)]


def _join_figures_with_text(
    units: Sequence[_Unit], steps: Mapping[int, Collection[int]], max_tokens: int, between: int
) -> list[_Unit]:
    """Join each figure with its adjacent text, if they fit one chunk."""
    bound: list[_Unit] = []
    joins = _joins(units, steps)
    for number, unit in enumerate(units):
        if number - 1 in joins and (total := bound[-1].tokens + between + unit.tokens) <= max_tokens:
            before = bound.pop()
            bound.append(_Unit((*before.blocks, *unit.blocks), f"{before.text}{_BETWEEN}{unit.text}", total))
        else:
            bound.append(unit)
    return bound


def _joins(units: Sequence[_Unit], steps: Mapping[int, Collection[int]]) -> set[int]:
    """Return the units that must stay with the next one: a figure and its step, other figures between them."""
    joins: set[int] = set()
    for number, unit in enumerate(units):
        step_blocks = steps.get(unit.blocks[0].placement, ()) if unit.blocks[0].placement is not None else ()
        if not step_blocks:
            continue
        first = next((at for at in range(number - 1, -1, -1) if not units[at].is_figure), None)
        last = next((at for at in range(number + 1, len(units)) if not units[at].is_figure), None)
        if first is not None and units[first].holds(step_blocks):
            joins.update(range(first, number))
        if last is not None and units[last].holds(step_blocks):
            joins.update(range(number, last))
    return joins


def _packed(units: Sequence[_Unit], max_tokens: int, between: int) -> Iterator[Chunk]:
    """Fill chunks with units of one section; a page break ends a half-full one, so that a citation names one page."""
    chunk_units: list[_Unit] = []
    total = 0
    for unit in units:
        first = unit.blocks[0]
        if chunk_units:
            last = chunk_units[-1].blocks[-1]
            # A chapter's heading and its first section's stay together, with the text that follows.
            section_ends = first.kind is BlockKind.HEADING and last.kind is not BlockKind.HEADING
            page_ends = first.page != last.page and total > max_tokens // 2
            if section_ends or page_ends or total + between + unit.tokens > max_tokens:
                yield from _text_chunk(chunk_units)
                chunk_units = []
        total = total + between + unit.tokens if chunk_units else unit.tokens
        chunk_units.append(unit)
    yield from _text_chunk(chunk_units)


def _pages(units: Sequence[_Unit], max_tokens: int, between: int) -> Iterator[Chunk]:
    """Fill chunks with whole pages; one that doesn't fit alone is cut between units. ``between`` is as for ``_packed``."""
    chunk_units: list[_Unit] = []
    total = 0
    for _, page in groupby(units, key=lambda unit: unit.blocks[0].page):
        page_units = [*page]
        page_tokens = sum(unit.tokens for unit in page_units) + between * (len(page_units) - 1)
        if total + between + page_tokens > max_tokens:
            yield from _text_chunk(chunk_units)
            chunk_units, total = [], 0
        for unit in page_units:
            if chunk_units and total + between + unit.tokens > max_tokens:
                yield from _text_chunk(chunk_units)
                chunk_units, total = [], 0
            total += unit.tokens + (between if chunk_units else 0)
            chunk_units.append(unit)
        if page_tokens > max_tokens:
            yield from _text_chunk(chunk_units)
            chunk_units, total = [], 0
    yield from _text_chunk(chunk_units)


def _text_chunk(units: Sequence[_Unit]) -> Iterator[Chunk]:
    # A footnote may be between two halves of a paragraph, on two pages.
    in_order = sorted(units, key=lambda unit: unit.blocks[0].kind is BlockKind.FOOTNOTE)
    tagged = _BETWEEN.join(unit.text for unit in in_order).strip()
    if not tagged:
        return
    # The first block may be the heading of an outer section, so the last one gives the section.
    blocks = [block for unit in units for block in unit.blocks]
    yield Chunk(
        order=blocks[0].order,
        modality=Modality.TEXT,
        regions=_regions(blocks),
        section_path=blocks[-1].section_path,
        text=without_markup(tagged),
        tagged_text=tagged,
        figure_refs=_unique([*placeholders(tagged), *(ref for block in blocks for ref in block.mentions)]),
    )


def _table_chunks(unit: _Unit, count_tokens: CountTokens, max_tokens: int) -> Iterator[Chunk]:
    table = unit.blocks[0]
    caption = caption_of(table)
    cut_to_fit = cut_table(caption, table.rows, count_tokens, max_tokens, table.spans) if unit.tokens > max_tokens else None
    for piece in cut_to_fit or [TablePiece(caption, table.rows, range(len(table.rows)), table.spans)]:
        text = piece.text if cut_to_fit else unit.text
        yield Chunk(
            order=table.order,
            modality=Modality.TABLE,
            regions=regions_of(table, piece.rows),
            section_path=table.section_path,
            text=without_markup(text),
            tagged_text=text,
            figure_refs=_unique([*placeholders(text), *(ref for block in unit.blocks for ref in block.mentions)]),
            caption=strip(caption),
            rows=tuple(map(tuple, piece.cells)),
            spans=piece.spans,
        )


def _figure_chunk(
    figure: PlacedFigure, beside: Sequence[Block], order: int, count_tokens: CountTokens, max_tokens: int
) -> Chunk:
    """Return a figure's own row; ``beside`` are the blocks of its caption and step."""
    figure_id = figure.placement.figure_id
    if figure_id is None:
        raise ValueError("a tagged placement has pixels")
    step = first_words(strip(figure.step), count_tokens, max_tokens // 2)
    beside_it = "\n".join(filter(None, (figure.caption, step)))
    return Chunk(
        order=order,
        modality=Modality.FIGURE,
        regions=(
            Region(figure.placement.page, figure.placement.bbox),
            *(Region(block.page, block.bbox) for block in beside),
        ),
        section_path=figure.section_path,
        text="",
        tagged_text=f"{placeholder(figure_id)}\n{beside_it}".strip(),
        figure_refs=(figure_id,),
        caption=figure.caption,
        figure_id=figure_id,
        placement=figure.placement.order,
    )


def _regions(blocks: Sequence[Block]) -> tuple[Region, ...]:
    boxes: dict[int, Region] = {}
    for block in blocks:
        page_region = boxes.get(block.page)
        boxes[block.page] = Region(block.page, block.bbox | page_region.bbox if page_region else block.bbox)
    return tuple(boxes.values())


def _unique(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


PAGES_VERSION = "1"


@dataclass(frozen=True)
class PageWords:
    """The words of a page without running heads, in reading order and without placeholders.

    ``order`` is that of its first block, or of the block before it; the page begins in the section ``section_path``; ``printed``
    is its printed number, "" if none is recognised.
    """

    order: int
    section_path: tuple[str, ...]
    text: str
    printed: str


def words_of_pages(pages: Iterable[Page], blocks: Iterable[Block]) -> dict[int, PageWords]:
    """Return the words of each page, by its number."""
    running: dict[int, list[Block]] = {}
    margins: dict[int, list[str]] = {}
    for block in blocks:
        if block.kind is BlockKind.MARGIN:
            margins.setdefault(block.page, []).append(block.text)
        else:
            running.setdefault(block.page, []).append(block)
    words_by_page = {}
    order = 0
    section: tuple[str, ...] = ()
    for page in sorted(page.page for page in pages):
        page_blocks = running.get(page, [])
        if page_blocks:
            order, section = page_blocks[0].order, page_blocks[0].section_path
        text = "\n".join(filter(None, (strip(block.text).strip() for block in page_blocks)))
        words_by_page[page] = PageWords(order, section, text, _printed(margins.get(page, ())))
        if page_blocks:
            # A page without text of its own continues from here.
            order, section = page_blocks[-1].order, page_blocks[-1].section_path
    return words_by_page


_NUMBER = regex.compile(r"\W*(?:\p{L}+\W+)?(\p{Nd}{1,4})(?:\W+(?:\p{L}+\W+)?\p{Nd}{1,4})?\W*")
"""A printed page number: "12", "- 12 -", "Page 12", "12 / 40", "Seite 12 von 40"."""


def _printed(margins: Iterable[str]) -> str:
    lines = (line for text in margins for line in text.splitlines())
    # Of several numbers in the margins, none is known to be the page's.
    printed_numbers = {match[1] for line in lines if (match := _NUMBER.fullmatch(line))}
    return printed_numbers.pop() if len(printed_numbers) == 1 else ""


def rows_of_pages(
    pages: Iterable[Page], words: Mapping[int, PageWords], pictures: Mapping[int, str], figures: Sequence[PlacedFigure]
) -> list[Chunk]:
    """Return a row for each page with a picture, by figure id; ``describe`` composes its text of the words in ``tagged_text``."""
    page_rows = []
    for page in pages:
        if (picture := pictures.get(page.page)) is None:
            continue
        page_words = words[page.page]
        standing = (figure.placement.figure_id for figure in figures if figure.placement.page == page.page)
        page_rows.append(
            Chunk(
                order=page_words.order,
                modality=Modality.PAGE,
                regions=(Region(page.page, page.box),),
                section_path=page_words.section_path,
                text="",
                tagged_text=page_words.text,
                figure_refs=tuple(dict.fromkeys(name for name in standing if name is not None)),
                figure_id=picture,
            )
        )
    return page_rows
