"""The states of corpora and versions: one table of words, exit codes and colours for pages, commands and metrics."""

from enum import StrEnum
from typing import Self


class State(StrEnum):
    """The state of a corpus, the worst first.

    Attributes:
        exit_code: Exit code of ``inset status``; 1, 2 and 3 mean what they mean elsewhere.
        tone: Colour of its badge.
    """

    exit_code: int
    tone: str

    def __new__(cls, word: str, exit_code: int, tone: str) -> Self:
        """Return a state with its exit code and colour."""
        state = str.__new__(cls, word)
        state._value_, state.exit_code, state.tone = word, exit_code, tone
        return state

    BROKEN = "broken", 2, "red"
    UNREACHABLE = "unreachable", 1, "red"
    DAMAGED = "damaged", 4, "red"
    FULL = "full", 11, "red"
    WAITING = "waiting", 9, "red"
    REFUSED = "refused", 3, "red"
    UNFINISHED = "unfinished", 5, "orange"
    RETRYING = "retrying", 10, "orange"
    STALE = "stale", 6, "orange"
    HELD = "held", 7, "blue"
    EMPTY = "empty", 8, "gray"
    OK = "ok", 0, "green"

    @property
    def severity(self) -> int:
        """Its rank among the states; 0 is the worst."""
        return list(State).index(self)

    @property
    def needs_person(self) -> bool:
        """Whether somebody has to do something."""
        return self.tone in ("red", "orange")


TONES = {str(state): state.tone for state in State} | {
    "live": "green",
    "success": "green",
    "content": "green",
    "higher": "green",
    "came": "green",
    "running": "blue",
    "queued": "blue",
    "only": "blue",
    "moved": "blue",
    "flag": "orange",
    "lower": "orange",
    "paused": "orange",
    "ready": "gray",
    "previous": "gray",
    "icon": "gray",
    "decorative": "gray",
    "background": "gray",
    "page_scan": "gray",
}
"""Colour of each word in a badge: states of corpora, versions and runs, roles and flags of figures, changes; others are red."""
