"""Rectangles on a page.

Coordinates are PDF points (1/72 inch), origin at the top left of the page as it is drawn at rotation 0, y downwards.
"""

from collections.abc import Iterable
from typing import NamedTuple


class BBox(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        """Width in points, never negative."""
        return max(0.0, self.x1 - self.x0)

    @property
    def height(self) -> float:
        """Height in points, never negative."""
        return max(0.0, self.y1 - self.y0)

    @property
    def area(self) -> float:
        """Area in square points."""
        x0, y0, x1, y1 = self
        return max(0.0, x1 - x0) * max(0.0, y1 - y0)

    def __and__(self, other: "BBox") -> "BBox":
        """Return what both share; of area 0 where they don't meet."""
        return BBox(max(self.x0, other.x0), max(self.y0, other.y0), min(self.x1, other.x1), min(self.y1, other.y1))

    def __or__(self, other: "BBox") -> "BBox":
        """Return the smallest rectangle around both."""
        return BBox(min(self.x0, other.x0), min(self.y0, other.y0), max(self.x1, other.x1), max(self.y1, other.y1))

    def iou(self, other: "BBox") -> float:
        """Return the shared area over that of both together, 0 to 1."""
        shared = (self & other).area
        total = self.area + other.area - shared
        return shared / total if total else 0.0

    def has_middle_of(self, other: "BBox") -> bool:
        """Say whether the middle of another rectangle lies in this one or on its edge."""
        x, y = (other.x0 + other.x1) / 2, (other.y0 + other.y1) / 2
        return self.x0 <= x <= self.x1 and self.y0 <= y <= self.y1

    def grown(self, by: float) -> "BBox":
        """Return the rectangle with each side moved outwards by ``by`` points."""
        return BBox(self.x0 - by, self.y0 - by, self.x1 + by, self.y1 + by)

    def rounded(self) -> "BBox":
        """Return the rectangle to a hundredth of a point: what is stored, so that bytes don't hang on float noise."""
        return BBox(*[round(value, 2) + 0.0 for value in self])


def union(boxes: Iterable[BBox]) -> BBox:
    """Return the smallest rectangle around all boxes; there must be one."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return BBox(min(x0), min(y0), max(x1), max(y1))
