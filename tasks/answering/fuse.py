"""Merge rankings."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from schemas.errors import ContractError


def fuse(
    rankings: Sequence[Sequence[str]], *, k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[str, float]]:
    """Merge best-first rankings by reciprocal rank fusion.

    A ranking gives ``weight / (k + rank)``, rank from 1, to each of its rows. Raw scores are never compared: BM25 and cosine
    share no scale.

    Args:
        rankings: Evidence ids, best first, one sequence a retriever; may be empty.
        k: Rank offset, > 0; larger flattens the top ranks.
        weights: Weight of each ranking, ≥ 0; equal if None.

    Returns:
        ``(evidence_id, score)``, best first. Ties are ordered by id, so that every engine pages alike.

    Raises:
        ContractError: A ranking names a row twice.

    Source:
        Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    weights = weights or [1.0] * len(rankings)
    for ranking in rankings:
        _check_once(ranking)
    return summed(
        [(name, weight / (k + rank)) for rank, name in enumerate(ranking, 1)]
        for ranking, weight in zip(rankings, weights, strict=True)
    )


def fuse_shares(
    rankings: Sequence[Sequence[tuple[str, float]]], weights: Sequence[float], *, depth: int
) -> list[tuple[str, float]]:
    """Merge best-first rankings by each row's share of the ranking's best score; results and errors as of ``fuse``.

    A ranking gives a row ``weight * score / best``, at least 0. A row that a full ranking of ``depth`` rows lacks gets the share
    of its last row; one that a shorter ranking lacks gets 0. Unlike ranks, shares keep how far the best row is ahead.
    """
    for ranking in rankings:
        _check_once([name for name, _ in ranking])
    shares = [_shares(ranking, weight) for ranking, weight in zip(rankings, weights, strict=True)]
    lowest_shares = [
        min(shares_by_name.values(), default=0.0) if len(ranking) >= depth else 0.0
        for ranking, shares_by_name in zip(rankings, shares, strict=True)
    ]
    names = {name for shares_by_name in shares for name in shares_by_name}
    return summed(
        [(name, shares_by_name.get(name, lowest_share)) for name in names]
        for shares_by_name, lowest_share in zip(shares, lowest_shares, strict=True)
    )


def in_turn(rankings: Sequence[Sequence[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Concatenate best-first rankings; a row keeps its first position, and scores count down from 1."""
    names = list(dict.fromkeys(name for ranking in rankings for name, _ in ranking))
    return [(name, 1 / rank) for rank, name in enumerate(names, 1)]


def _shares(ranking: Sequence[tuple[str, float]], weight: float) -> dict[str, float]:
    best = max((score for _, score in ranking), default=0.0)
    return {name: weight * max(0.0, score / best) if best > 0 else 0.0 for name, score in ranking}


def summed(rankings: Iterable[Iterable[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Return names by the sum of their scores, best first; ties go by name."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for name, score in ranking:
            scores[name] = scores.get(name, 0.0) + score
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _check_once(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise ContractError("a ranking names a row twice")


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
    count = Counter[Hashable]()
    for evidence_id, score, name in ranked:
        first.setdefault(name, (evidence_id, score))
        count[name] += 1
    return [BestOfGroup(evidence_id, score, count[name] - 1) for name, (evidence_id, score) in first.items()]
