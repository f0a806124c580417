"""Structure a parsed document: reading order, sections, captions, mentions, tables. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from schemas.corrections import StoredCorrection
from schemas.documents import (
    TAGGED,
    Block,
    BlockKind,
    Furniture,
    Kind,
    Line,
    PageFailure,
    ParsedDocument,
    PlacedFigure,
    Placement,
    RecognisedLine,
    Role,
    StructuredDocument,
    TableRegion,
)
from schemas.errors import FailureCode
from schemas.geometry import BBox
from schemas.tags import escape, placeholders, strip
from schemas.text import CaptionLabel, mentions
from tasks.figures.anchor import callouts, find_keys, match_keys
from tasks.reading.code import find_code, is_typewritten
from tasks.reading.correct import with_roles
from tasks.reading.join import hyphenated_words, join_lines
from tasks.reading.margins import find_margins
from tasks.reading.outline import Headings, body_size
from tasks.reading.page_numbers import printed_labels
from tasks.reading.page_order import in_page_order, split_spread, with_margins_outside
from tasks.reading.paragraphs import (
    DraftBlock,
    PageContent,
    join_columns,
    letters_of_text,
    paragraphs,
    with_footnotes,
    with_item_depths,
)
from tasks.reading.set_figures import with_figures, with_icons
from tasks.reading.set_tables import join_continued, with_tables
from tasks.tables.rows import rotation_of
from tasks.tables.tabulate import holds

STRUCTURE_VERSION = "46"

SCAN_SHARE = 0.5
"""Minimum share of a page that a scan covers to which a system added lines in the margins."""


def _figures(
    parsed: ParsedDocument,
    drafts: Sequence[DraftBlock],
    blocks: Sequence[Block],
    recognised: Mapping[str, Sequence[RecognisedLine]],
    hyphenated: frozenset[str],
) -> list[PlacedFigure]:
    """Return the figures of a document in the order of their placements; ``hyphenated`` are as for ``join_lines``."""
    inner: dict[int, list[str]] = defaultdict(list)
    for line in parsed.lines:
        if line.inside is not None:
            inner[line.inside].append(line.text)
    words = {
        placement.order: _inner_text(inner[placement.order], recognised.get(placement.figure_id or "", ()))
        for placement in parsed.placements
        if placement.role in TAGGED
    }
    keys = _keys(drafts, inner, recognised)
    placed = _placed_figures(drafts, blocks, keys, words, hyphenated)
    inline = _inline_figures(parsed.placements, placed, blocks, words)
    return sorted([*placed, *inline], key=lambda figure: figure.placement.order)


def _document_blocks(drafts: Sequence[DraftBlock], headings: Headings) -> list[Block]:
    figures_by_label = _figures_by_label(drafts)
    path = headings.path()
    blocks: list[Block] = []
    for order, draft in enumerate(drafts):
        words, placement = draft.words, draft.placement
        figure_id = placement.figure_id if placement else None
        mentioned = (
            figures_by_label.get(label) or figures_by_label.get(_whole_figure_label(label)) for label in mentions(words)
        )
        blocks.append(
            Block(
                order=order,
                page=draft.page,
                kind=draft.kind,
                bbox=draft.bbox,
                text=words,
                section_path=path.at(
                    draft.page, draft.bbox, words if draft.kind is BlockKind.HEADING else None, draft.level
                ),
                level=draft.level,
                placement=placement.order if placement else None,
                mentions=tuple(dict.fromkeys(name for name in mentioned if name is not None and name != figure_id)),
                rows=draft.rows,
                parts=draft.parts,
                spans=draft.spans,
                furniture=draft.furniture,
            )
        )
    return blocks


def _placed_figures(
    drafts: Sequence[DraftBlock],
    blocks: Sequence[Block],
    keys: Mapping[int, tuple[Line, ...]],
    words: Mapping[int, str],
    hyphenated: frozenset[str],
) -> list[PlacedFigure]:
    """Return the figures that are blocks of their own, each with the text beside it."""
    holders = {line: order for order, draft in enumerate(drafts) for line in draft.lines}
    placed: list[PlacedFigure] = []
    for block, draft in zip(blocks, drafts, strict=True):
        placement = draft.placement
        if draft.kind is not BlockKind.FIGURE or placement is None:
            continue
        key = keys.get(placement.order, ())
        beside_blocks = tuple(dict.fromkeys(holders[line] for line in (*draft.step, *key) if line in holders))
        step = "\n".join(join_lines(lines, hyphenated=hyphenated) for lines in (draft.step, key) if lines)
        inside = words[placement.order]
        placed.append(PlacedFigure(placement, draft.caption, block.section_path, inside, block.order, step, beside_blocks))
    return placed


def _keys(
    drafts: Sequence[DraftBlock], inner: Mapping[int, Sequence[str]], recognised: Mapping[str, Sequence[RecognisedLine]]
) -> dict[int, tuple[Line, ...]]:
    """Return the lines of the key that explains each figure's callouts, by the order of the placement."""
    pointed: dict[int, dict[int, tuple[BBox, frozenset[str]]]] = defaultdict(dict)
    for draft in drafts:
        if draft.kind is BlockKind.FIGURE and (placement := draft.placement) is not None:
            recognised_texts = (line.text for line in recognised.get(placement.figure_id or "", ()))
            if names := callouts([*inner.get(placement.order, ()), *recognised_texts]):
                pointed[placement.page][placement.order] = placement.bbox, names
    keys: dict[int, tuple[Line, ...]] = {}
    for page, figures in pointed.items():
        text = (draft for draft in drafts if draft.page == page and draft.kind in (BlockKind.TEXT, BlockKind.TABLE))
        keys_by_order = match_keys(figures, find_keys([line for draft in text for line in draft.lines]))
        keys |= {order: key.lines for order, key in keys_by_order.items()}
    return keys


