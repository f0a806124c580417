"""Group the lines of a page into paragraphs, headings and captions."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import inf
from types import MappingProxyType

from schemas.documents import BlockKind, CellSpan, Furniture, Line, Page, Placement, TableOnPage, TableRegion, is_same_size
from schemas.geometry import BBox, is_level, union
from schemas.text import SUPERSCRIPTS, CaptionLabel, caption_label
from tasks.figures.anchor import is_set_off
from tasks.reading.bidi import runs_right_to_left
from tasks.reading.blocks import ENDS_SENTENCE, INDEX_ENTRY, MARKER
from tasks.reading.code import code_text
from tasks.reading.join import join_broken, join_lines, wraps
from tasks.reading.outline import Headings
from tasks.reading.picture_places import TextBlock
from tasks.tables.rows import SOFT_HYPHEN, upright

NOTE_SIZE = 0.95
"""Maximum size of a footnote, relative to the text."""
_MARK = re.compile(rf"\s*(?:\(?{SUPERSCRIPTS}{{1,3}}\)?|[*†‡§¶]{{1,3}}(?=\s*\w))")

NEAR_EM = 1.0
"""Maximum gap between two lines of one paragraph, in ems, as with wide line spacing."""
_DIGITS, _LETTERS = re.compile(r"\d+"), re.compile(r"[A-Za-z]+")
_BESIDE_TEXT = frozenset({Furniture.STAMP, Furniture.WATERMARK, Furniture.LINE_NUMBER})


@dataclass(frozen=True, slots=True)
class DraftBlock:
    """A block before it has its number. ``text`` is set if it isn't the text of ``lines``; a table's includes its caption.

    ``hyphenated`` are the document's words that keep their hyphen at the end of a line.
    """

    kind: BlockKind
    page: int
    bbox: BBox
    lines: tuple[Line, ...] = ()
    text: str = ""
    placement: Placement | None = None
    caption: str = ""
    label: CaptionLabel | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[TableOnPage, ...] = ()
    spans: tuple[CellSpan, ...] = ()
    level: int | None = None
    step: tuple[Line, ...] = ()
    furniture: Furniture | None = None
    hyphenated: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """The text with wrapped lines joined; a heading is one line, code has those of the page."""
        if self.kind is BlockKind.CODE:
            return code_text(self.lines)
        text = (self.text or join_lines(self.lines, hyphenated=self.hyphenated)).replace(SOFT_HYPHEN, "")
        return " ".join(text.split()) if self.kind is BlockKind.HEADING else text


@dataclass(frozen=True)
class PageContent:
    """One page's share of a parsed document."""

    page: Page
    lines: tuple[Line, ...]
    placements: tuple[Placement, ...]
    tables: tuple[TableRegion, ...]

    @cached_property
    def right_to_left(self) -> bool:
        """Whether the page's text runs from right to left."""
        return runs_right_to_left("".join([line.text for line in self.lines]))

    def upright(self, box: BBox) -> BBox:
        """Return a box as the page's reader sees it."""
        return upright(box, self.page.rotation)


def with_lines(block: DraftBlock, lines: Sequence[Line]) -> DraftBlock:
    """Return the part of a block that has only some of its lines."""
    return replace(block, lines=tuple(lines), bbox=union(line.bbox for line in lines))


def text_block(block: DraftBlock, content: PageContent) -> TextBlock:
    """Return a block as the page's reader sees it, to place pictures by."""
    lines = [line._replace(bbox=content.upright(line.bbox)) for line in block.lines] if is_divisible(block) else []
    return TextBlock(content.upright(block.bbox), lines, block.kind is BlockKind.HEADING)


def is_divisible(block: DraftBlock) -> bool:
    """Return whether a picture may be inserted between two lines of a block: of text only, not of captions or tables."""
    return block.kind is BlockKind.TEXT and not block.text


def letters_of_text(text: str) -> str:
    """Return a text without case, spaces and punctuation, to compare spellings."""
    return re.sub(r"\W+", "", text).casefold()


def with_footnotes(blocks: Sequence[DraftBlock], text_size: float) -> list[DraftBlock]:
    """Return blocks with each footnote as a block of its own; ``text_size`` is that of most of the document's letters."""
    lines_on: dict[int, list[Line]] = defaultdict(list)
    for block in blocks:
        if block.kind is not BlockKind.MARGIN:
            lines_on[block.page].extend(block.lines)
    separated: list[DraftBlock] = []
    for block in blocks:
        if is_divisible(block):
            separated.extend(
                _without_notes(block, separated[-1] if separated else None, lines_on[block.page], NOTE_SIZE * text_size)
            )
        else:
            separated.append(block)
    return separated


