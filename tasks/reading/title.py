"""Name a document."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.tags import escape
from schemas.typography import largest

_LEAST_CHARACTERS = 4
"""Shortest title in metadata: less is a number or a leftover. All 21 titles of 56 PDFs have 9 or more."""

_PROGRAM_TITLES = ("untitled", "microsoft word")
"""How titles begin that a program wrote where its user gave none."""

_MOST_CHARACTERS = 200
"""Longest title: a first page may be set in one size. Of 56 first pages 6 change at 100, 6 at 400 (none of them has its title
in the largest words).
"""

_SHORTEST_WORDS = 3
"""Characters of a line that may be the title: less is an initial, an ornament or the number of a page. Of 56 first pages 1
changes at 1 ("I" is the title), 3 at 6 (a word of a title is lost; two titles are found, over misread letters).
"""


def title_of(metadata: str, lines: Sequence[Line]) -> str:
    """Return the title in a PDF's metadata, or else the largest words of its first page; "" where there are none."""
    named = metadata.strip()
    if len(named) >= _LEAST_CHARACTERS and not named.lower().startswith(_PROGRAM_TITLES):
        return escape(named)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) >= _SHORTEST_WORDS]
    return " ".join(line.text.strip() for line in largest(first))[:_MOST_CHARACTERS]
