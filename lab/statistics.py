"""Intervals of means, and tests of differences between two systems on the same questions."""

from collections.abc import Sequence

import numpy as np

from evaluation.statistics import RESAMPLES, Scores, interval
from schemas.frozen import Frozen


class Estimate(Frozen):
    """A mean over ``n`` questions with its 95 % interval; all None without questions."""

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


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
    found = [Estimate(n=0)] * scores.shape[1]
    for columns, own in _alike(scores):
        low, high = interval(own, 0.95)
        for place, column in enumerate(columns):
            found[column] = Estimate(n=len(own), mean=float(own[:, place].mean()), low=low[place], high=high[place])
    return found


def differences(ours: Scores, theirs: Scores) -> list[Difference | None]:
    """Return the paired difference of each column, with a permutation test; None for fewer than two common questions."""
    from scipy.stats import permutation_test

    found: list[Difference | None] = [None] * ours.shape[1]
    for columns, own in _alike(ours - theirs):
        if len(own) < 2:
            continue
        low, high = interval(own, 0.95)
        tested = permutation_test(
            (own,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, vectorized=True, axis=0, rng=0
        )
        for place, column in enumerate(columns):
            found[column] = Difference(
                n=len(own),
                mean=float(own[:, place].mean()),
                low=low[place],
                high=high[place],
                p=float(tested.pvalue[place]),
            )
    return found


def adjusted(tests: Sequence[Difference | None]) -> list[Difference | None]:
    """Return tests of one metric with p-values that control the false discovery rate among them."""
    from scipy.stats import false_discovery_control

    known = [one.p for one in tests if one is not None]
    corrected = iter(false_discovery_control(known) if known else ())
    return [one and one.model_copy(update={"adjusted_p": float(next(corrected))}) for one in tests]


def _alike(scores: Scores) -> list[tuple[list[int], Scores]]:
    """Return columns that are defined for the same rows together, with those rows."""
    known = ~np.isnan(scores)
    groups: dict[bytes, list[int]] = {}
    for column in range(scores.shape[1]):
        groups.setdefault(known[:, column].tobytes(), []).append(column)
    return [
        (columns, scores[known[:, columns[0]]][:, columns]) for columns in groups.values() if known[:, columns[0]].any()
    ]