def _without_notes(
    block: DraftBlock, before: DraftBlock | None, page: Sequence[Line], most_size: float
) -> Iterator[DraftBlock]:
    """Yield the text of a block, and its footnotes: from each mark to the next."""
    note = before.lines[-1] if before is not None and _note_goes_on(before, block) else None
    # Lines with one number are one part: a mark begins another note, and a line unlike the note's returns to the text.
    number, numbers = (1 if note is not None else 0), []
    for line in block.lines:
        if _may_begin(line, page, most_size):
            note, number = line, number + 1
        elif note is not None and not _is_alike(line, note):
            note, number = None, number + 1
        numbers.append((number, note is not None))
    if numbers[-1] == (0, False):  # no line begins a footnote or goes on one
        yield block
        return
    for (_, is_note), group in groupby(zip(numbers, block.lines, strict=True), key=lambda pair: pair[0]):
        part = with_lines(block, [line for _, line in group])
        yield replace(part, kind=BlockKind.FOOTNOTE, text=_with_blank(part.words)) if is_note else part


def _may_begin(line: Line, page: Sequence[Line], most_size: float) -> bool:
    if line.size > most_size or _MARK.match(line.text) is None:
        return False
    # A footnote ends its column: above larger text, a mark is one in the text.
    below = (page_line for page_line in page if page_line.size > most_size and page_line.bbox.y0 >= line.bbox.y1)
    return not any(line.bbox.gap_x(page_line.bbox) < 0 for page_line in below)


def _note_goes_on(before: DraftBlock, block: DraftBlock) -> bool:
    """Return whether a block goes on the footnote before it."""
    is_note = before.kind is BlockKind.FOOTNOTE and before.page == block.page
    return is_note and _is_alike(block.lines[0], before.lines[-1])


def _is_alike(line: Line, note: Line) -> bool:
    return is_same_size(line.size, note.size) and line.bold == note.bold


def _with_blank(text: str) -> str:
    """Return a footnote with a blank behind its mark."""
    mark = _MARK.match(text)
    return f"{mark[0].strip()} {text[mark.end() :].lstrip()}" if mark is not None else text


def paragraphs(
    lines: Sequence[Line],
    margins: Mapping[Line, Furniture],
    headings: Headings,
    hyphenated: frozenset[str],
    code: Mapping[Line, int] = MappingProxyType({}),
) -> list[DraftBlock]:
    """Group lines by their blocks; captions, headings, margins and code are blocks of their own.

    ``code`` is the number of each line's run of code, which may be several blocks.

    Stamps, watermarks and line numbers are taken out of the text first, since its lines may be written between them.
    """
    blocks = _blocks_beside_text(lines, margins)
    if blocks:
        lines = [line for line in lines if margins.get(line) not in _BESIDE_TEXT]
    drafts: list[tuple[DraftBlock, list[Line]]] = []  # the first line of each block, and all of its lines
    previous: Line | None = None
    for line in lines:
        kind, caption = _kind_of(line, previous, margins, headings, code)
        furniture = margins.get(line)
        if previous is None:
            continues = False
        elif furniture is Furniture.CONTENTS:
            continues = is_level(previous.bbox, line.bbox)
        elif kind is BlockKind.CODE:
            continues = code.get(previous) == code[line]
        else:
            continues = previous.block == line.block or headings.continues(previous, line)
        before, block_lines = drafts[-1] if continues and caption is None else (None, [])
        # Lines after the first of a caption have no label; in the caption's block and size they go on it.
        if before is not None and (before.kind, kind) == (BlockKind.CAPTION, BlockKind.TEXT):
            kind = BlockKind.CAPTION if is_same_size(before.lines[0].size, line.size) else kind
        if before is not None and (before.kind, before.furniture) == (kind, furniture):
            block_lines.append(line)
        else:
            level = headings.level_of(line) if kind is BlockKind.HEADING else None
            block = DraftBlock(
                kind,
                line.page,
                line.bbox,
                (line,),
                label=caption,
                level=level,
                furniture=furniture,
                hyphenated=hyphenated,
            )
            drafts.append((block, [line]))
        previous = line
    return [*blocks, *(with_lines(block, block_lines) for block, block_lines in drafts)]


def _kind_of(
    line: Line, previous: Line | None, margins: Mapping[Line, Furniture], headings: Headings, code: Mapping[Line, int]
) -> tuple[BlockKind, CaptionLabel | None]:
    """Return the kind of a line, and the label if it begins a caption."""
    caption = caption_label(line.text)
    if caption is not None and not is_set_off(line, previous):
        caption = None
    if line in margins:
        return BlockKind.MARGIN, caption
    if line in code:
        return BlockKind.CODE, caption
    if caption:
        return BlockKind.CAPTION, caption
    return (BlockKind.HEADING if headings.is_heading(line) else BlockKind.TEXT), caption


