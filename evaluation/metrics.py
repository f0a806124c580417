"""How good a ranking of pages is, and whether two versions differ."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def recall_at(ranks: Sequence[int | None], k: int) -> float | None:
    """Return the share of questions whose first right page is among the first ``k``; None for no questions.

    Args:
        ranks: Rank of each question's first right page, from 1; None where it wasn't found.
        k: Ranks that count.
    """
    return _mean([rank is not None and rank <= k for rank in ranks])


def reciprocal_rank(ranks: Sequence[int | None], k: int = 10) -> float | None:
    """Return the mean reciprocal rank of the first right page, 0 beyond ``k``; None for no questions."""
    return _mean([1 / rank if rank is not None and rank <= k else 0.0 for rank in ranks])


def discounted_gain(ranks: Sequence[int | None], k: int = 10) -> float | None:
    """Return the mean nDCG@k for one relevant page a question; None for no questions."""
    return _mean([1 / math.log2(rank + 1) if rank is not None and rank <= k else 0.0 for rank in ranks])


def paired_bootstrap(
    ours: Sequence[float], theirs: Sequence[float], *, samples: int = 2_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean difference of paired scores and its 90 % interval: each end is a one-sided bound of 95 %.

    Args:
        ours: A score a question.
        theirs: The other ranking's score of the same questions, in the same order.
        samples: Resamples.
        seed: Seed of the resampling, so that the same scores give the same interval.

    Returns:
        ``(difference, lower, upper)``; zeros for no questions.

    Source:
        Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile intervals).
    """
    if not ours:
        return 0.0, 0.0, 0.0
    differences: NDArray[np.float64] = np.asarray(ours, float) - np.asarray(theirs, float)
    picks = np.random.default_rng(seed).integers(0, len(differences), (samples, len(differences)))
    means = differences[picks].mean(axis=1)
    return float(differences.mean()), float(np.quantile(means, 0.05)), float(np.quantile(means, 0.95))


def _mean(values: Sequence[float]) -> float | None:
    return float(sum(values)) / len(values) if values else None
