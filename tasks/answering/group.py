"""Show the best of each page or document, and say how many more there are."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

GROUPED = 1_000
"""Rows that groups are made of, the best of a ranking: always as many, so that page after page is of the same groups."""


class Leader(NamedTuple):
    """The best row of a group, and how many others it has."""

    evidence_id: str
    score: float
    others: int


def group(ranked: Iterable[tuple[str, float, Hashable]]) -> list[Leader]:
    """Return the best row of each group, in the order of those.

    Args:
        ranked: Evidence id, score and group of rows, best first.
    """
    first: dict[Hashable, tuple[str, float]] = {}
    count: dict[Hashable, int] = {}
    for evidence_id, score, name in ranked:
        first.setdefault(name, (evidence_id, score))
        count[name] = count.get(name, 0) + 1
    return [Leader(evidence_id, score, count[name] - 1) for name, (evidence_id, score) in first.items()]
