"""Group hits by page or document: the best of each group, and how many others there are."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

GROUPED = 1_000
"""Rows that are grouped, the best of a ranking: a constant, so that every page of hits is of the same groups."""


class BestOfGroup(NamedTuple):
    """The best row of a group, and how many others it has."""

    evidence_id: str
    score: float
    others: int


def group(ranked: Iterable[tuple[str, float, Hashable]]) -> list[BestOfGroup]:
    """Return the best row of each group, best first, of rows given as evidence id, score and group, best first."""
    first: dict[Hashable, tuple[str, float]] = {}
    count: dict[Hashable, int] = {}
    for evidence_id, score, name in ranked:
        first.setdefault(name, (evidence_id, score))
        count[name] = count.get(name, 0) + 1
    return [BestOfGroup(evidence_id, score, count[name] - 1) for name, (evidence_id, score) in first.items()]
