"""Where rows and figures stand of which a reader says something."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.published.version import OpenVersion
from schemas.errors import NotFoundError
from schemas.feedback import FeedbackRegion


def regions_of(opened: OpenVersion, evidence_ids: Sequence[str], figure_ids: Sequence[str]) -> list[FeedbackRegion]:
    """Return the regions of rows and figures; a figure's is in a document of the rows where it stands in one.

    Raises:
        NotFoundError: The version, as its reader sees it, has no such row or figure.
    """
    rows = {str(row["evidence_id"]): row for row in opened.index.fetch(list(dict.fromkeys(evidence_ids)))}
    regions = []
    for evidence_id in evidence_ids:
        if evidence_id not in rows:
            raise NotFoundError(f"{opened.name} has no row {evidence_id}")
        doc_id, page, bbox = (rows[evidence_id][name] for name in ("doc_id", "page", "bbox"))
        source = opened.sources[str(doc_id)][0]
        regions.append(
            FeedbackRegion.model_validate(
                {"doc_id": doc_id, "source": source, "page": page, "bbox": bbox, "evidence_id": evidence_id}
            )
        )
    doc_ids = {region.doc_id for region in regions}
    placed = opened.placed_figures
    for figure_id in figure_ids:
        placements = placed.filter(pc.equal(placed.column("figure_id"), pa.scalar(figure_id))).to_pylist()
        if not placements:
            raise NotFoundError(f"{opened.name} has no figure {figure_id}")
        placement = min(placements, key=lambda placement: placement["doc_id"] not in doc_ids)
        fields = {name: placement[name] for name in ("doc_id", "page", "bbox", "figure_id")}
        regions.append(FeedbackRegion.model_validate({**fields, "source": opened.sources[placement["doc_id"]][0]}))
    return regions
