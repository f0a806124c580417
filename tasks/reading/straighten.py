"""Read skewed scans as straight pages: boxes are straightened before structuring, and put back where the page shows them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from schemas.documents import BlockKind, ParsedDocument, RecognisedLine, Role, StructuredDocument
from schemas.geometry import BBox, skewed, straight
from tasks.reading.recognise import page_scans


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
