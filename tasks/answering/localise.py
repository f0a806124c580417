"""Find the placements of a hit's figures, which may be on other pages than the hit's first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.evidence import CitedFigure, CitedRegion
from schemas.geometry import BBox

Row = Mapping[str, Any]
"""A row of ``PLACEMENTS``."""


def localise(
    figure_refs: Iterable[str], doc_id: str, regions: Sequence[CitedRegion], placements: Sequence[Row]
) -> list[CitedFigure]:
    """Return the figures of a hit, each at the placement that the hit means.

    If a figure stands in the document more than once: the placement inside a region of the hit, else one on its pages, else the
    one on the nearest page. ``placements`` are rows of tagged placements, at least those of these figures in this document.
    """
    cited_figures = []
    for figure_id in figure_refs:
        figure_placements = [row for row in placements if row["figure_id"] == figure_id and row["doc_id"] == doc_id]
        if figure_placements:
            best = min(figure_placements, key=lambda row: (*_distance(row, regions), row["order"]))
            captions = (row["caption"] for row in (best, *figure_placements) if row["caption"])
            cited_figures.append(
                CitedFigure(
                    figure_id=figure_id,
                    number=best["number"],
                    caption=next(captions, ""),
                    page=best["page"],
                    bbox=best["bbox"],
                )
            )
    return cited_figures


def _distance(row: Row, regions: Sequence[CitedRegion]) -> tuple[bool, int]:
    box = BBox(*row["bbox"])
    is_inside = any(region.page == row["page"] and BBox(*region.bbox).has_middle_of(box) for region in regions)
    return not is_inside, min(abs(region.page - row["page"]) for region in regions)