def _figures_by_label(drafts: Sequence[DraftBlock]) -> dict[CaptionLabel, str]:
    """Return the figure of each label; the first if two have one number."""
    figures_by_label: dict[CaptionLabel, str] = {}
    for draft in drafts:
        if draft.label is not None and draft.label.number and draft.placement is not None and draft.placement.figure_id:
            figures_by_label.setdefault(draft.label, draft.placement.figure_id)
    return figures_by_label


def _whole_figure_label(label: CaptionLabel) -> CaptionLabel:
    """Return the label of the whole figure for a part such as ``3a``."""
    return replace(label, number=label.number.rstrip("abcdefghij"))


def _inner_text(text_lines: Sequence[str], recognised_lines: Sequence[RecognisedLine]) -> str:
    """Join the words that a figure contains as text with its OCR lines, each line once."""
    known_letters = {letters_of_text(line) for line in text_lines}
    further = [escape(line.text) for line in recognised_lines if letters_of_text(line.text) not in known_letters]
    return "\n".join(line.strip() for line in (*text_lines, *further))


def _inline_figures(
    placements: Sequence[Placement], placed: Sequence[PlacedFigure], blocks: Sequence[Block], words: Mapping[int, str]
) -> Iterator[PlacedFigure]:
    """Yield the figures in a line of text or in a table, each with the text of the block or row."""
    own_blocks = {figure.placement.order for figure in placed}
    holders: dict[tuple[int, str], list[tuple[Block, str]]] = defaultdict(list)
    for block in blocks:
        pages = {block.page, *(part.page for part in block.parts)}
        for text in [" ".join(row) for row in block.rows] or [block.text]:
            for name in placeholders(text):
                for page in pages:
                    holders[page, name].append((block, " ".join(strip(text).split())))
    for placement in placements:
        blocks_with_text = holders.get((placement.page, placement.figure_id or ""))
        if placement.role in TAGGED and placement.order not in own_blocks and blocks_with_text:
            # One figure may be in several rows.
            block, step = blocks_with_text.pop(0) if len(blocks_with_text) > 1 else blocks_with_text[0]
            inside = words[placement.order]
            yield PlacedFigure(placement, "", block.section_path, inside, block.order, step, (block.order,))


def structure(
    parsed: ParsedDocument,
    recognised: Mapping[str, Sequence[RecognisedLine]],
    corrections: Sequence[StoredCorrection] = (),
) -> StructuredDocument:
    """Return a document in reading order.

    MuPDF's order of blocks follows columns and is kept, except for blocks whose position contradicts it. A figure, the words
    inside it and its caption are inserted as one unit.

    Args:
        parsed: The document as parsed.
        recognised: OCR lines of figures and scanned pages, by figure id; boxes in pixels.
        corrections: Those of the document, of which the roles of figures are applied here.
    """
    parsed = with_roles(parsed, corrections)
    contents = [*_contents(parsed)]
    lines = tuple(line for content in contents for line in content.lines)
    margins = find_margins(lines, parsed.pages, parsed.outline)
    headings = Headings(lines, parsed.outline, margins.keys())
    hyphenated = hyphenated_words(lines)
    typewritten = is_typewritten(lines)
    drafts = [
        block for content in contents for block in _blocks(content, margins, headings, hyphenated, typewritten=typewritten)
    ]
    drafts = with_footnotes(join_continued(with_item_depths(drafts)), body_size(lines))
    read_pages = {line.page for line in lines}
    failures = [
        failure
        for failure in parsed.failures
        if failure.code != FailureCode.FONT_UNREADABLE or failure.page not in read_pages  # OCR read the others
    ]
    failures += _unread_pictures(parsed, recognised, {line.page for line in lines if line not in margins})
    numbered = (line for line, role in margins.items() if role in (Furniture.HEAD, Furniture.FOOT, Furniture.PAGE_NUMBER))
    blocks = _document_blocks(drafts, headings)
    return StructuredDocument(
        doc_id=parsed.doc_id,
        title=parsed.title,
        pages=parsed.pages,
        blocks=tuple(blocks),
        figures=tuple(_figures(parsed, drafts, blocks, recognised, hyphenated)),
        placements=parsed.placements,
        pictures=parsed.figures,
        failures=tuple(failures),
        date=parsed.date,
        labels=parsed.labels or printed_labels(numbered, len(parsed.pages)),
        pdf=parsed.pdf,
    )


