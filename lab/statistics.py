"""Intervals of means, and tests of differences between two systems on the same questions."""

from collections.abc import Sequence

import numpy as np

from evaluation.golden import RESAMPLES, Scores, interval
from schemas.base import Frozen

DASH = "–"
"""An undefined figure."""


class Estimate(Frozen):
    """A mean over ``n`` questions with its 95 % interval; all None without questions."""

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """Return mean, interval and n; a dash if it is undefined."""
        return DASH if self.mean is None else f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f}, n {self.n})"


class Difference(Frozen):
    """The mean difference of two systems over ``n`` common questions, its 95 % interval, and the p-value of no difference."""

    n: int
    mean: float
    low: float
    high: float
    p: float
    adjusted_p: float | None = None


def estimates(scores: Scores) -> list[Estimate]:
    """Return the mean of each column with its bootstrap interval; the order of rows must not depend on chance.

    Source:
        Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile intervals).
    """
    column_estimates = [Estimate(n=0)] * scores.shape[1]
    for columns, defined_scores in _group_columns(scores):
        low, high = interval(defined_scores, 0.95)
        for index, column in enumerate(columns):
            column_estimates[column] = Estimate(
                n=len(defined_scores), mean=float(defined_scores[:, index].mean()), low=low[index], high=high[index]
            )
    return column_estimates


def differences(scores: Scores, baseline_scores: Scores) -> list[Difference | None]:
    """Return the paired difference of each column, with a permutation test; None for fewer than two common questions."""
    from scipy.stats import permutation_test

    column_differences: list[Difference | None] = [None] * scores.shape[1]
    for columns, defined_scores in _group_columns(scores - baseline_scores):
        if len(defined_scores) < 2:
            continue
        low, high = interval(defined_scores, 0.95)
        test = permutation_test(
            (defined_scores,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, vectorized=True, axis=0, rng=0
        )
        for index, column in enumerate(columns):
            column_differences[column] = Difference(
                n=len(defined_scores),
                mean=float(defined_scores[:, index].mean()),
                low=low[index],
                high=high[index],
                p=float(test.pvalue[index]),
            )
    return column_differences


def adjusted(tests: Sequence[Difference | None]) -> list[Difference | None]:
    """Return tests of one metric with p-values that control the false discovery rate among them."""
    from scipy.stats import false_discovery_control

    p_values = [difference.p for difference in tests if difference is not None]
    corrected = iter(false_discovery_control(p_values) if p_values else ())
    return [difference and difference.model_copy(update={"adjusted_p": float(next(corrected))}) for difference in tests]


def _group_columns(scores: Scores) -> list[tuple[list[int], Scores]]:
    """Return columns that are defined for the same rows together, with those rows."""
    is_defined = ~np.isnan(scores)
    groups: dict[bytes, list[int]] = {}
    for column in range(scores.shape[1]):
        groups.setdefault(is_defined[:, column].tobytes(), []).append(column)
    return [
        (columns, scores[is_defined[:, columns[0]]][:, columns])
        for columns in groups.values()
        if is_defined[:, columns[0]].any()
    ]
