"""Ask a version its golden questions."""

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
    """How one question fared; a rank is None where nothing right was among the first ten."""

    model_config = ConfigDict(frozen=True)

    id: str
    page_rank: int | None
    figure_rank: int | None


class ModeReport(BaseModel):
    """How one way to search fared on all answerable questions; a metric is None where no question asks for it.

    Where answers were asked for, too: ``answered`` is the share of answerable questions that got one, right or wrong, and
    ``abstained`` the share of the others that got none, as is right.
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
    """Ask the answerable questions by one way to search.

    A page counts as found by a hit any of whose regions is on it. A figure counts by a hit that carries it, overlapping
    the gold box by half (IoU).

    Args:
        questions: Golden questions; those that nothing answers are left out.
        search: The version's retrieval.
        mode: The name of the way to search.
        placed: Where the version's figures stand.
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
    """Return a report that also says which questions got an answer, and which none.

    Args:
        report: How the search behind the answers fared.
        questions: Golden questions, those that nothing answers among them.
        answers: Whether a query gets an answer.
    """
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
