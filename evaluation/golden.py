"""Run the golden questions on a version."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from evaluation.gold import LEVELS, Gold
from evaluation.questions import Question
from schemas.evidence import Hit

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
    """Run the answerable questions with one preset (``mode``).

    A page is found by a hit with a region on it; a figure by a hit that shows it.
    """
    answerable = [gold for gold in questions if gold.question.answerable]
    scores = [_score(gold, search(gold.question.question, DEPTH)) for gold in answerable]
    pages = [score.page_rank for score in scores]
    figures = [score.figure_rank for score, gold in zip(scores, answerable, strict=True) if gold.question.figures]
    return ModeReport(
        mode=mode,
        questions=len(scores),
        recall_at_1=first_found("Success@1", pages),
        recall_at_10=first_found(f"Success@{DEPTH}", pages),
        reciprocal_rank=first_found(f"RR@{DEPTH}", pages),
        ndcg_at_10=first_found(f"nDCG@{DEPTH}", pages),
        figure_recall_at_10=first_found(f"Success@{DEPTH}", figures),
        scores=scores,
    )


def first_found(measure: str, ranks: Sequence[int | None]) -> float | None:
    """Return a measure's mean with one relevant unit a question, from its rank; None for no questions."""
    ranked = {
        str(number): [str(earlier_rank) for earlier_rank in range(1, (rank or 0) + 1)] for number, rank in enumerate(ranks)
    }
    relevant_units = {str(number): {str(rank): 1} for number, rank in enumerate(ranks)}
    scores = relevance([measure], relevant_units, ranked)[measure].values()
    return sum(scores) / len(scores) if scores else None


def relevance(
    measures: Sequence[str], relevant: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Return measures of ``ir-measures`` by measure and question.

    Args:
        measures: As ``ir-measures`` spells them, such as ``nDCG@10``.
        relevant: Grades of relevant units by question; each question has at least one.
        rankings: Units by question, best first, each once; a missing or empty ranking scores 0.
    """
    import ir_measures

    parsed = {ir_measures.parse_measure(name): name for name in measures}
    runs = {name: {unit: float(-rank) for rank, unit in enumerate(rankings.get(name, ()))} for name in relevant}
    scores_by_measure: dict[str, dict[str, float]] = {name: dict.fromkeys(relevant, 0.0) for name in measures}
    for score in ir_measures.iter_calc(list(parsed), {name: dict(units) for name, units in relevant.items()}, runs):
        scores_by_measure[parsed[score.measure]][score.query_id] = float(score.value)
    return scores_by_measure


def with_answers(report: ModeReport, questions: Sequence[Question], answers: Callable[[str], bool]) -> ModeReport:
    """Return a report with the shares of questions that got an answer; ``answers`` says whether a query gets one."""
    answered_by_kind: dict[bool, list[bool]] = {True: [], False: []}
    for question in questions:
        answered_by_kind[question.answerable].append(answers(question.question))
    return report.model_copy(
        update={
            "answered": _share(answered_by_kind[True]),
            "abstained": _share([not was_answered for was_answered in answered_by_kind[False]]),
        }
    )


def _share(outcomes: Sequence[bool]) -> float | None:
    return sum(outcomes) / len(outcomes) if outcomes else None


def _score(gold: Gold, hits: Sequence[Hit]) -> QuestionScore:
    _, pages, _, figures = LEVELS
    return QuestionScore(
        id=gold.question.id, page_rank=pages.first_hit(gold, hits), figure_rank=figures.first_hit(gold, hits)
    )
