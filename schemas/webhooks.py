"""Who is told when a corpus changes, by a request to an address of theirs."""

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from schemas.base import Frozen

Event = Literal["version_live", "document_changed", "question_changed"]

GIVEN_UP_AFTER = timedelta(days=3)
"""Time without an answer of the address after which nothing is sent any more."""


class AnswerPage(Frozen):
    """A page that an answer cites."""

    source: str
    page: int


class StoredWebhook(Frozen):
    """Who is told of what.

    Attributes:
        owner: The name of the key that made it; None where the service needs none.
        documents: A glob of the sources of ``document_changed``.
        question: The saved question of ``question_changed``.
        version: The version of which the address was told last, or that was live when the webhook was made.
        pages: The pages that the answer cited then.
        not_before: When it may be sent next: another process may be sending it, or the address didn't answer.
        failing_since: Since when the address hasn't answered; None if it did.
        problem: Why it didn't, in a line.
    """

    id: str
    owner: str | None
    url: str
    event: Event
    documents: str = "**"
    question: str = ""
    version: str
    pages: list[AnswerPage] = []
    not_before: datetime
    failing_since: datetime | None = None
    problem: str = ""

    def is_given_up(self, now: datetime) -> bool:
        """Return whether the address was silent so long that nothing is sent any more."""
        return self.failing_since is not None and now - self.failing_since > GIVEN_UP_AFTER

    def is_due(self, version: str, now: datetime) -> bool:
        """Return whether its address is to be told of a version now."""
        return self.version != version and self.not_before <= now and not self.is_given_up(now)


class DocumentChange(Frozen):
    """What became of a document."""

    source: str
    change: Literal["new", "changed", "gone"]


class WebhookEvent(Frozen):
    """The body that an address is sent, with what the webhook's key may see alone."""

    type: Event
    corpus: str
    version: str
    previous: str
    documents: list[DocumentChange] = Field([], description="Empty where the previous version is removed already.")
    question: str = ""
    pages: list[AnswerPage] = Field([], description="The pages that answer the question now.")
    previous_pages: list[AnswerPage] = []
