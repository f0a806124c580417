"""Run the golden questions on a version."""

import math
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from evaluation.gold import FIGURES, PAGES, Gold
from evaluation.questions import Question
from schemas.evidence import Hit
from schemas.gates import EXAMPLES, FUSION_HELPS, NO_QUESTIONS, RECALL, RECALL_KEPT, Bounds, Gate, GateResult
from schemas.printing import listed

DEPTH = 10

Search = Callable[[str, int], Sequence[Hit]]
"""Query and k to hits, best first."""


class QuestionScore(BaseModel):
    """The ranks of one question's first right page and figure; None beyond the first ten."""

    model_config = ConfigDict(frozen=True)

    id: str
    page_rank: int | None
    figure_rank: int | None


class ModeReport(BaseModel):
    """The metrics of one preset on all answerable questions; None without questions.

    ``answered`` is the share of answerable questions that got an answer, ``abstained`` the share of the others that got
    none.
    """

    model_config = ConfigDict(frozen=True)

    mode: str
    questions: int
    recall_at_1: float | None
    recall_at_10: float | None
    reciprocal_rank: float | None
    ndcg_at_10: float | None
    figure_recall_at_10: float | None
    answered: float | None = None
    abstained: float | None = None
    scores: list[QuestionScore]


def ask(questions: Sequence[Gold], search: Search, mode: str) -> ModeReport:
    """Run the answerable questions with one preset; a hit finds the pages that its regions are on, and the figures it shows."""
    answerable = [gold for gold in questions if gold.question.answerable]
    scores = [
        QuestionScore(
            id=gold.question.id,
            page_rank=PAGES.first_hit(gold, hits),
            figure_rank=FIGURES.first_hit(gold, hits),
        )
        for gold, hits in ((gold, search(gold.question.question, DEPTH)) for gold in answerable)
    ]
    pages = [score.page_rank for score in scores]
    figures = [score.figure_rank for score, gold in zip(scores, answerable, strict=True) if gold.question.figures]
    return ModeReport(
        mode=mode,
        questions=len(scores),
        recall_at_1=_mean([rank == 1 for rank in pages]),
        recall_at_10=_mean([rank is not None for rank in pages]),
        # Of one relevant page a question, the first that is found.
        reciprocal_rank=_mean([1 / rank if rank else 0.0 for rank in pages]),
        ndcg_at_10=_mean([1 / math.log2(rank + 1) if rank else 0.0 for rank in pages]),
        figure_recall_at_10=_mean([rank is not None for rank in figures]),
        scores=scores,
    )


def with_answers(report: ModeReport, questions: Sequence[Question], answers: Callable[[str], bool]) -> ModeReport:
    """Return a report with the shares of questions that got an answer; ``answers`` says whether a query gets one."""
    answered = [answers(question.question) for question in questions if question.answerable]
    abstained = [not answers(question.question) for question in questions if not question.answerable]
    return report.model_copy(update={"answered": _mean(answered), "abstained": _mean(abstained)})


def _mean(scores: Sequence[float]) -> float | None:
    return sum(scores) / len(scores) if scores else None


RESAMPLES = 2_000

Scores = NDArray[np.float64]
"""A row a question, a column a metric; NaN if a metric is undefined."""


def paired_bootstrap(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference of paired scores (0 for none) and its 90 % interval: each end is a one-sided bound of 95 %."""
    differences = np.asarray(ours, float) - np.asarray(theirs, float)
    if not len(differences):
        return 0.0, 0.0, 0.0
    low, high = interval(differences[:, np.newaxis], 0.9)
    return float(differences.mean()), low[0], high[0]


def interval(values: Scores, level: float) -> tuple[list[float], list[float]]:
    """Return the lower and upper ends of a bootstrap interval of each column's mean; ``level`` is its coverage, such as 0.95."""
    from scipy.stats import bootstrap

    if len(values) < 2:
        return values[0].tolist(), values[0].tolist()
    bounds: Any = bootstrap(
        (values,), np.mean, confidence_level=level, n_resamples=RESAMPLES, method="percentile", rng=0, axis=0, batch=500
    ).confidence_interval
    return bounds.low.tolist(), bounds.high.tolist()


OF_RETRIEVAL = frozenset(gate.name for gate in (RECALL, FUSION_HELPS, RECALL_KEPT))
"""Gates that depend on the ranking."""


def retrieval_gates(
    questions: Sequence[Question], fused: ModeReport, parts: Sequence[ModeReport], live: ModeReport | None, bounds: Bounds
) -> list[GateResult]:
    """Judge a version's recall, absolutely, against its best single retriever, and against the live version.

    A loss refuses if it exceeds its margin and is significant: the upper bound of a paired bootstrap (one-sided 95 %) is
    below zero. Of ten questions, one lost refuses nothing, three do. ``parts`` are the reports of the default preset's
    retrievers alone, [] for a single one; ``live`` is None without a live version.
    """
    recall = fused.recall_at_10
    if recall is None:
        message = "no golden question can be answered; retrieval is not judged"
        return [GateResult(gate=NO_QUESTIONS, passed=True, value=None, bound=None, message=message)]
    minimum = f"at least {bounds.of(RECALL):.0%} is wanted"
    finding = f"{fused.mode} finds the page of {recall:.0%} of the golden questions; {minimum}"
    missed = _named(questions, {score.id for score in fused.scores if score.page_rank is None})
    gates = [RECALL.judge(recall, bounds, finding, questions=missed)]
    if parts:
        best = max(parts, key=lambda report: report.recall_at_10 or 0.0)
        gates.append(_not_lost(FUSION_HELPS, questions, (fused, best), f"{best.mode}, the best of its retrievers", bounds))
    if live:
        gates.append(_not_lost(RECALL_KEPT, questions, (fused, live), "the live version", bounds))
    return gates


def _not_lost(
    gate: Gate, questions: Sequence[Question], reports: tuple[ModeReport, ModeReport], whose: str, bounds: Bounds
) -> GateResult:
    ours, theirs = reports
    difference, lower, upper = paired_bootstrap(_recall_flags(ours), _recall_flags(theirs))
    too_much, by_chance = not gate.holds(-difference, bounds), upper >= 0
    finding = (
        f"recall at 10 is {ours.recall_at_10 or 0:.0%}, {difference:+.1%} against {whose} "
        f"(90 %: {lower:+.1%} to {upper:+.1%}), {bounds.of(gate):.1%} may be lost"
    )
    if too_much and by_chance:
        finding += "; on so few questions that may be chance"
    still = {score.id for score in ours.scores if score.page_rank is not None}
    lost = {score.id for score in theirs.scores if score.page_rank is not None} - still
    passed = by_chance or not too_much
    return gate.judge(-difference, bounds, finding, passed=passed, questions=_named(questions, lost))


def _named(questions: Sequence[Question], ids: Set[str]) -> str:
    names = [
        f"{question.id} ({', '.join(question.documents) or 'any document'}{_pages(question)})"
        for question in questions
        if question.id in ids
    ]
    return listed(names, EXAMPLES)


def _pages(question: Question) -> str:
    return f" page {' or '.join(str(gold_page.page) for gold_page in question.pages)}" if question.pages else ""


def _recall_flags(report: ModeReport) -> list[float]:
    return [float(score.page_rank is not None) for score in report.scores]
