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

    ``hits`` are rows of the index, best first, retrieved or given; ``context`` those that the answer could use: ``[P1]`` is the
    first; ``words`` the evidence ids of those whose words the model read, ``pictures`` the figures that it saw. If nothing was
    ``retrieved``, metrics of retrieval are undefined. ``answer`` is None if none was asked for, or it failed, ``failure`` then
    says why. Of a paper's preset ``answer`` is what a model wrote, ``reply`` its words as they came, and ``checked`` what Inset
    makes of it. What replies from the cache spent and took counts as when they were made.
    """

    question_id: str
    hits: list[Hit] = Field([])
    context: list[Hit] = Field([])
    words: list[str] = Field([])
    pictures: list[str] = Field([])
    retrieved: bool = True
    answer: AnswerResult | None = None
    reply: str = ""
    checked: AnswerResult | None = None
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
