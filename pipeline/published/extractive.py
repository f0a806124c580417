"""Extractive answers: passages of the documents, word for word."""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from backends.engines.analyser import query_terms
from pipeline.published.version import OpenVersion
from schemas.answers import AnswerResult
from schemas.evidence import Filters, Hit, Modality
from schemas.ports import TextEmbedder
from schemas.retrieval import Preset, Scored
from tasks.answering.confidence import NEARNESS, Evidence, confidence, gather, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.extract import candidates, extract, scores
from tasks.answering.narrow import NOTHING
from tasks.answering.passages import RowPosition, around, read_passage
from tasks.answering.trace import Trace
from tasks.enriching.spaces import DEFAULT

RANKED = 3
"""Rows ranked for each passage of an answer: some rows overlap."""


def extractive_answer(
    opened: OpenVersion, question: EmbeddedQuery, plan: Preset, *, filters: Filters, trace: Trace | None = None
) -> AnswerResult:
    """Answer with the best passages, with the nearest one where confidence is low, or abstain.

    Args:
        opened: The version.
        question: The question.
        plan: How passages are retrieved.
        filters: Unresolved filters.
        trace: Records what each step did.
    """
    trace = trace or Trace(time.perf_counter)
    options = opened.settings().answer
    hits, evidence = evidence_for(opened, question, plan, filters=filters, trace=trace)
    sure = confidence(evidence, opened.calibration)
    abstain_below, sure_above = thresholds(options, opened.calibration)
    if sure < abstain_below:
        return _extracted(opened, question, [], passages=1).model_copy(update={"confidence": sure})
    made = _extracted(opened, question, hits, passages=options.passages)
    return made.model_copy(update={"confidence": sure, "unsure": sure < sure_above and not made.abstained})


def evidence_for(
    opened: OpenVersion, question: EmbeddedQuery, plan: Preset, *, filters: Filters, trace: Trace
) -> tuple[list[Hit], Evidence]:
    """Return the hits that an answer may use, and the evidence for confidence in it."""
    resolved = opened.resolved_without_pages(filters)
    if resolved == NOTHING:
        return [], {}
    hits = opened.hits(opened.ranked(question, plan, opened.settings().answer.passages * RANKED, resolved, trace))
    with trace.step("confidence", question.words):
        return hits, gather(
            question,
            opened.index,
            hits,
            resolved,
            analyse=lambda text: query_terms(text, opened.counts.documents_by_language),
            embedder=cast(TextEmbedder, opened.embedders[NEARNESS.name]),
            judged=bool(plan.rerank) and isinstance(plan.rerank[-1], Scored),
        )


def _extracted(opened: OpenVersion, question: EmbeddedQuery, hits: Sequence[Hit], *, passages: int) -> AnswerResult:
    """Extract an answer of at most some passages from hits and their neighbouring rows; no hits make an abstention."""
    found: dict[str, list[str]] = defaultdict(list)
    for hit in hits:
        found[hit.doc_id].append(hit.evidence_id)
    runs: list[list[str]] = []
    tags: dict[str, str] = {}
    for doc_id, own in found.items():
        columns = ["evidence_id", "modality", "section_path", "figure_id", "tagged_text"]
        rows = opened.document_rows.of(doc_id).select(columns).to_pylist()
        runs += around([RowPosition(row["evidence_id"], row["modality"], tuple(row["section_path"])) for row in rows], own)
        for row in rows:
            if row["modality"] == Modality.FIGURE:
                tags.setdefault(row["figure_id"], opened.template.split(row["tagged_text"])[0][0])
    read = {hit.evidence_id: hit for hit in opened.hits([(name, 0.0) for run in runs for name in run])}
    ranks = {hit.evidence_id: rank for rank, hit in enumerate(hits)}
    texts = sorted(
        (read_passage([read[name] for name in run], ranks, opened.template) for run in runs),
        key=lambda passage: passage.rank,
    )
    some = candidates(texts, opened.template)
    near: list[float] = []
    if some:
        embedder = cast(TextEmbedder, opened.embedders[DEFAULT.name])
        vectors = embedder.embed_documents([candidate.context for candidate in some])
        near = (vectors @ question.vector(DEFAULT.name)).tolist()
    return extract(
        question.words,
        texts,
        some,
        scores(question.words, some, near, texts),
        opened.template,
        corpus=opened.workspace.corpus.name,
        version=opened.version,
        most=passages,
        tags=tags,
    )
