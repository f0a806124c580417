"""Order candidates anew. Every reranker returns a permutation of what it was given, whatever it is that judged."""

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.ports import Vector


def reordered(ranked: Sequence[tuple[str, float]], scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Put the rows that were scored first, best first; the others keep their order behind them.

    Args:
        ranked: ``(evidence_id, score)``, best first.
        scores: Larger is better; may lack rows. Rows that weren't ranked, and scores that are no numbers, count for nothing.

    Returns:
        The same rows, each once. Those that weren't scored come below all others: the scores don't rise.
    """
    judged = {name: scores[name] for name, _ in ranked if np.isfinite(scores.get(name, np.nan))}
    places = {name: place for place, (name, _) in enumerate(ranked)}
    first = sorted(judged.items(), key=lambda pair: (-pair[1], places[pair[0]]))
    least = min(judged.values(), default=0.0)
    rest = [name for name, _ in ranked if name not in judged]
    return [*first, *((name, least - 1 - place) for place, name in enumerate(rest))]


def cosine(query: Vector, vector: Vector) -> float:
    """Return the cosine of two vectors; of many a side, the best of the other side for each of the query's, summed."""
    query, vector = np.atleast_2d(query), np.atleast_2d(vector)
    cosines = (query / _lengths(query)) @ (vector / _lengths(vector)).T
    return float(cosines.max(axis=1).sum())


def _lengths(vectors: Vector) -> Vector:
    return np.asarray(np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)
