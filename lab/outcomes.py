"""The outcome of one question, and what judges it."""

import itertools
from collections.abc import Callable, Iterable

from pydantic import Field

from schemas.answers import AnswerResult, FigurePart, Part, TablePart, part_figures
from schemas.base import Frozen
from schemas.evidence import Hit
from schemas.versions import Spent


class Outcome(Frozen):
    """What one configuration did with one question.

    Attributes:
        question_id: Which question.
        hits: Rows of the index, best first: those retrieved, or the given context.
        context: Rows that the answer could use, in the order of their citations' numbers: ``[P1]`` is the first.
        words: Evidence ids of the rows in ``context`` whose words the model read.
        pictures: Ids of the figures whose pictures the model saw.
        retrieved: Whether rows were retrieved; if not, the context was none, or given, and metrics of retrieval are undefined.
        answer: The answer; None if none was asked for, or it failed.
        spent: Calls, tokens and money of generative models; replies from the cache count as when they were made.
        seconds: Duration; replies from the cache count as when they were made.
        failure: Why there is no outcome; "" if there is one.
    """

    question_id: str
    hits: list[Hit] = Field([])
    context: list[Hit] = Field([])
    words: list[str] = Field([])
    pictures: list[str] = Field([])
    retrieved: bool = True
    answer: AnswerResult | None = None
    spent: Spent = Spent()
    seconds: float = 0.0
    failure: str = ""

    @property
    def answer_text(self) -> str:
        """The words of the answer, tables row by row, figures by their captions; "" without an answer."""
        return "\n".join(_text(part) for part in (self.answer.parts if self.answer else ()))

    @property
    def figures(self) -> list[str]:
        """Ids of the figures that the answer shows, in its order, each once; those in cells of tables included."""
        return figures_in(self.answer.parts if self.answer else ())

    @property
    def cited(self) -> list[str]:
        """Evidence ids that the answer cites, each once."""
        return list(dict.fromkeys(citation.evidence_id for citation in (self.answer.citations if self.answer else ())))


class Grade(Frozen):
    """A grade of one question, larger is better; ``value`` is None if there is no grade, and ``reason`` says why."""

    value: float | None
    reason: str = ""


class Admission(Frozen):
    """Whether a judge tells good from bad in a metric: the area under its ROC curve on known pairs."""

    metric: str
    admitted: bool
    auc: float | None
    pairs: int
    reason: str = ""


Pictures = Callable[[str], bytes]
"""The encoded picture of a figure id."""


def figures_in(parts: Iterable[Part]) -> list[str]:
    """Return the ids of the figures in parts of an answer, in order, each once; those in cells of tables included."""
    figures = itertools.chain.from_iterable(map(part_figures, parts))
    return list(dict.fromkeys(figure.figure_id for figure in figures))


def _text(part: Part) -> str:
    match part:
        case FigurePart():
            return part.caption
        case TablePart():
            return "\n".join(" | ".join(row) for row in part.rows)
        case _:
            return part.text
