"""Sizes of type: which are one, and which lines are set in the largest."""

from collections.abc import Sequence

from schemas.documents import Line

SAME_SIZE_PT = 0.3
"""How far sizes of type differ that are one. Of 409 pages none changes at 0.15, 1 at 0.6 (a table's caption is lost in the text
over it). Of the 50 pages at hand with right-to-left letters none changes at 0.15 or 0.6; 10 do without it (headings join the
text under them).
"""

LARGEST_WITHIN_PT = 0.5
"""How much smaller than the largest words of a page others are that are set as large. Of 56 first pages the words of none change
at 0.25, of 2 at 1 (the names of a publisher and of a writer join the title).
"""


def is_same_size(one: float, other: float) -> bool:
    """Return whether two sizes of type, in points, are one: what a block, a heading, a caption or a step is set in."""
    return abs(one - other) <= SAME_SIZE_PT


def largest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that are set in the largest type: on a first page, its title. [] where there are none."""
    size = max((line.size for line in lines), default=0.0)
    return [line for line in lines if line.size > size - LARGEST_WITHIN_PT]
