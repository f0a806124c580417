"""The words of a text, normalised for comparison."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"  # written without spaces: each character counts as a word
    r"|(?:[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[\u0300-\u036f\u00ad])+"
)
_SOFT_HYPHEN = "\u00ad"
_NUMBERED = re.compile(r"\s*((?:[A-Z]\.)?\d+(?:\.\d+)*)[.):]?\s+(?=\S)")


class Word(NamedTuple):
    """A normalised word with its span in the text."""

    folded: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """Yield the words of a text, in order."""
    for word_match in _WORD.finditer(text):
        plain = word_match[0]
        # Most are: and then there is nothing to normalise.
        plain = (
            plain.lower() if plain.isascii() else unicodedata.normalize("NFKC", plain.replace(_SOFT_HYPHEN, "")).casefold()
        )
        if plain:
            yield Word(plain, word_match.start(), word_match.end())


def folded_words(text: str) -> list[str]:
    """Return the words of a text, normalised, in order."""
    return _WORD.findall(text.lower()) if text.isascii() else [word.folded for word in words(text)]


def folded(text: str) -> str:
    """Return a text as its words with one space between them."""
    return " ".join(folded_words(text))


def section_names(path: Sequence[str]) -> list[str]:
    """Return every name of the sections around a row, folded: titles, bare titles, numbers, and paths from the top."""
    number_matches = [_NUMBERED.match(title) for title in path]
    bare = [title[number.end() :] if number else title for title, number in zip(path, number_matches, strict=True)]
    paths = [" ".join(titles[:depth]) for titles in (path, bare) for depth in range(1, len(path) + 1)]
    return sorted(
        {folded(name) for name in (*path, *bare, *(number[1] for number in number_matches if number), *paths)} - {""}
    )
