"""Raised digits and signs: Unicode's superscripts, so that a mark or an exponent never joins the number before it."""

import re

_PLAIN = "0123456789+-"
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
_RAISE = str.maketrans(f"{_PLAIN}−–", f"{_RAISED}⁻⁻")
SUPERSCRIPTS = f"[{_RAISED}]"
"""A pattern of one of them."""
_MAY_BE_RAISED = re.compile(r"\s*(?:[-+−–]?\d{1,3}|[-+−–])\s*")
_BEHIND_WORD = re.compile(rf"(?:(?<=[^\W\d_]{{3}})|(?<=\d)|(?<=[.,;:!?)\]”’\"']))(?={SUPERSCRIPTS})")


def may_be_raised(text: str) -> bool:
    """Return whether a text is a number or sign as it stands in a mark or exponent."""
    return _MAY_BE_RAISED.fullmatch(text) is not None


def as_superscript(text: str) -> str:
    """Return a text of the same length with its digits and signs as superscripts."""
    return text.translate(_RAISE)


def separate_superscripts(text: str) -> str:
    """Return a text with a blank before each superscript behind a word, number or sentence, so that both are searched.

    Units of one or two letters keep theirs: m², cm³.
    """
    return _BEHIND_WORD.sub(" ", text)