def _blocks_beside_text(lines: Sequence[Line], margins: Mapping[Line, Furniture]) -> list[DraftBlock]:
    """Return the stamps, the watermarks and the line numbers of a page, a block each."""
    by_role: dict[Furniture, list[Line]] = defaultdict(list)
    for line in lines:
        if margins.get(line) in _BESIDE_TEXT:
            by_role[margins[line]].append(line)
    return [
        DraftBlock(BlockKind.MARGIN, parts[0].page, union([line.bbox for line in parts]), tuple(parts), furniture=role)
        for role, parts in by_role.items()
    ]


def join_columns(blocks: Sequence[DraftBlock]) -> list[DraftBlock]:
    """Join each paragraph that goes on at the head of the next column, or below wide line spacing."""
    joined: list[DraftBlock] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if before is not None and _goes_on(before, block):
            text = join_broken(before.words, block.words, block.hyphenated)
            lines = (*before.lines, *block.lines)
            joined[-1] = replace(before, lines=lines, text=text, bbox=before.bbox | block.bbox)
        else:
            joined.append(block)
    return joined


def with_item_depths(blocks: Sequence[DraftBlock]) -> list[DraftBlock]:
    """Return blocks, each list item with its depth as its level, from 1.

    An item whose marker is further right than the one before is deeper. In another column or on another page, it is as deep as
    the items of the list whose markers have its form.
    """
    leveled: list[DraftBlock] = []
    lefts: list[float] = []  # where the markers of the items around begin, outermost first
    depths: dict[str, int] = {}  # by the form of the marker
    above: DraftBlock | None = None
    for block in blocks:
        marker = MARKER.match(block.lines[0].text) if block.kind is BlockKind.TEXT and block.lines else None
        if marker is None:
            if block.kind is BlockKind.HEADING or (above is not None and _is_level_with(block, lefts, above)):
                lefts, depths, above = [], {}, None
            leveled.append(block)
            continue
        form = _LETTERS.sub("a", _DIGITS.sub("1", marker[0].strip()))
        marker_x0, tolerance = block.lines[0].bbox.x0, block.lines[0].size / 2
        if above is not None and not _is_below(block, above):
            # Where the outer markers begin in this column is unknown, so only their number is kept.
            lefts = [-inf] * (depths.get(form, 1) - 1)
        while lefts and marker_x0 < lefts[-1] - tolerance:
            lefts.pop()
        if not lefts or marker_x0 > lefts[-1] + tolerance:
            lefts.append(marker_x0)
        depths[form] = len(lefts)
        above = replace(block, level=len(lefts))
        leveled.append(above)
    return leveled


def _is_level_with(block: DraftBlock, lefts: Sequence[float], item: DraftBlock) -> bool:
    """Return whether a paragraph below an item begins where its list's markers do, so that the list is over."""
    return is_divisible(block) and _is_below(block, item) and block.lines[0].bbox.x0 <= lefts[0] + block.lines[0].size / 2


def _is_below(block: DraftBlock, item: DraftBlock) -> bool:
    return block.page == item.page and block.bbox.y0 >= item.bbox.y0


def _goes_on(before: DraftBlock, block: DraftBlock) -> bool:
    """Return whether a block is the rest of the paragraph before it: in the next column, or below wide line spacing."""
    if not (is_divisible(block) and before.kind is BlockKind.TEXT and before.lines):
        return False
    last, first = before.lines[-1], block.lines[0]
    # The block before may be in two columns already, joined from both: the column of its last line counts.
    column = [line.bbox for line in before.lines if line.bbox.x0 < last.bbox.x1 and last.bbox.x0 < line.bbox.x1]
    is_next_column = first.bbox.y1 < last.bbox.y0 and first.bbox.x0 > last.bbox.x1 - last.size
    is_below = 0 <= first.bbox.y0 - last.bbox.y1 <= NEAR_EM * last.size and first.bbox.x0 <= last.bbox.x0 + last.size / 2
    return (
        (is_next_column or is_below)
        and is_same_size(last.size, first.size)
        and (last.font, last.bold) == (first.font, first.bold)
        and not ENDS_SENTENCE.search(last.text)
        and not INDEX_ENTRY.search(last.text)
        and not MARKER.match(first.text)
        and first.text.lstrip()[:1].islower()
        and wraps(last, first, min(box.x0 for box in column), max(box.x1 for box in column))
    )
