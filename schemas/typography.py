"""Sizes of type: which are one, and which lines are set in the largest."""

from collections.abc import Sequence

from schemas.documents import Line

SAME_SIZE_PT = 0.3
"""Maximum difference of equal font sizes. Without it 10 of 50 right-to-left pages get worse."""

LARGEST_WITHIN_PT = 0.5
"""Maximum difference to a page's largest font size. At 1, 2 of 56 titles get worse."""


def is_same_size(first_pt: float, second_pt: float) -> bool:
    """Return whether two font sizes, in points, are equal within ``SAME_SIZE_PT``."""
    return abs(first_pt - second_pt) <= SAME_SIZE_PT


def largest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines in the largest font size: on a first page, its title."""
    size = max((line.size for line in lines), default=0.0)
    return [line for line in lines if line.size > size - LARGEST_WITHIN_PT]
