"""Choose the pictures for OCR, and place what is read on skewed pages."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from schemas.documents import BlockKind, Figure, Kind, ParsedDocument, Placement, Role, StructuredDocument
from schemas.geometry import BBox, skewed


class Skew(NamedTuple):
    """How the scan of a page is skewed: in degrees clockwise, about a point."""

    degrees: float
    centre: tuple[float, float]


def as_scanned(document: StructuredDocument, skews: Mapping[int, Skew], as_parsed: ParsedDocument) -> StructuredDocument:
    """Return a structured document with pages and placements of the parse, boxes where its skewed pages show the content."""
    document = replace(document, pages=as_parsed.pages)
    if not skews:
        return document

    def turned(page: int, box: BBox) -> BBox:
        return skewed(box, *skews[page]).rounded() if page in skews else box

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
    """Yield the pictures that are a whole scanned page, with their placements."""
    figures = {figure.figure_id: figure for figure in document.figures}
    for placement in document.placements:
        if placement.role is Role.PAGE_SCAN and placement.figure_id is not None:
            yield placement, figures[placement.figure_id]
