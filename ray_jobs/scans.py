"""Read scanned pages: what OCR recognised becomes the text layer of a page, which is read as any other."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image as Pillow

from backends.pdf.document import open_document
from backends.pdf.scans import ScannedLine, scanned_lines, scanned_page, with_type
from schemas.corpus import ParseOptions
from schemas.documents import Figure, Line, Page, ParsedDocument, Placement, RecognisedLine, Role
from schemas.drawings import InkedRun
from schemas.geometry import BBox, straight, unrotated
from schemas.ids import figure_file
from schemas.ports import ObjectStore
from schemas.tags import restore
from tasks.figures.pixel_rules import ink_of, rules_in, straightened
from tasks.reading.parse import parse
from tasks.reading.recognise import Skew, page_scans
from tasks.tables.rows import rotation_of
from tasks.tables.tabulate import holds

SAME_SHARE = 0.5
"""Minimum overlap, over union, of two boxes of one picture."""


def with_scans_read(
    document: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]], store: ObjectStore
) -> tuple[ParsedDocument, dict[int, Skew]]:
    """Return a document with the content of its scanned pages, and the skew of those that have one.

    The boxes of a skewed page are those of the straight page.

    Args:
        document: As parsed.
        recognised: Lines by the id of the page's picture; boxes in pixels.
        store: Has the pictures, and gets those that are cut out of them.
    """
    scans = {scan.page: (scan, figure) for scan, figure in page_scans(document) if recognised.get(figure.figure_id)}
    skews = {
        number: Skew(lines[0].skew, (scan.bbox.centre_x, scan.bbox.centre_y))
        for number, (scan, figure) in scans.items()
        if (lines := recognised[figure.figure_id])[0].skew
    }
    document = _straight(document, skews)
    pages = [
        _scanned(document, scan, figure, recognised[figure.figure_id], store.get(figure_file(figure.figure_id)))
        for scan, figure in scans.values()
    ]
    # All pages together tell the type sizes.
    typed = iter(with_type([line for page in pages for line in page.lines]))
    for page in pages:
        document = _with_page(document, replace(page, lines=[next(typed) for _ in page.lines]), store)
    return document, skews


def _straight(document: ParsedDocument, skews: Mapping[int, Skew]) -> ParsedDocument:
    """Return a document with boxes as if its scanned pages were straight; the scans themselves stay."""

    def level(page: int, box: BBox) -> BBox:
        return straight(box, *skews[page]).rounded() if page in skews else box

    return replace(
        document,
        lines=tuple(line._replace(bbox=level(line.page, line.bbox)) for line in document.lines),
        tables=tuple(replace(table, bbox=level(table.page, table.bbox)) for table in document.tables),
        placements=tuple(
            placement
            if placement.role is Role.PAGE_SCAN
            else replace(placement, bbox=level(placement.page, placement.bbox))
            for placement in document.placements
        ),
    )


@dataclass(frozen=True)
class _ScannedPage:
    """A scanned page as its words are read, which may be turned on the page as displayed; ``bbox`` is its straight picture's."""

    page: Page
    rotation: int
    figure: Figure
    bbox: BBox
    is_skewed: bool
    lines: Sequence[ScannedLine]


def _scanned(
    document: ParsedDocument, scan: Placement, figure: Figure, recognised: Sequence[RecognisedLine], picture: bytes
) -> _ScannedPage:
    page = next(page for page in document.pages if page.page == scan.page)
    size, box, boxes = (figure.width, figure.height), scan.bbox, [line.bbox for line in recognised]
    if recognised[0].skew and (level := straightened(picture)) is not None:
        picture, box = level.picture, unrotated(level.level_box, size, scan.bbox, page.rotation)
        boxes = [level.as_straight(box) for box in boxes]
    free_lines = _free_lines(document, scan.page)
    direction = rotation_of(free_lines, page.rotation)
    lines = [part for line in free_lines for part in scanned_lines(line.bbox, direction, [InkedRun(restore(line.text))])]
    for line, ink in zip(recognised, ink_of(picture, recognised, boxes), strict=True):
        line_box = unrotated(line.bbox, size, scan.bbox, page.rotation, line.skew)
        if not any(holds(own_line.bbox, line_box) for own_line in free_lines):
            lines += scanned_lines(line_box, (page.rotation - line.turn) % 360, ink)
    as_read = replace(page, rotation=(page.rotation - recognised[0].turn) % 360)
    return _ScannedPage(as_read, page.rotation, figure, box, bool(recognised[0].skew), lines)


def _free_lines(document: ParsedDocument, page: int) -> list[Line]:
    """Return the lines that a scanned page has already, as of a stamp, but for those of pictures on it."""
    return [line for line in document.lines if line.page == page and line.inside is None]


def _with_page(document: ParsedDocument, scanned: _ScannedPage, store: ObjectStore) -> ParsedDocument:
    """Return a document with the content of a scanned page."""
    number = scanned.page.page
    picture = store.get(figure_file(scanned.figure.figure_id))
    if scanned.is_skewed and (level := straightened(picture)) is not None:
        picture = level.picture
    pictures: dict[str, bytes] = {}
    with Pillow.open(io.BytesIO(picture)) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    height, width, _ = pixels.shape
    rules = [unrotated(rule, (width, height), scanned.bbox, scanned.rotation) for rule in rules_in(pixels)]
    pdf = scanned_page(scanned.page, picture, scanned.bbox, scanned.rotation, scanned.lines, rules)
    options = ParseOptions()
    read = parse(open_document(pdf), document.doc_id, options, keep_figure=pictures.__setitem__, as_scans=True)
    content_boxes = [
        placement.bbox for placement in document.placements if placement.page == number and placement.role is Role.CONTENT
    ]
    placed = [
        placement for placement in read.placements if not any(box.iou(placement.bbox) > SAME_SHARE for box in content_boxes)
    ]
    orders = {
        placement.order: order
        for order, placement in enumerate(placed, 1 + max(placement.order for placement in document.placements))
    }
    for name, data in pictures.items():
        store.put(f"figures/{name}", data)
    figures = {figure.figure_id: figure for figure in (*document.figures, *read.figures)}
    free_lines = set(_free_lines(document, number))
    lines = (
        line._replace(page=number, inside=None if line.inside is None else orders.get(line.inside)) for line in read.lines
    )
    return replace(
        document,
        title=document.title or (read.title if number == 1 else ""),
        pages=tuple(scanned.page if page.page == number else page for page in document.pages),
        lines=(*(line for line in document.lines if line not in free_lines), *lines),
        figures=tuple(figures.values()),
        placements=(
            *document.placements,
            *(replace(placement, page=number, order=orders[placement.order]) for placement in placed),
        ),
        tables=(*document.tables, *(replace(table, page=number) for table in read.tables)),
        failures=(*document.failures, *(replace(failure, page=number) for failure in read.failures)),
    )
