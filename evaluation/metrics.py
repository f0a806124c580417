"""Metrics of a ranking of pages, and the interval of a difference between two rankings."""

from collections.abc import Sequence

import numpy as np


def recall_at(ranks: Sequence[int | None], k: int) -> float | None:
    """Return the share of questions whose first right page is among the first ``k``; arguments as for ``metric``."""
    return metric(f"R@{k}", ranks)


def metric(name: str, ranks: Sequence[int | None]) -> float | None:
    """Return a metric of ``ir-measures``, with one relevant page a question; None for no questions.

    Args:
        name: As ``ir-measures`` spells it, such as ``nDCG@10``.
        ranks: Rank of each question's first right page, from 1; None where it wasn't found.
    """
    if not ranks:
        return None
    import ir_measures

    relevant = {str(number): {str(rank): 1} for number, rank in enumerate(ranks)}
    deepest = max((rank for rank in ranks if rank), default=1)
    run = {number: {str(rank): -rank for rank in range(1, deepest + 1)} for number in relevant}
    measure = ir_measures.parse_measure(name)
    return float(ir_measures.calc_aggregate([measure], relevant, run)[measure])


def paired_bootstrap(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference of paired scores and its 90 % interval: each end is a one-sided bound of 95 %.

    Args:
        ours: A score a question.
        theirs: The other ranking's score of the same questions, in the same order.

    Returns:
        ``(difference, lower, upper)``; zeros for no questions.

    Source:
        Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile intervals).
    """
    from scipy.stats import bootstrap

    differences = np.asarray(ours, float) - np.asarray(theirs, float)
    difference = float(differences.mean()) if len(differences) else 0.0
    if len(differences) < 2:
        return difference, difference, difference
    found = bootstrap((differences,), np.mean, confidence_level=0.9, n_resamples=2_000, method="percentile", rng=0)
    return difference, float(found.confidence_interval.low), float(found.confidence_interval.high)
