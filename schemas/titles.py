"""Comparison of titles, ignoring number, case and stops."""

import re

NUMBERING = re.compile(
    r"\s*(?:(?:chapter|appendix|section|part|kapitel)\s+)?((?:[A-Z]|[IVX]+|\d{1,3})(?:\.\d{1,3})*)[.:)]?\s+", re.IGNORECASE
)
"""The number before a title."""

_SILENT = re.compile(r"[\W_]+")
_SILENT_ASCII = bytes(code for code in range(128) if not chr(code).isalnum())


def same_title(first: str, second: str) -> bool:
    """Return whether two titles are equal but for case, white space, stops and their number.

    Each is compared with and without its apparent number: in "2.6.1 X Axis" the X isn't one.
    """
    return not {title_letters(first), without_number(first)}.isdisjoint({title_letters(second), without_number(second)})


def title_letters(text: str) -> str:
    """Return a title without case, white space and stops."""
    if text.isascii():  # in a sixth of the time
        return text.encode().translate(None, _SILENT_ASCII).decode().lower()
    return _SILENT.sub("", text).casefold()


def without_number(text: str, letters: str | None = None) -> str:
    """Return a title's letters without its number."""
    number = NUMBERING.match(text)
    if number is not None:
        return title_letters(text[number.end() :])
    return title_letters(text) if letters is None else letters
