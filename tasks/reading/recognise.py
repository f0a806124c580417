"""Choose the pictures for OCR, add the recognised lines of scanned pages, and read the tables of scans and of pictures."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from schemas.documents import (
    BlockKind,
    CellSpan,
    Figure,
    FoundBy,
    Kind,
    Line,
    Page,
    ParsedDocument,
    Placement,
    RecognisedLine,
    RegionKind,
    Role,
    Segment,
    StructuredDocument,
    TableRegion,
)
from schemas.drawings import Mark
from schemas.geometry import BBox, overlap, skewed, straight, union, unrotated
from schemas.tags import escape
from tasks.figures.parts import Part, clusters
from tasks.figures.ruled_tables import ruled_table
from tasks.reading.page_order import is_scanned_spread
from tasks.tables.align import gutters_of, is_split, levels_of
from tasks.tables.promised import ruling_between
from tasks.tables.rows import as_stored, upright
from tasks.tables.tabulate import holds, tabulate

BLOCK_GAP_LINES = 0.8
"""Gap above a recognised line that begins a block, relative to its height."""
SIZE_SHARE = 0.75
"""Type size relative to the height of the box of a recognised line."""


class Skew(NamedTuple):
    """How the scan of a page is skewed: in degrees clockwise, about a point."""

    degrees: float
    centre: tuple[float, float]


def skews_of(document: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]]) -> dict[int, Skew]:
    """Return the skew of each scanned page that has one, by the page's number."""
    return {
        placement.page: Skew(lines[0].skew, (placement.bbox.centre_x, placement.bbox.centre_y))
        for placement, figure in page_scans(document)
        if (lines := recognised.get(figure.figure_id)) and lines[0].skew
    }


def straightened(document: ParsedDocument, skews: Mapping[int, Skew]) -> ParsedDocument:
    """Return a document with boxes as if its scanned pages were straight; the scans themselves stay."""
    if not skews:
        return document
    turned = _boxes(straight, skews)
    return replace(
        document,
        lines=tuple(line._replace(bbox=turned(line.page, line.bbox)) for line in document.lines),
        tables=tuple(replace(table, bbox=turned(table.page, table.bbox)) for table in document.tables),
        placements=tuple(
            placement
            if placement.role is Role.PAGE_SCAN
            else replace(placement, bbox=turned(placement.page, placement.bbox))
            for placement in document.placements
        ),
    )


def as_scanned(document: StructuredDocument, skews: Mapping[int, Skew], as_parsed: ParsedDocument) -> StructuredDocument:
    """Return a structured document with boxes where its skewed pages show the content; placements of the parse as given."""
    if not skews:
        return document
    turned = _boxes(skewed, skews)
    parsed_boxes = {placement.order: placement.bbox for placement in as_parsed.placements}
    placements = tuple(
        replace(placement, bbox=parsed_boxes.get(placement.order) or turned(placement.page, placement.bbox))
        for placement in document.placements
    )
    by_order = {placement.order: placement for placement in placements}
    return replace(
        document,
        placements=placements,
        figures=tuple(replace(figure, placement=by_order[figure.placement.order]) for figure in document.figures),
        blocks=tuple(
            replace(
                block,
                bbox=by_order[block.placement].bbox
                if block.kind is BlockKind.FIGURE and block.placement is not None
                else turned(block.page, block.bbox),
                parts=tuple(replace(part, bbox=turned(part.page, part.bbox)) for part in block.parts),
            )
            for block in document.blocks
        ),
    )


def _boxes(
    turn: Callable[[BBox, float, tuple[float, float]], BBox], skews: Mapping[int, Skew]
) -> Callable[[int, BBox], BBox]:
    def turned(page: int, box: BBox) -> BBox:
        return turn(box, *skews[page]).rounded() if page in skews else box

    return turned


def pictures_to_recognise(placements: Iterable[Placement], labelled: Collection[int]) -> list[str]:
    """Return the sorted ids of figures whose words are not in the PDF's text: images, scanned pages, drawings without text.

    Icons and decoration are left out, since their words answer nothing.
    """
    return sorted(
        {
            placement.figure_id
            for placement in placements
            if placement.figure_id is not None
            and placement.role in (Role.CONTENT, Role.PAGE_SCAN)
            and not (placement.kind is Kind.VECTOR and placement.order in labelled)
        }
    )


def page_scans(document: ParsedDocument) -> Iterator[tuple[Placement, Figure]]:
    """Yield the pictures that are a whole scanned page, with their placements; the page may have a hidden text layer."""
    figures = {figure.figure_id: figure for figure in document.figures}
    for placement in document.placements:
        if placement.role in (Role.PAGE_SCAN, Role.BACKGROUND) and placement.figure_id is not None:
            yield placement, figures[placement.figure_id]


