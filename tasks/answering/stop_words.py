"""Remove stop words from a query."""

import re
from collections.abc import Sequence
from typing import Literal

_WORD = re.compile(r"\w+")

STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
        "to was will with"
    )
)
"""Lucene's English ones."""


def searched(query: str, stop_words: Literal["english"] | Sequence[str]) -> str:
    """Return the words that BM25 searches for."""
    stopped = STOP_WORDS if stop_words == "english" else {word.lower() for word in stop_words}
    return without(query, stopped)


def without(query: str, stopped: frozenset[str] | set[str]) -> str:
    """Return a query without stop words; unchanged if it has no other words."""
    shortened = _WORD.sub(lambda word: "" if word[0].lower() in stopped else word[0], query)
    return shortened if _WORD.search(shortened) else query
