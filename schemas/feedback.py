"""What readers say of answers, and what operators make of it."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from schemas.base import Frozen
from schemas.geometry import Box
from schemas.ids import sha256


class Reason(StrEnum):
    """What is wrong with an answer."""

    WRONG = "wrong"
    INCOMPLETE = "incomplete"
    WRONG_FIGURE = "wrong_figure"
    WRONG_PLACE = "wrong_place"
    OUT_OF_DATE = "out_of_date"
    NOTHING_FOUND = "nothing_found"

    @property
    def in_words(self) -> str:
        """The reason as people read it."""
        return self.replace("_", " ")


class FeedbackRegion(Frozen):
    """Where a row or a figure that an answer showed stands; ``bbox`` in PDF points from the page's top left."""

    doc_id: str
    source: str
    page: int
    bbox: Box
    evidence_id: str | None = None
    figure_id: str | None = None


class Feedback(Frozen):
    """What a reader says of an answer, as it is stored.

    Attributes:
        version: The version that answered.
        comment: The reader's own words, "" for none.
        regions: Rows and figures of the answer that the reader names, figures last.
        answer: Digest of the answer's text.
        preset: The answer preset.
        by: The caller's name, only where ``operations.feedback_names`` is set.
    """

    at: datetime
    version: str
    question: str
    helpful: bool
    reason: Reason | None = None
    comment: str = ""
    regions: list[FeedbackRegion] = []
    answer: str | None = None
    preset: str | None = None
    by: str | None = None

    @property
    def id(self) -> str:
        """Eight digits by which people name it."""
        return sha256(self.model_dump_json().encode())[:8]

    @property
    def doc_ids(self) -> set[str]:
        """The documents that it is about."""
        return {region.doc_id for region in self.regions}


DecisionKind = Literal["question", "close"]


class Decision(Frozen):
    """What an operator made of an entry of feedback: a golden question, or nothing, which closes it.

    Attributes:
        entry: The id of the entry.
        question: The words of the golden question.
        region: The page that answers it, or the figure that the answer shows.
        undone: Who took it back, and when, in words; "" where it holds.
    """

    kind: DecisionKind
    entry: str
    at: datetime
    by: str
    reason: str = ""
    question: str = ""
    region: FeedbackRegion | None = None
    undone: str = ""


class Decisions(Frozen):
    """All decisions of a corpus, oldest first; none is ever taken out but for a deleted document."""

    decisions: list[Decision] = []
