"""Name a document."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.tags import escape

_LEAST_CHARACTERS = 4
_PROGRAM_TITLES = ("untitled", "microsoft word")
"""How titles begin that a program wrote where its user gave none."""

_SAME_SIZE_PT = 0.5
_MOST_CHARACTERS = 200


def title_of(metadata: str, lines: Sequence[Line]) -> str:
    """Return the title in a PDF's metadata, or else the largest words of its first page; "" where there are none."""
    named = metadata.strip()
    if len(named) >= _LEAST_CHARACTERS and not named.lower().startswith(_PROGRAM_TITLES):
        return escape(named)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) > 2]
    if not first:
        return ""
    largest = max(line.size for line in first)
    return " ".join(line.text.strip() for line in first if line.size > largest - _SAME_SIZE_PT)[:_MOST_CHARACTERS]
