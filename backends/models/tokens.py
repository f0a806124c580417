"""Late interaction over the tokens of texts."""

from collections.abc import Iterable

import numpy as np

from schemas.ports import Vector


def of_unit_length(vectors: Vector) -> Vector:
    """Return vectors, one a row, at length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def best_cosines(question: Vector, passages: Iterable[Vector]) -> list[float]:
    """Return for each passage the mean over the question's tokens of the best cosine among the passage's.

    Tokens are unit vectors, one a row.

    Source:
        Khattab and Zaharia, "ColBERT", SIGIR 2020.
    """
    return [float((question @ tokens.T).max(axis=1).mean()) for tokens in passages]
