"""Quality flags of a description."""

from collections.abc import Iterable
from enum import StrEnum


class Flag(StrEnum):
    """Why a description isn't used, or a warning about one that is.

    Rows store flags by name. Without a usable description a figure or page is described by its document, and a text is
    searched as it is.
    """

    NOT_DESCRIBED = "not_described"
    """The model hasn't replied yet: the budget was spent, or it didn't answer."""
    FAILED = "failed"
    """The model can't describe it."""
    NO_TEXT = "no_text"
    """The model reads words, and there are none."""
    EMPTY = "empty"
    """The answer has no word."""
    TOO_SHORT = "too_short"
    """It has fewer words than its prompt says."""
    TOO_LONG = "too_long"
    """It has more words than its prompt allows."""
    REPETITION = "repetition"
    """It says the same again and again."""
    PROMPT_ECHO = "prompt_echo"
    """It repeats the prompt, or marks of a chat."""
    REFUSAL = "refusal"
    """The model refuses to answer."""
    WRONG_LANGUAGE = "wrong_language"
    """It is in another language than it must be."""
    MARKDOWN = "markdown"
    """It has marks of a mark-up language."""
    CUT_OFF = "cut_off"
    """It ends where the model reached its limit of tokens."""
    NUMBERS_MISSING = "numbers_missing"
    """It lacks most of the numbers that were read in the figure."""
    PAGE_NUMBER_MISSING = "page_number_missing"
    """It describes a page, and lacks the number that is printed there."""
    SHARED = "shared"
    """It was written for a near duplicate."""


MARKING = frozenset({Flag.MARKDOWN, Flag.CUT_OFF, Flag.NUMBERS_MISSING, Flag.PAGE_NUMBER_MISSING, Flag.SHARED})
"""Warnings: the description is used."""

REFUSING = frozenset(Flag) - MARKING
"""Flags of an unusable description."""


def is_refused(flags: Iterable[Flag]) -> bool:
    """Return whether a description with these flags is left out."""
    return not REFUSING.isdisjoint(flags)
