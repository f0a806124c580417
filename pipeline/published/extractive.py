"""The extractive answer of a version: every word is the documents'."""

import time

from pipeline.published.version import OpenVersion
from schemas.answers import AnswerResult
from schemas.evidence import Filters
from schemas.retrieval import Preset
from tasks.answering.abstain import passages_that_answer
from tasks.answering.answer import answer
from tasks.answering.asked import Asked
from tasks.answering.trace import Trace


def extractive_answer(
    opened: OpenVersion, asked: Asked, plan: Preset, *, filters: Filters, trace: Trace | None = None
) -> AnswerResult:
    """Answer out of the best passages, or abstain where nothing answers.

    Args:
        opened: The version.
        asked: The question.
        plan: How passages are retrieved.
        filters: What the answer is narrowed to, as the caller gives them.
        trace: Keeps what each step did.
    """
    trace = trace or Trace(time.perf_counter)
    options = opened.asked().answer
    hits = passages_that_answer(
        asked,
        opened.index,
        options,
        lambda k, narrowed: opened.hits(opened.ranked(asked, plan, k, narrowed, trace)),
        filters=opened.resolved(filters),
        has_pages=opened.has_pages,
        trace=trace,
    )
    return answer(opened.version, hits, opened.template, passages=options.passages)
