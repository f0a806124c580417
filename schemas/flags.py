"""What is found wrong with a description, and what became of it."""

from collections.abc import Iterable
from enum import StrEnum


class Flag(StrEnum):
    """Why a description isn't used, or what a reader should know of one that is.

    Rows keep them by name. The first ones refuse: a figure or page is described by what its document says of it, and a
    text is searched as it is.
    """

    NOT_DESCRIBED = "not_described"
    """The model is still to be asked: what may be spent was gone, or it didn't answer."""
    FAILED = "failed"
    """The model can't describe it."""
    NO_TEXT = "no_text"
    """The model reads words, and there are none."""
    EMPTY = "empty"
    """The answer has no word."""
    TOO_SHORT = "too_short"
    """It has fewer words than its prompt says."""
    TOO_LONG = "too_long"
    """It has more."""
    REPETITION = "repetition"
    """It says the same again and again."""
    PROMPT_ECHO = "prompt_echo"
    """It repeats what the model was asked, or the marks of a conversation."""
    REFUSAL = "refusal"
    """It says that the model can't or won't answer."""
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
    """It was made of another figure, which looks nearly the same."""


MARKING = frozenset({Flag.MARKDOWN, Flag.CUT_OFF, Flag.NUMBERS_MISSING, Flag.PAGE_NUMBER_MISSING, Flag.SHARED})
"""Those that leave a description in use."""

REFUSING = frozenset(Flag) - MARKING
"""Those of a description that isn't used."""


def is_refused(flags: Iterable[Flag]) -> bool:
    """Return whether a description with these flags is left out."""
    return not REFUSING.isdisjoint(flags)
