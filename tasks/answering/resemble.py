"""Find figures like a figure: by the vectors of their rows, or by perceptual hashes."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.evidence import Filters, Modality
from schemas.ports import SearchIndex, Vector
from tasks.enriching.near_duplicates import HASH_BITS

ROWS_AT_MOST = 4000
"""Rows that are looked through for figures that differ; a figure may stand in hundreds of documents, a row each."""

_FIGURES = Filters(modalities=[Modality.FIGURE])


def neighbours(
    index: SearchIndex,
    vector: Vector,
    space: str,
    figures_of: Callable[[Sequence[str]], Sequence[str | None]],
    *,
    but: str,
    k: int,
) -> list[tuple[str, float]]:
    """Return the rows of the figures whose vectors are nearest, one row a figure.

    Args:
        index: The version.
        vector: What they are to be near to.
        space: Whose vectors.
        figures_of: Returns the figure of each row by its evidence id.
        but: The figure that is left out.
        k: Figures at most.

    Returns:
        ``(evidence_id, cosine similarity)``, best first.
    """
    depth = k + 1
    while True:
        depth = min(4 * depth, ROWS_AT_MOST)
        found = index.dense(vector, depth, _FIGURES, space)
        seen: set[str | None] = {but, None}
        best = []
        for (row, score), figure in zip(found, figures_of([row for row, _ in found]), strict=True):
            if figure not in seen:
                seen.add(figure)
                best.append((row, score))
        if len(best) >= k or len(found) < depth or depth == ROWS_AT_MOST:
            return best[:k]


def look_alikes(hashes: NDArray[np.uint64], place: int, k: int) -> list[tuple[int, float]]:
    """Return the figures whose perceptual hashes differ least from that of one of them.

    Args:
        hashes: One a figure.
        place: The one that is left out.
        k: Figures at most.

    Returns:
        ``(place, share of the bits that are equal)``, best first, ties in the order given.
    """
    distances = np.bitwise_count(hashes ^ hashes[place])
    nearest = np.argsort(distances, kind="stable")  # by radix: they are small numbers
    return [(int(at), 1 - float(distances[at]) / HASH_BITS) for at in nearest[: k + 1] if at != place][:k]