def with_words(document: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]]) -> ParsedDocument:
    """Return a document with the recognised lines of its scanned pages, without words that the PDF has itself.

    Args:
        document: As parsed.
        recognised: Lines by the id of the page's picture; boxes in pixels. The boxes of a skewed page become those of the
            straight page, as the document's are.
    """
    pages = {page.page: page for page in document.pages}
    lines_by_page: dict[int, list[Line]] = defaultdict(list)
    for line in document.lines:
        lines_by_page[line.page].append(line)
    recognised_lines: list[Line] = []
    for placement, figure in page_scans(document):
        lines = recognised.get(figure.figure_id, ())
        recognised_lines.extend(_lines(placement, figure, lines, pages[placement.page], lines_by_page[placement.page]))
    return replace(document, lines=(*document.lines, *recognised_lines)) if recognised_lines else document


def pages_as_read(document: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]]) -> tuple[Page, ...]:
    """Return the pages of a document, scans that lie on their side or upside down rotated as their words are read."""
    turns = {
        placement.page: turn
        for placement, figure in page_scans(document)
        if (turn := _turn(recognised.get(figure.figure_id, ())))
    }
    return tuple(
        replace(page, rotation=(page.rotation - turns[page.page]) % 360) if page.page in turns else page
        for page in document.pages
    )


def _turn(lines: Sequence[RecognisedLine]) -> int:
    return lines[0].turn if lines else 0


def _lines(
    placement: Placement, figure: Figure, read_lines: Sequence[RecognisedLine], page: Page, page_lines: Sequence[Line]
) -> Iterator[Line]:
    """Yield the recognised lines of one page in blocks, boxes converted from pixels to points."""
    block = max((line.block for line in page_lines), default=0)
    previous: BBox | None = None
    turn = page.rotation - _turn(read_lines)
    sheet = upright(BBox(0, 0, page.width_pt, page.height_pt), turn)
    size = figure.width, figure.height
    levels = [upright(unrotated(line.bbox, size, placement.bbox, page.rotation, line.skew), turn) for line in read_lines]
    if is_scanned_spread(levels, sheet):
        # Lines of one page are blocks only if those of the other aren't read between them.
        second = [box.x0 + box.x1 > sheet.x0 + sheet.x1 for box in levels]
        read_lines = [
            line for half in (False, True) for line, is_second in zip(read_lines, second, strict=True) if is_second is half
        ]
    for line in read_lines:
        box = unrotated(line.bbox, (figure.width, figure.height), placement.bbox, page.rotation, line.skew).rounded()
        if any(holds(page_line.bbox, box) for page_line in page_lines):
            continue
        level = upright(box, page.rotation - line.turn)
        # A line that is far below the one before, or beside it, begins a block.
        apart = previous is None or previous.gap_y(level) > BLOCK_GAP_LINES * level.height
        beside = previous is not None and previous.gap_x(level) > 0
        block += apart or beside
        yield Line(page.page, block, box, escape(line.text), round(SIZE_SHARE * level.height), bold=False)
        previous = level


TOUCH_PT = 2.0
"""Tolerated gap between two rules that touch."""
PADDING_SHARE = 0.15
"""Width of the white around the letters in a box of OCR, relative to its height."""
FILLED_SHARE = 0.3
"""Minimum share of the cells with words where a layout model finds a table, too. Of 57 ruled tables one has fewer, and is read
better by its words.
"""
MOSTLY_FILLED_SHARE = 0.55
"""Minimum share of the cells with words in a table that rules alone show. Of 111 pages the grids of six charts have at most 0.46,
all 8 tables 0.69. In a picture on a page with text, the layout model's tables need as many, too: a sequence diagram that it takes
for one has 0.37.
"""

SPANNING_SHARE = 0.8
"""Minimum width of a rule between two rows, relative to the words of the table."""
FEWEST_RULES = 2
"""Minimum rules between rows from which on they, not lines of words, are the edges of all rows; one is below the head."""
FEWEST_ROWS, SPLIT_ROWS_SHARE = 3, 0.5
"""Minimum rows of words with cells, and minimum share of them."""
SENTENCE_CHARACTERS, MOST_SENTENCE_COLUMNS = 32, 1
"""Length of a line from which on its column has sentences, and maximum such columns: more are columns of prose."""


