"""Choose the pictures for OCR, and add the recognised lines of scanned pages."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from schemas.documents import (
    BlockKind,
    Figure,
    Kind,
    Line,
    Page,
    ParsedDocument,
    Placement,
    RecognisedLine,
    Role,
    StructuredDocument,
)
from schemas.geometry import BBox, gap, skewed, straight, unrotated
from schemas.tags import escape
from tasks.reading.page_order import is_scanned_spread
from tasks.tables.rows import upright
from tasks.tables.tabulate import holds

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
        placement.page: Skew(
            lines[0].skew, ((placement.bbox.x0 + placement.bbox.x1) / 2, (placement.bbox.y0 + placement.bbox.y1) / 2)
        )
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
        apart = previous is None or gap(previous.y0, previous.y1, level.y0, level.y1) > BLOCK_GAP_LINES * level.height
        beside = previous is not None and gap(previous.x0, previous.x1, level.x0, level.x1) > 0
        block += apart or beside
        yield Line(page.page, block, box, escape(line.text), round(SIZE_SHARE * level.height), bold=False)
        previous = level
