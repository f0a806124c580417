"""Structure a parsed document: reading order, sections, captions, mentions, tables. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from schemas.documents import (
    TAGGED,
    BlockKind,
    FoundBy,
    Furniture,
    Line,
    ParsedDocument,
    Placement,
    RecognisedLine,
    Role,
    Segment,
    StructuredDocument,
    TableRegion,
)
from schemas.errors import FailureCode
from schemas.geometry import BBox
from schemas.tags import placeholders
from tasks.figures.segment import with_segments
from tasks.reading.bidi import runs_right_to_left
from tasks.reading.build_document import build_document
from tasks.reading.code import find_code, is_typewritten
from tasks.reading.continued import join_continued
from tasks.reading.draft_blocks import DraftBlock, PageContent
from tasks.reading.drop_caps import with_drop_caps
from tasks.reading.footnotes import with_footnotes
from tasks.reading.icons import with_icons
from tasks.reading.inside import with_words_of_segments
from tasks.reading.join import hyphenated_words
from tasks.reading.margins import find_margins
from tasks.reading.outline import Headings, body_size
from tasks.reading.page_order import in_page_order, with_margins_outside
from tasks.reading.paragraphs import join_columns, paragraphs, with_item_depths
from tasks.reading.printed_labels import printed_labels
from tasks.reading.recognise import pages_as_read, with_words
from tasks.reading.recognised_tables import tables_of_pictures, with_recognised_tables
from tasks.reading.set_figures import with_figures
from tasks.reading.set_tables import with_tables, with_tables_of_pictures
from tasks.reading.spreads import split_spread
from tasks.reading.straighten import as_scanned, skews_of, straightened
from tasks.tables.rows import rotation_of
from tasks.tables.tabulate import holds

STRUCTURE_VERSION = "35"


def structure(
    parsed: ParsedDocument,
    recognised: Mapping[str, Sequence[RecognisedLine]],
    segments: Mapping[str, Sequence[Segment]] = MappingProxyType({}),
    rules: Mapping[str, Sequence[BBox]] = MappingProxyType({}),
    tables: Mapping[str, Sequence[BBox]] = MappingProxyType({}),
) -> StructuredDocument:
    """Return a document in reading order.

    MuPDF's order of blocks follows columns and is kept, except for blocks whose position contradicts it. A figure, the words
    inside it and its caption are inserted as one unit.

    Args:
        parsed: The document as parsed.
        recognised: OCR lines of figures and scanned pages, by figure id; boxes in pixels.
        segments: Figures cut out of pages that are a picture, by the picture's id.
        rules: Rules in the pixels of such pages, and of pictures with tables, by the picture's id.
        tables: Tables in pictures on other pages, by the picture's id; boxes in pixels.
    """
    as_parsed = parsed
    pages, skews = pages_as_read(parsed, recognised), skews_of(parsed, recognised)
    degrees = {page: skew.degrees for page, skew in skews.items()}
    pictured = tables_of_pictures(parsed, recognised, tables, rules)
    parsed = with_words(straightened(parsed, skews), recognised)
    parsed = with_recognised_tables(parsed, segments, rules, pages, degrees)
    parsed = replace(with_segments(parsed, segments, degrees), pages=pages)
    parsed = replace(parsed, lines=tuple(with_drop_caps(parsed.lines)))
    contents = [with_words_of_segments(content) for content in _contents(parsed)]
    lines = tuple(line for content in contents for line in content.lines)
    margins = find_margins(lines, parsed.pages, parsed.outline)
    headings = Headings(lines, parsed.outline, margins.keys())
    hyphenated = hyphenated_words(lines)
    typewritten = is_typewritten(lines)
    blocks = [
        replace(block, level=headings.level_of(block.lines)) if block.kind is BlockKind.HEADING else block
        for content in contents
        for block in with_tables_of_pictures(
            _blocks(content, margins, headings, hyphenated, typewritten=typewritten), pictured
        )
    ]
    blocks = with_footnotes(join_continued(with_item_depths(blocks)), body_size(lines))
    read_pages = {line.page for line in lines}
    failures = [
        failure
        for failure in parsed.failures
        if failure.code != FailureCode.FONT_UNREADABLE or failure.page not in read_pages  # OCR read the others
    ]
    document = build_document(
        replace(parsed, lines=lines, failures=tuple(failures)), blocks, headings, recognised, hyphenated
    )
    numbered = (line for line, role in margins.items() if role in (Furniture.HEAD, Furniture.FOOT, Furniture.PAGE_NUMBER))
    labels = parsed.labels or printed_labels(numbered, len(as_parsed.pages))
    return as_scanned(replace(document, pages=as_parsed.pages, labels=labels), skews, as_parsed)


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
        if table.found_by is FoundBy.RECOGNISED or not any(holds(placement.bbox, table.bbox) for placement in tagged)
    ]
    in_tables = [name for table in tables for row in table.rows for cell in row for name in placeholders(cell)]
    alone: list[Placement] = []
    for placement in tagged:
        if placement.figure_id in in_tables:
            in_tables.remove(placement.figure_id)
        else:
            alone.append(placement)
    free, alone = with_icons(free, alone, content.page.rotation)
    framed = [(table, frozenset(line for line in free if holds(table.bbox, line.bbox))) for table in tables]
    set_lines = set(margins).union(*(table_lines for _, table_lines in framed))
    code: dict[Line, int] = {}
    if not typewritten and not rotation_of(free, content.page.rotation):
        no_code = set_lines.union(line for line in free if headings.is_heading(line))
        code = {line: number for number, run in enumerate(find_code(free, no_code)) for line in run}
    right_to_left = runs_right_to_left("".join([line.text for line in content.lines]))
    page_blocks: list[DraftBlock] = []
    text_blocks = with_tables(paragraphs(free, margins, headings, hyphenated, code), framed)
    scanned = any(placement.role is Role.PAGE_SCAN for placement in content.placements)
    for blocks, pictures in split_spread(text_blocks, alone, content.page, right_to_left=right_to_left, scanned=scanned):
        ordered = in_page_order(blocks, pictures, content.page, right_to_left=right_to_left)
        page_blocks += with_figures(ordered, pictures, inner, content.page, right_to_left=right_to_left)
    joined = page_blocks if rotation_of(free, content.page.rotation) else join_columns(page_blocks, hyphenated)
    return with_margins_outside(joined, content.page)
