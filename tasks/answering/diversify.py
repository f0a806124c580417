"""Maximal marginal relevance."""

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.ports import Vector


def diversify(
    query: Vector, ranked: Sequence[str], vectors: Mapping[str, Vector], *, k: int, relevance: float
) -> list[tuple[str, float]]:
    """Choose rows one by one, each near to the query and far from those chosen before: maximal marginal relevance.

    Args:
        query: Vector of the question, shape ``(dimension,)``.
        ranked: Evidence ids to choose from, best first.
        vectors: Their vectors, of the query's space. Rows without one come last, in rank order.
        k: Rows wanted.
        relevance: Weight of nearness to the query, 0 to 1; 1 sorts by cosine similarity.

    Returns:
        ``(evidence_id, score)`` in the order of choice. Scores never rise; a row without a vector gets -1, below all others.

    Source:
        Carbonell and Goldstein, "The Use of MMR", SIGIR 1998.
    """
    candidates = [name for name in ranked if name in vectors]
    selected: list[tuple[str, float]] = []
    if candidates:
        matrix = np.stack([_unit(vectors[name]) for name in candidates])
        gains = relevance * (matrix @ _unit(query))
        similarity = np.zeros(len(candidates), np.float32)
        while len(selected) < min(k, len(candidates)):
            marginal = gains - (1 - relevance) * similarity
            best = int(np.argmax(marginal))  # ties go to the better ranked
            selected.append((candidates[best], float(min(marginal[best], selected[-1][1] if selected else np.inf))))
            similarity_to_best = matrix @ matrix[best]
            similarity = np.maximum(similarity, similarity_to_best) if len(selected) > 1 else similarity_to_best
            gains[best] = -np.inf
    return [*selected, *((name, -1.0) for name in ranked if name not in vectors)][:k]


def _unit(vector: Vector) -> Vector:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)
