"""Sizes of type: which are one, and which lines are set in the largest."""

from collections.abc import Sequence

from schemas.documents import Line

SAME_SIZE_PT = 0.3
"""EV:SAME_SIZE"""

LARGEST_WITHIN_PT = 0.5
"""EV:LARGEST_WITHIN"""


def is_same_size(one: float, other: float) -> bool:
    """Return whether two sizes of type, in points, are one: what a block, a heading, a caption or a step is set in."""
    return abs(one - other) <= SAME_SIZE_PT


def largest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that are set in the largest type: on a first page, its title. [] where there are none."""
    size = max((line.size for line in lines), default=0.0)
    return [line for line in lines if line.size > size - LARGEST_WITHIN_PT]
