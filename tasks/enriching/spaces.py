"""The vector spaces of a version. Each is a row of ``SPACES``; nothing else knows a space by its name. Light to import.

To add one is to add a row: keys, caches, the index, checks and copies go through all of them. What is searched in it is up to a
mode (``tasks/answering/modes.py``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schemas.corpus import EmbeddingOptions
from schemas.models import ModelName
from tasks.enriching import embed


class Passage(NamedTuple):
    """What of a row of evidence can be embedded."""

    modality: str
    title: str
    section_path: Sequence[str]
    text: str


@dataclass(frozen=True)
class Space:
    """Vectors of one model, compared by cosine.

    Attributes:
        name: What stores, engines and modes call it: lower case letters.
        version: Goes up when rows are embedded by other content: vectors of before are no longer theirs.
        content: What of a row is embedded; None where the row gets no vector, and then no search in this space finds it.
        model: Which model a corpus file names for it; None where the corpus is to have no such space.
    """

    name: str
    version: str
    content: Callable[[Passage], str | None]
    model: Callable[[EmbeddingOptions], ModelName | None]


TEXT = Space(
    name="text",
    version=embed.EMBED_VERSION,
    content=lambda row: embed.search_text(row.title, row.section_path, row.text),
    model=lambda options: ModelName(options.text, options.revision),
)
"""What every row says. A corpus always has it: chunks are measured by its model, and answers must be near by it."""

SPACES: dict[str, Space] = {space.name: space for space in (TEXT,)}
"""By name."""
