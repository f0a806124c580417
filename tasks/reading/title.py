"""Name a document."""

import re
from collections.abc import Sequence

from schemas.documents import LayoutLabel, Line
from schemas.tags import escape
from schemas.typography import largest

_LEAST_CHARACTERS = 4
"""Minimum length of a title in metadata: shorter ones are leftovers."""

_NO_TITLE = re.compile(
    r"(?:untitled|microsoft word|\(?anonymous\)?|title|document\d*$|slide \d)"
    r"|.*\.(?:indd|docx?|qxd|fm|pdf|odt|pptx?|xlsx?|tex|dvi|rtf)$|[\w-]*_[\w.-]*$",
    re.IGNORECASE,
)
"""Titles that a program wrote by default, and names of files."""

_MOST_CHARACTERS = 200
"""Maximum length of a title: what is longer is a paragraph."""

_SHORTEST_WORDS = 3
"""Minimum length of a line of the title: shorter ones are initials, ornaments or page numbers."""


def title_of(metadata: str, lines: Sequence[Line]) -> str:
    """Return the title in a PDF's metadata, or else the largest words of its first page; "" without either."""
    metadata_title = metadata.strip()
    if len(metadata_title) >= _LEAST_CHARACTERS and not _NO_TITLE.match(metadata_title):
        return escape(metadata_title)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) >= _SHORTEST_WORDS]
    labelled = [line for line in first if line.label in (LayoutLabel.TITLE, LayoutLabel.HEADING)]
    title = " ".join(line.text.strip() for line in largest(labelled or first))
    return title if len(title) <= _MOST_CHARACTERS else ""
