"""Name a document."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.tags import escape
from schemas.typography import largest

_LEAST_CHARACTERS = 4
"""EV:LEAST_CHARACTERS"""

_PROGRAM_TITLES = ("untitled", "microsoft word")
"""How titles begin that a program wrote where its user gave none."""

_MOST_CHARACTERS = 200
"""EV:MOST_CHARACTERS"""

_SHORTEST_WORDS = 3
"""EV:SHORTEST_WORDS"""


def title_of(metadata: str, lines: Sequence[Line]) -> str:
    """Return the title in a PDF's metadata, or else the largest words of its first page; "" where there are none."""
    named = metadata.strip()
    if len(named) >= _LEAST_CHARACTERS and not named.lower().startswith(_PROGRAM_TITLES):
        return escape(named)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) >= _SHORTEST_WORDS]
    return " ".join(line.text.strip() for line in largest(first))[:_MOST_CHARACTERS]
