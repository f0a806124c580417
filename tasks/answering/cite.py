"""Citations: document, page and section of a passage, with links to page and PDF."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from schemas.answers import Citation, FigurePart
from schemas.evidence import CitedFigure, CitedRegion, Hit
from schemas.geometry import BBox
from schemas.tags import escape

MOST_BOXES = 50
"""Maximum number of boxes on a page's picture."""


def citation(hit: Hit, n: int, *, corpus: str, version: str) -> Citation:
    """Return the citation of a passage, number ``n`` from 1; its links name the version, so they always show the same page."""
    page_regions = [region for region in hit.regions if region.page == hit.page]
    boxes = [region.bbox for region in page_regions][:MOST_BOXES] or [hit.bbox]
    document = f"/v1/corpora/{corpus}/documents/{hit.doc_id}"
    version_query = urlencode({"version": version})
    box_query = urlencode(
        {"box": [",".join(f"{coordinate:.1f}" for coordinate in box) for box in boxes]}, doseq=True, safe=","
    )
    fields: dict[str, Any] = {name: getattr(hit, name) for name in Citation.model_fields.keys() & Hit.model_fields.keys()}
    fields |= {
        "n": n,
        "version": version,
        "label": page_regions[0].label if page_regions else None,
        "page_link": f"{document}/pages/{hit.page}.png?{box_query}&{version_query}",
        "pdf_link": f"{document}.pdf?{version_query}#page={hit.page}",
        "original_link": f"{document}/original?{version_query}",
    }
    return Citation(**fields)


def figure_part(
    figure: CitedFigure, tag: str, citations: list[int], *, folded: bool = False, added: bool = False
) -> FigurePart:
    """Return a figure as a part of an answer."""
    return FigurePart(
        figure_id=figure.figure_id,
        tag=tag,
        caption=escape(figure.caption),
        page=figure.page,
        bbox=figure.bbox,
        citations=citations,
        folded=folded,
        added=added,
    )


Row = Mapping[str, Any]
"""A row of ``PLACEMENTS``."""


def localise(
    figure_refs: Iterable[str], doc_id: str, regions: Sequence[CitedRegion], placements: Sequence[Row]
) -> list[CitedFigure]:
    """Return the figures of a hit, each at the placement that the hit means; ``placements`` are tagged ones.

    Of several in the document: the one inside a region of the hit, else on one of its pages, else on the nearest page.
    """
    cited_figures = []
    for figure_id in figure_refs:
        figure_placements = [row for row in placements if row["figure_id"] == figure_id and row["doc_id"] == doc_id]
        if figure_placements:
            best = min(figure_placements, key=lambda row: (*_distance(row, regions), row["order"]))
            # A figure without a caption at this placement has that of another one.
            captions = (row["caption"] for row in (best, *figure_placements) if row["caption"])
            cited_figures.append(
                CitedFigure(
                    **{name: best[name] for name in ("figure_id", "number", "page", "bbox")}, caption=next(captions, "")
                )
            )
    return cited_figures


def _distance(row: Row, regions: Sequence[CitedRegion]) -> tuple[bool, int]:
    box = BBox(*row["bbox"])
    is_inside = any(region.page == row["page"] and BBox(*region.bbox).has_middle_of(box) for region in regions)
    return not is_inside, min(abs(region.page - row["page"]) for region in regions)
