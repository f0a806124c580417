"""Name a document."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.tags import escape
from schemas.typography import largest

_LEAST_CHARACTERS = 4
"""Minimum length of a title in metadata: shorter ones are leftovers."""

_PROGRAM_TITLES = ("untitled", "microsoft word")
"""Prefixes of titles that a program wrote by default."""

_MOST_CHARACTERS = 200
"""Maximum length of a title: a first page may be set in one size."""

_SHORTEST_WORDS = 3
"""Minimum length of a line of the title: shorter ones are initials, ornaments or page numbers."""


def title_of(metadata: str, lines: Sequence[Line]) -> str:
    """Return the title in a PDF's metadata, or else the largest words of its first page; "" without either."""
    named = metadata.strip()
    if len(named) >= _LEAST_CHARACTERS and not named.lower().startswith(_PROGRAM_TITLES):
        return escape(named)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) >= _SHORTEST_WORDS]
    return " ".join(line.text.strip() for line in largest(first))[:_MOST_CHARACTERS]
