"""Agreement of a judge with people."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Agreement(NamedTuple):
    """Share of equal labels, Cohen's kappa (None if chance alone explains all), and the number of labels."""

    share: float
    kappa: float | None
    n: int


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement:
    """Compare two annotators' labels of the same things.

    Raises:
        ValueError: The lengths differ, or there are no labels.

    Source:
        Cohen, Educational and Psychological Measurement 20 (1960).
    """
    if len(first) != len(second) or not first:
        raise ValueError("agreement needs two equally long lists of labels")
    n = len(first)
    share = sum(one == other for one, other in zip(first, second, strict=True)) / n
    chance = sum(first.count(label) * second.count(label) for label in set(first)) / n**2
    return Agreement(share, (share - chance) / (1 - chance) if chance < 1 else None, n)