def with_recognised_tables(
    document: ParsedDocument,
    segments: Mapping[str, Sequence[Segment]],
    rules: Mapping[str, Sequence[BBox]],
    pages: Sequence[Page],
    skews: Mapping[int, float] = MappingProxyType({}),
) -> ParsedDocument:
    """Return a document with the tables of its scanned pages, where their words are read and show cells.

    Args:
        document: As parsed, with the words of its scanned pages.
        segments: Segments by the id of the page's picture.
        rules: Rules by the id of the page's picture, in its pixels.
        pages: The pages as their words are read; the document's are as they are displayed.
        skews: Of scanned pages, in degrees by the page's number; the document's boxes are those of straight pages.
    """
    displayed = {page.page: page.rotation for page in document.pages}
    rotations = {page.page: page.rotation for page in pages}
    lines: dict[int, list[Line]] = defaultdict(list)
    for line in document.lines:
        lines[line.page].append(line)
    tables: list[TableRegion] = []
    for scan, picture in page_scans(document):
        if not lines[scan.page]:
            continue
        cut = segments.get(picture.figure_id, ())
        boxes = [segment.region.bbox for segment in cut if segment.region.kind is RegionKind.TABLE]
        size = picture.width, picture.height
        # Boxes in pixels are those of the page as it is displayed; rows are those of the page as its words are read.
        drawn, promised = (
            [unrotated(box, size, scan.bbox, displayed[scan.page], skews.get(scan.page, 0.0)).rounded() for box in some]
            for some in (rules.get(picture.figure_id, ()), boxes)
        )
        words = [_tight(line, rotations[scan.page]) for line in lines[scan.page]]
        tables += _tables(drawn, promised, words, rotations[scan.page])
    return replace(document, tables=(*document.tables, *tables)) if tables else document


def tables_of_pictures(
    document: ParsedDocument,
    recognised: Mapping[str, Sequence[RecognisedLine]],
    tables: Mapping[str, Sequence[BBox]],
    rules: Mapping[str, Sequence[BBox]],
) -> dict[int, list[TableRegion]]:
    """Return the tables in pictures on upright pages with text of their own, by the order of the placement.

    Args:
        document: As parsed.
        recognised: Lines by the id of the picture; boxes in pixels.
        tables: What a layout model found, by the id of the picture, in pixels.
        rules: Rules by the id of the picture, in its pixels.
    """
    if not tables:
        return {}
    upright_pages = {page.page for page in document.pages if page.rotation % 360 == 0}
    figures = {figure.figure_id: figure for figure in document.figures}
    tables_by_placement: dict[int, list[TableRegion]] = {}
    for placement in document.placements:
        name = placement.figure_id
        if name is None or name not in tables or placement.role is not Role.CONTENT or placement.page not in upright_pages:
            continue
        size = figures[name].width, figures[name].height
        drawn, promised, boxes = (
            [unrotated(box, size, placement.bbox, 0).rounded() for box in some]
            for some in (rules.get(name, ()), tables[name], [line.bbox for line in recognised.get(name, ())])
        )
        words = [
            _tight(Line(placement.page, 0, box, escape(line.text), round(SIZE_SHARE * box.height), bold=False), 0)
            for line, box in zip(recognised.get(name, ()), boxes, strict=True)
            if not line.turn and not line.skew
        ]
        # Rules alone may be those of a diagram: the layout model must see each table as well.
        read = [
            table
            for table in (_tables(drawn, promised, words, 0) if words else ())
            if any(holds(box, table.bbox) for box in promised)
        ]
        if sure := [table for table in read if _filled(table) >= MOSTLY_FILLED_SHARE]:
            tables_by_placement[placement.order] = sure
    return tables_by_placement


def _filled(table: TableRegion) -> float:
    """Return the share of a table's cells with words."""
    cells = [cell for row in table.rows for cell in row]
    return sum(map(bool, cells)) / len(cells)


def _tables(rules: Sequence[BBox], promised: Sequence[BBox], lines: Sequence[Line], rotation: int) -> list[TableRegion]:
    """Return the tables that rules draw, and those that a layout model found and words in columns show."""
    tables = list(_ruled(rules, promised, lines, rotation))
    for box in promised:
        free = [line for line in lines if not any(holds(table.bbox, line.bbox) for table in tables)]
        inner = [line._replace(bbox=upright(line.bbox, rotation)) for line in free if holds(box, line.bbox)]
        across = [upright(rule, rotation) for rule in rules if holds(box, rule)]
        if (read_table := _in_columns(across, inner)) is not None:
            tables.append(
                replace(read_table, bbox=as_stored(read_table.bbox, rotation).rounded(), found_by=FoundBy.RECOGNISED)
            )
    return tables