def _unread_pictures(
    parsed: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]], pages_with_text: Set[int]
) -> Iterator[PageFailure]:
    """Yield a failure for each page that is a picture, but for what stands in its margins, and that OCR has not read."""
    areas = {page.page: page.box.area for page in parsed.pages}
    for placement in parsed.placements:
        fills_page = placement.bbox.area >= SCAN_SHARE * areas[placement.page] and placement.kind is Kind.RASTER
        if (
            (placement.role is Role.PAGE_SCAN or fills_page)
            and placement.figure_id not in recognised
            and placement.page not in pages_with_text
        ):
            message = "the page is a picture: without OCR its words are left out"
            yield PageFailure(placement.page, FailureCode.NEEDS_OCR, message)


def _contents(parsed: ParsedDocument) -> Iterator[PageContent]:
    lines: dict[int, list[Line]] = defaultdict(list)
    placements: dict[int, list[Placement]] = defaultdict(list)
    tables: dict[int, list[TableRegion]] = defaultdict(list)
    for line in parsed.lines:
        lines[line.page].append(line)
    for placement in parsed.placements:
        placements[placement.page].append(placement)
    for table in parsed.tables:
        tables[table.page].append(table)
    for page in parsed.pages:
        yield PageContent(page, tuple(lines[page.page]), tuple(placements[page.page]), tuple(tables[page.page]))


def _blocks(
    content: PageContent,
    margins: Mapping[Line, Furniture],
    headings: Headings,
    hyphenated: frozenset[str],
    *,
    typewritten: bool,
) -> list[DraftBlock]:
    """Return the blocks of one page in reading order."""
    tagged = [placement for placement in content.placements if placement.role in TAGGED and placement.figure_id is not None]
    pictured = {placement.order for placement in tagged}
    # Words inside a picture without a tag are text like any other.
    inner = {order: [line for line in content.lines if line.inside == order] for order in pictured}
    free = [line for line in content.lines if line.inside not in pictured]
    tables = [
        table
        for table in content.tables
        # The picture of a cell in the middle has the table's middle, too.
        if not any(holds(picture.bbox, table.bbox) and picture.bbox.area > table.bbox.area for picture in tagged)
    ]
    in_tables = [name for table in tables for row in table.rows for cell in row for name in placeholders(cell)]
    alone: list[Placement] = []
    for placement in tagged:
        # A figure may be placed in cells and elsewhere on the page: each placeholder in a cell stands for one placement.
        if placement.figure_id in in_tables:
            in_tables.remove(placement.figure_id)
        else:
            alone.append(placement)
    # A watermark lies across lines, icons and cells that have nothing to do with it.
    across = [line for line in free if margins.get(line) is Furniture.WATERMARK]
    level, alone = with_icons([line for line in free if line not in across], alone, content.page.rotation)
    free = [*level, *across]
    framed = [(table, frozenset(line for line in level if holds(table.bbox, line.bbox))) for table in tables]
    set_lines = set(margins).union(*(table_lines for _, table_lines in framed))
    code: dict[Line, int] = {}
    if not typewritten and not rotation_of(free, content.page.rotation):
        no_code = set_lines.union(line for line in free if headings.is_heading(line))
        code = {line: number for number, run in enumerate(find_code(free, no_code)) for line in run}
    page_blocks: list[DraftBlock] = []
    text_blocks = with_tables(paragraphs(free, margins, headings, hyphenated, code), framed)
    for blocks, pictures in split_spread(text_blocks, alone, content):
        page_blocks += with_figures(in_page_order(blocks, pictures, content), pictures, inner, content)
    joined = page_blocks if rotation_of(free, content.page.rotation) else join_columns(page_blocks)
    return with_margins_outside(joined, content)
