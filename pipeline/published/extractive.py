"""The extractive answer of a version: every word is the documents'."""

import time
from typing import cast

from backends.engines.analyser import query_terms
from pipeline.published.extracted import extracted
from pipeline.published.version import OpenVersion
from schemas.answers import AnswerResult
from schemas.evidence import Filters, Hit
from schemas.ports import TextEmbedder
from schemas.retrieval import Preset, Scored
from tasks.answering.confidence import NEARNESS, Evidence, confidence, gather, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.narrow import NOTHING
from tasks.answering.retrievers import without_pages
from tasks.answering.trace import Trace

RANKED = 3
"""Rows that are ranked for each passage of an answer: some show what another shows."""


def extractive_answer(
    opened: OpenVersion, asked: EmbeddedQuery, plan: Preset, *, filters: Filters, trace: Trace | None = None
) -> AnswerResult:
    """Answer out of the best passages; show the nearest one where that is not sure; abstain where nothing answers.

    Args:
        opened: The version.
        asked: The question.
        plan: How passages are retrieved.
        filters: What the answer is narrowed to, as the caller gives them.
        trace: Keeps what each step did.
    """
    trace = trace or Trace(time.perf_counter)
    options = opened.asked().answer
    hits, sure = weighed(opened, asked, plan, filters=filters, trace=trace)
    abstain_below, sure_above = thresholds(options, opened.calibration)
    if sure < abstain_below:
        return extracted(opened, asked, [], passages=1).model_copy(update={"confidence": sure})
    unsure = sure < sure_above
    made = extracted(opened, asked, hits, passages=options.passages)
    return made.model_copy(update={"confidence": sure, "unsure": unsure and not made.abstained})


def weighed(
    opened: OpenVersion, asked: EmbeddedQuery, plan: Preset, *, filters: Filters, trace: Trace
) -> tuple[list[Hit], float]:
    """Return the passages that an answer may be made of, best first, and how sure it is that they answer."""
    hits, evidence = evidence_for(opened, asked, plan, filters=filters, trace=trace)
    return hits, confidence(evidence, opened.calibration)


def evidence_for(
    opened: OpenVersion, asked: EmbeddedQuery, plan: Preset, *, filters: Filters, trace: Trace
) -> tuple[list[Hit], Evidence]:
    """Return the passages that an answer may be made of, and what speaks for it that they answer.

    Rows of whole pages are left out unless they are asked for: they repeat the words of others.
    """
    narrowed = opened.resolved(filters)
    if narrowed == NOTHING:
        return [], {}
    if opened.has_pages and not narrowed.modalities:
        narrowed = without_pages(narrowed)
    hits = opened.hits(opened.ranked(asked, plan, opened.asked().answer.passages * RANKED, narrowed, trace))
    with trace.step("confidence", asked.words):
        return hits, gather(
            asked,
            opened.index,
            hits,
            narrowed,
            analyse=lambda text: query_terms(text, opened.counts.documents_by_language),
            embedder=cast(TextEmbedder, opened.embedders[NEARNESS.name]),
            judged=bool(plan.rerank) and isinstance(plan.rerank[-1], Scored),
        )
