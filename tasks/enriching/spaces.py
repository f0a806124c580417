"""The vector spaces of a version. Each is a row of ``SPACES``; nothing else knows a space by its name. Light to import."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Space:
    """Vectors of one model, compared by cosine."""

    name: str


TEXT = Space("text")

SPACES: Mapping[str, Space] = MappingProxyType({space.name: space for space in (TEXT,)})
"""By name. The first one has a vector of every row: near copies are told by it where a search names no space."""
