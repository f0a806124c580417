"""Extractive answers: passages of the documents, word for word."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from backends.engines.analyser import query_terms
from pipeline.published.version import OpenVersion
from schemas.answers import AnswerResult
from schemas.evidence import Filters, Hit
from schemas.retrieval import Preset, Scored
from tasks.answering.confidence import NEARNESS, PASSAGES, Evidence, confidence, gather, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.extract import Candidate, candidates, extract, scores
from tasks.answering.narrow import NOTHING
from tasks.answering.passages import Passage, around, read_passage
from tasks.answering.trace import Trace

RANKED = 3
"""Rows ranked for each passage of an answer: some rows overlap."""


@dataclass(frozen=True)
class Material:
    """The passages that an answer may show, their sentences with scores, and the tags of their documents' figures."""

    passages: Sequence[Passage] = ()
    candidates: Sequence[Candidate] = ()
    scores: Sequence[float] = ()
    tags: dict[str, str] | None = None


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
    material, evidence = evidence_for(opened, question, plan, filters=filters, trace=trace)
    sure = confidence(evidence, opened.calibration)
    abstain_below, sure_above = thresholds(options, opened.calibration)
    if sure < abstain_below:
        material = Material()
    with trace.step("extract", question.words):
        answer = extract(
            question.words,
            material.passages,
            material.candidates,
            material.scores,
            opened.template,
            corpus=opened.workspace.corpus.name,
            version=opened.version,
            most=options.passages,
            tags=material.tags or {},
        )
    unsure = abstain_below <= sure < sure_above and not answer.abstained
    return answer.model_copy(update={"confidence": sure, "unsure": unsure})


def evidence_for(
    opened: OpenVersion, question: EmbeddedQuery, plan: Preset, *, filters: Filters, trace: Trace
) -> tuple[Material, Evidence]:
    """Return what an answer may show, and the evidence for confidence in it."""
    resolved = opened.resolved_without_pages(filters)
    if resolved == NOTHING:
        return Material(), {}
    most = opened.settings().answer.passages
    ranked = opened.ranked(question, plan, most * RANKED, resolved, trace)
    with trace.step("passages", question.words):
        hits = opened.hits(ranked)
        passages, tags = _passages(opened, hits)
        found = candidates(passages, opened.template)
    with trace.step(f"compare: {NEARNESS.name}", question.words):

        def cosines(compared: Sequence[Candidate]) -> list[float]:
            vectors = opened.sentence_vectors([candidate.context for candidate in compared])
            return [float(cosine) for cosine in vectors @ question.vector(NEARNESS.name)]

        scored, near = scores(question.words, found, passages, cosines, most=most)
    with trace.step("confidence", question.words):
        evidence = gather(
            question,
            opened.index,
            hits,
            resolved,
            analyse=lambda text: query_terms(text, opened.counts.documents_by_language),
            sentence=max((near[one] for one in near if passages[one.passage].rank < PASSAGES), default=0.0),
            judged=bool(plan.rerank) and isinstance(plan.rerank[-1], Scored),
        )
    return Material(passages, found, scored, tags), evidence


def _passages(opened: OpenVersion, hits: Sequence[Hit]) -> tuple[list[Passage], dict[str, str]]:
    """Return hits with their neighbouring rows, best first, and the tags of the figures that have rows in their documents."""
    rows_of: dict[str, list[str]] = defaultdict(list)
    for hit in hits:
        rows_of[hit.doc_id].append(hit.evidence_id)
    runs: list[list[str]] = []
    tags: dict[str, str] = {}
    for doc_id, rows in rows_of.items():
        positions, tags_of_document = opened.reading_order(doc_id)
        runs += around(positions, rows)
        tags |= tags_of_document
    by_id = {hit.evidence_id: hit for hit in hits}
    neighbours = [(name, 0.0) for run in runs for name in run if name not in by_id]
    by_id |= {hit.evidence_id: hit for hit in opened.hits(neighbours)}
    ranks = {hit.evidence_id: rank for rank, hit in enumerate(hits)}
    passages = (read_passage([by_id[name] for name in run], ranks, opened.template) for run in runs)
    return sorted(passages, key=lambda passage: passage.rank), tags
