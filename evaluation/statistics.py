"""Bootstrap intervals of means."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000

Scores = NDArray[np.float64]
"""A row a question, a column a metric; NaN if a metric is undefined."""


def paired_bootstrap(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference of paired scores and its 90 % interval: each end is a one-sided bound of 95 %.

    Args:
        ours: A score a question.
        theirs: The other ranking's score of the same questions, in the same order.

    Returns:
        ``(difference, lower, upper)``; zeros for no questions.
    """
    differences = np.asarray(ours, float) - np.asarray(theirs, float)
    if not len(differences):
        return 0.0, 0.0, 0.0
    low, high = interval(differences[:, np.newaxis], 0.9)
    return float(differences.mean()), low[0], high[0]


def interval(values: Scores, level: float) -> tuple[list[float], list[float]]:
    """Return the lower and upper ends of a bootstrap interval of each column's mean; ``level`` is its coverage, such as 0.95."""
    from scipy.stats import bootstrap

    if len(values) < 2:
        return values[0].tolist(), values[0].tolist()
    bounds: Any = bootstrap(
        (values,), np.mean, confidence_level=level, n_resamples=RESAMPLES, method="percentile", rng=0, axis=0, batch=500
    ).confidence_interval
    return bounds.low.tolist(), bounds.high.tolist()
