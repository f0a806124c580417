"""Run the golden questions on a version."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from evaluation.metrics import metric, recall_at
from evaluation.questions import Question
from schemas.evidence import Hit
from schemas.geometry import BBox

DEPTH = 10

Search = Callable[[str, int], Sequence[Hit]]
"""Query and k to hits, best first."""

Placed = Mapping[str, Sequence[tuple[str, int, BBox]]]
"""Figure id to where it stands: source's file name, page, bbox."""


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


def ask(questions: Sequence[Question], search: Search, mode: str, placed: Placed) -> ModeReport:
    """Run the answerable questions with one preset (``mode``).

    A page is found by a hit with a region on it; a figure by a hit with a figure that overlaps the gold box (IoU ≥ 0.5).
    """
    answerable = [question for question in questions if question.answerable]
    scores = [_score(question, search(question.question, DEPTH), placed) for question in answerable]
    pages = [score.page_rank for score in scores]
    with_figures = {question.id for question in answerable if question.figures}
    figures = [score.figure_rank for score in scores if score.id in with_figures]
    return ModeReport(
        mode=mode,
        questions=len(scores),
        recall_at_1=recall_at(pages, 1),
        recall_at_10=recall_at(pages, DEPTH),
        reciprocal_rank=metric(f"RR@{DEPTH}", pages),
        ndcg_at_10=metric(f"nDCG@{DEPTH}", pages),
        figure_recall_at_10=recall_at(figures, DEPTH),
        scores=scores,
    )


def with_answers(report: ModeReport, questions: Sequence[Question], answers: Callable[[str], bool]) -> ModeReport:
    """Return a report with the shares of questions that got an answer; ``answers`` says whether a query gets one."""
    given: dict[bool, list[bool]] = {True: [], False: []}
    for question in questions:
        given[question.answerable].append(answers(question.question))
    return report.model_copy(
        update={"answered": _share(given[True]), "abstained": _share([not one for one in given[False]])}
    )


def _share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


def _score(question: Question, hits: Sequence[Hit], placed: Placed) -> QuestionScore:
    page_rank = figure_rank = None
    for rank, hit in enumerate(hits, 1):
        name = hit.source.rpartition("/")[2]
        if page_rank is None and (question.doc in (None, name)) and set(hit.pages) & set(question.pages):
            page_rank = rank
        if figure_rank is None and any(_shows(question, placed.get(figure, ())) for figure in hit.figure_refs):
            figure_rank = rank
    return QuestionScore(id=question.id, page_rank=page_rank, figure_rank=figure_rank)


def _shows(question: Question, places: Sequence[tuple[str, int, BBox]]) -> bool:
    return any(
        question.doc == name and gold.page == page and BBox(*gold.bbox).iou(box) >= 0.5
        for name, page, box in places
        for gold in question.figures
    )
