"""Find figures similar to a figure by the vectors of their rows."""

from collections.abc import Callable, Sequence

from schemas.filters import Filters, Modality
from schemas.ports import SearchIndex, Vector

ROWS_AT_MOST = 4000
"""Maximum number of rows examined; a figure may stand in hundreds of documents, a row each."""

_FIGURES = Filters(modalities=[Modality.FIGURE])


def neighbours(
    index: SearchIndex,
    vector: Vector,
    space: str,
    figures_of: Callable[[Sequence[str]], Sequence[str | None]],
    *,
    excluded_figure: str,
    k: int,
) -> list[tuple[str, float]]:
    """Return the rows of the at most ``k`` figures with the vectors nearest to one, one row a figure.

    ``excluded_figure`` is left out. ``figures_of`` returns the figure of each row by its evidence id.

    Returns:
        ``(evidence_id, cosine similarity)``, best first.
    """
    depth = k + 1
    while True:
        depth = min(4 * depth, ROWS_AT_MOST)
        nearest = index.dense(vector, depth, _FIGURES, space)
        seen_figures: set[str | None] = {excluded_figure, None}
        best = []
        for (row, score), figure in zip(nearest, figures_of([row for row, _ in nearest]), strict=True):
            if figure not in seen_figures:
                seen_figures.add(figure)
                best.append((row, score))
        if len(best) >= k or len(nearest) < depth or depth == ROWS_AT_MOST:
            return best[:k]
