"""What readers asked and what was not found, as a process of the service counts it for a day."""

import re
from datetime import date

from schemas.base import Frozen

_SECRETS = (
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "[e-mail]"),
    (re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}"), "[key]"),
)
"""What looks like an e-mail address or a key: 20 or more letters, digits and hyphens, with a digit and a letter among them."""


class UnansweredQuestion(Frozen):
    """A question that got no answer or an unsure one, and how often; ``vector`` is that of its meaning."""

    text: str
    times: int = 1
    vector: list[float] = []


class AskedOfDay(Frozen):
    """Counts of questions to a version on a day.

    Attributes:
        cited: How many answers cite a document, by its id.
        opened: How often a page or file of a document was opened.
        unanswered: The words of questions, redacted; [] unless ``operations.questions`` is ``text``.
    """

    day: date
    version: str
    asked: int = 0
    abstained: int = 0
    unsure: int = 0
    cited: dict[str, int] = {}
    opened: dict[str, int] = {}
    unanswered: list[UnansweredQuestion] = []


def redacted(question: str) -> str:
    """Return a question without what looks like an e-mail address or a key."""
    for pattern, mark in _SECRETS:
        question = pattern.sub(mark, question)
    return question
