"""Merge rankings."""

from collections.abc import Iterable, Sequence

from schemas.errors import ContractError


def fuse(
    rankings: Sequence[Sequence[str]], *, k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[str, float]]:
    """Merge best-first rankings into one by reciprocal rank fusion.

    A ranking gives ``weight / (k + rank)``, rank counted from 1, to each row it names. Raw scores are never compared:
    BM25 and cosine share no scale.

    Args:
        rankings: Evidence ids, best first, one sequence a retriever; may be empty.
        k: Rank offset, > 0; larger flattens the top ranks.
        weights: What each ranking counts, ≥ 0; alike where None.

    Returns:
        ``(evidence_id, score)``, best first. Ties go by id, so every engine pages alike.

    Raises:
        ContractError: A ranking names a row twice.

    Source:
        Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    counts = [1.0] * len(rankings) if weights is None else weights
    for ranking in rankings:
        _check_once(ranking)
    return summed(
        [(name, weight / (k + rank)) for rank, name in enumerate(ranking, 1)]
        for ranking, weight in zip(rankings, counts, strict=True)
    )


def fuse_scores(rankings: Sequence[Sequence[tuple[str, float]]], weights: Sequence[float]) -> list[tuple[str, float]]:
    """Merge best-first rankings into one by their scores, each brought to one scale.

    A ranking gives a row ``weight * (score - worst) / (best - worst)``: its best row the whole weight, its last one nothing.
    Where all scores are alike, each row gets the whole weight.

    Args:
        rankings: ``(evidence_id, score)``, best first, one sequence a retriever; may be empty.
        weights: What each ranking counts, ≥ 0.

    Returns:
        ``(evidence_id, score)``, best first. Ties go by id, so every engine pages alike.

    Raises:
        ContractError: A ranking names a row twice.

    Source:
        Lee, "Analyses of Multiple Evidence Combination", SIGIR 1997.
    """
    for ranking in rankings:
        _check_once([name for name, _ in ranking])
    return summed(_scaled(ranking, weight) for ranking, weight in zip(rankings, weights, strict=True))


def fuse_shares(
    rankings: Sequence[Sequence[tuple[str, float]]], weights: Sequence[float], *, depth: int
) -> list[tuple[str, float]]:
    """Merge best-first rankings into one by the shares that rows have of each ranking's best score.

    A ranking gives a row ``weight * score / best``, never less than nothing. A row that a ranking of ``depth`` rows lacks may
    come right behind its last one, so it gets as much as that; one that a shorter ranking lacks wasn't found by it, and gets
    nothing. Unlike ranks, shares keep how far the best row is ahead.

    Args:
        rankings: ``(evidence_id, score)``, best first, one sequence a retriever; may be empty.
        weights: What each ranking counts, ≥ 0.
        depth: Rows that each retriever was asked for.

    Returns:
        ``(evidence_id, score)``, best first. Ties go by id, so every engine pages alike.

    Raises:
        ContractError: A ranking names a row twice.
    """
    for ranking in rankings:
        _check_once([name for name, _ in ranking])
    shares = [_shares(ranking, weight) for ranking, weight in zip(rankings, weights, strict=True)]
    behind = [
        min(given.values(), default=0.0) if len(ranking) >= depth else 0.0
        for ranking, given in zip(rankings, shares, strict=True)
    ]
    names = {name for given in shares for name in given}
    return summed([(name, given.get(name, least)) for name in names] for given, least in zip(shares, behind, strict=True))


def in_turn(rankings: Sequence[Sequence[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Put best-first rankings one behind the other; a row stands where it comes first.

    Args:
        rankings: ``(evidence_id, score)``, best first, one sequence a retriever; may be empty.

    Returns:
        ``(evidence_id, score)``, best first: what retrievers score on scales of their own counts down from 1 here.
    """
    names = list(dict.fromkeys(name for ranking in rankings for name, _ in ranking))
    return [(name, 1 / rank) for rank, name in enumerate(names, 1)]


def _scaled(ranking: Sequence[tuple[str, float]], weight: float) -> list[tuple[str, float]]:
    scores = [score for _, score in ranking]
    worst, spread = min(scores, default=0.0), max(scores, default=0.0) - min(scores, default=0.0)
    return [(name, weight * ((score - worst) / spread if spread else 1.0)) for name, score in ranking]


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