def _in_columns(rules: Sequence[BBox], lines: Sequence[Line]) -> TableRegion | None:
    """Return the upright table of a region whose columns words show; its rows end at rules, or each is a row of words."""
    gutters = gutters_of(lines)
    if not gutters:
        return None
    box = union(line.bbox for line in lines)
    across = sorted(rule.centre_y for rule in rules if rule.width >= SPANNING_SHARE * box.width)
    inner = [y for y in across if any(line.bbox.y1 <= y for line in lines) and any(y <= line.bbox.y0 for line in lines)]
    is_ruled = len(inner) >= FEWEST_RULES and not _are_groups((box.y0, *inner, box.y1), gutters, lines)
    if is_ruled:
        below = [line.bbox for line in lines if line.bbox.y0 >= inner[-1]]
        if any(line.x0 < gutter < line.x1 for line in below for gutter in gutters):
            box = box._replace(y1=inner.pop())  # a note below the table
            lines = [line for line in lines if line.bbox.y0 < box.y1]
    else:
        levels = levels_of(lines)
        if sum(map(is_split, levels)) < max(FEWEST_ROWS, SPLIT_ROWS_SHARE * len(levels)):
            return None
        boxes = [union(line.bbox for line in level) for level in levels]
        # Boxes of rows may overlap, so each edge is at least as low as the one before.
        inner = [*accumulate(((above.y1 + below.y0) / 2 for above, below in pairwise(boxes)), max)]
    # Rows of words are those of a layout model; between rules may be more than one.
    found_by = FoundBy.RECOGNISED if is_ruled else FoundBy.LAYOUT
    grid = tabulate(ruling_between(box, (box.y0, *inner, box.y1), gutters, found_by), lines, _letters_of)
    if grid is None or sum(map(_is_prose, zip(*grid.rows, strict=True))) > MOST_SENTENCE_COLUMNS:
        return None
    return TableRegion(lines[0].page, grid.bbox, grid.rows, grid.found_by, grid.spans)


def _are_groups(edges: Sequence[float], gutters: Sequence[float], lines: Sequence[Line]) -> bool:
    """Return whether rules are between groups of rows: below the head, each has a number below a number."""
    cells = defaultdict(list)
    for line in lines:
        if any(map(str.isdigit, line.text)) and not any(map(str.isalpha, line.text)):
            x, y = line.bbox.centre_x, line.bbox.centre_y
            cells[bisect_right(edges, y), bisect_right(gutters, x)].append(line)
    # `bisect_right` counts rows from 1, which is the head: the rows below it are from 2 on.
    groups = {row for (row, _), numbers in cells.items() if len(levels_of(numbers)) > 1}
    return groups >= set(range(2, len(edges)))


def _is_prose(column: Sequence[str]) -> bool:
    lengths = [len(line) for cell in column for line in cell.splitlines()]
    return median(lengths or [0]) > SENTENCE_CHARACTERS


def _tight(line: Line, rotation: int) -> Line:
    """Return a recognised line without the white around its letters that OCR puts into its box."""
    box = upright(line.bbox, rotation)
    y = PADDING_SHARE * box.height
    # A lone digit is narrower than it is high.
    x = min(y, PADDING_SHARE * box.width)
    return line._replace(bbox=as_stored(BBox(box.x0 + x, box.y0 + y, box.x1 - x, box.y1 - y), rotation))


def _ruled(rules: Sequence[BBox], promised: Sequence[BBox], lines: Sequence[Line], rotation: int) -> Iterator[TableRegion]:
    for group in clusters(rules, lambda one, other: overlap(one.grown(TOUCH_PT), other.grown(TOUCH_PT))):
        part = Part(union(group), tuple(Mark(rule, 0, filled=True, white=False) for rule in group))
        ruling = ruled_table(part, lines)
        grid = tabulate(ruling, lines, _letters_of, rotation) if ruling is not None else None
        if grid is not None and any(map(any, grid.rows)):
            table = _cropped(TableRegion(lines[0].page, grid.bbox, grid.rows, FoundBy.RECOGNISED, grid.spans))
            is_promised = any(holds(box, table.bbox) or holds(table.bbox, box) for box in promised)
            if _filled(table) >= (FILLED_SHARE if is_promised else MOSTLY_FILLED_SHARE):
                yield table


def _cropped(table: TableRegion) -> TableRegion:
    """Return a table without blank rows and columns at its edges, which a frame around it makes."""
    rows = [number for number, row in enumerate(table.rows) if any(row)]
    columns = [number for number, column in enumerate(zip(*table.rows, strict=True)) if any(column)]
    first_row, first_column, end_row, end_column = rows[0], columns[0], rows[-1] + 1, columns[-1] + 1
    spans = tuple(
        CellSpan(
            span.row - first_row,
            span.column - first_column,
            min(span.row + span.rowspan, end_row) - span.row,
            min(span.column + span.colspan, end_column) - span.column,
        )
        for span in table.spans
        if table.rows[span.row][span.column]
    )
    return replace(table, rows=tuple(row[first_column:end_column] for row in table.rows[first_row:end_row]), spans=spans)


def _letters_of(line: Line) -> tuple[str, list[BBox]]:
    """Return the letters of a recognised line, and the box of each as if all were of one width."""
    x0, y0, x1, y1 = line.bbox
    step = (x1 - x0) / max(1, len(line.text))
    return line.text, [BBox(x0 + step * at, y0, x0 + step * (at + 1), y1) for at in range(len(line.text))]
