"""The gold evidence of questions in a version."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from evaluation.gold import Gold, gold_for_question
from evaluation.questions import Question
from pipeline.published.version import OpenVersion
from pipeline.records.evidence import placement_parts
from schemas.geometry import BBox


def gold_evidence(opened: OpenVersion, questions: Sequence[Question]) -> list[Gold]:
    """Return the gold evidence of questions, in their order."""
    placements = _figure_placements(opened, questions)
    return [gold_for_question(question, opened.sources, placements) for question in questions]


def _figure_placements(opened: OpenVersion, questions: Sequence[Question]) -> dict[str, list[tuple[str, int, BBox]]]:
    """Return the figures of the documents whose figures questions ask for: file name, page and box, by figure id."""
    file_names = {figure.doc for question in questions for figure in question.figures}
    names_by_document = {
        doc_id: [name for source in sources if (name := source.rpartition("/")[2]) in file_names]
        for doc_id, sources in opened.sources.items()
    }
    doc_ids = pa.array([doc_id for doc_id, names in names_by_document.items() if names], pa.string())
    placements: dict[str, list[tuple[str, int, BBox]]] = {}
    for part in placement_parts(opened.workspace.store, opened.version):
        rows = part.select(["doc_id", "page", "bbox", "figure_id"]).filter(pc.is_in(part.column("doc_id"), doc_ids))
        for row in rows.to_pylist():
            if row["figure_id"] is None:
                continue
            for name in names_by_document[row["doc_id"]]:
                placements.setdefault(row["figure_id"], []).append((name, row["page"], BBox(*row["bbox"])))
    return placements
