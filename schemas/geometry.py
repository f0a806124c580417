"""Rectangles on a page.

Coordinates are PDF points (1/72 inch), origin at the top left of the page as it is drawn at rotation 0, y downwards.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Box = tuple[float, float, float, float]
"""A rectangle as JSON has it, in points: left, top, right, bottom."""

LEVEL_SHARE = 0.5
"""Minimum overlap of two boxes on one row, as a share of the flatter one's height. Of 409 pages 5 get worse at 0.25."""


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
        return self.width * self.height

    def __and__(self, box: "BBox") -> "BBox":
        """Return the intersection; of area 0 if they don't meet."""
        return BBox(max(self.x0, box.x0), max(self.y0, box.y0), min(self.x1, box.x1), min(self.y1, box.y1))

    def __or__(self, box: "BBox") -> "BBox":
        """Return the smallest rectangle around both."""
        return BBox(min(self.x0, box.x0), min(self.y0, box.y0), max(self.x1, box.x1), max(self.y1, box.y1))

    def iou(self, box: "BBox") -> float:
        """Return the shared area over that of both together, 0 to 1."""
        shared = (self & box).area
        total = self.area + box.area - shared
        return shared / total if total else 0.0

    @property
    def centre_x(self) -> float:
        """Middle between left and right."""
        return (self[0] + self[2]) / 2

    @property
    def centre_y(self) -> float:
        """Middle between top and bottom."""
        return (self[1] + self[3]) / 2

    def gap_x(self, box: "BBox") -> float:
        """Return the horizontal distance to another rectangle; negative if they overlap."""
        return max(self.x0, box.x0) - min(self.x1, box.x1)

    def gap_y(self, box: "BBox") -> float:
        """Return the vertical distance to another rectangle; negative if they overlap."""
        return max(self.y0, box.y0) - min(self.y1, box.y1)

    def has_middle_of(self, box: "BBox") -> bool:
        """Return whether the centre of another rectangle lies in this one or on its edge."""
        return self.x0 <= box.centre_x <= self.x1 and self.y0 <= box.centre_y <= self.y1

    def contains(self, box: "BBox") -> bool:
        """Return whether another rectangle lies in this one, sides included."""
        return self | box == self

    def grown(self, by: float) -> "BBox":
        """Return the rectangle with each side moved outwards by ``by`` points."""
        return BBox(self.x0 - by, self.y0 - by, self.x1 + by, self.y1 + by)

    def rounded(self) -> "BBox":
        """Return the rectangle rounded to a hundredth of a point, as it is stored."""
        # A damaged document may have sides that are no numbers, or infinite.
        return BBox(*(round(side * 100) / 100 if math.isfinite(side) else side for side in self))


def union(boxes: Iterable[BBox]) -> BBox:
    """Return the smallest rectangle around all boxes; there must be one."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return BBox(min(x0), min(y0), max(x1), max(y1))


def turned(box: Sequence[float], direction: tuple[int, int]) -> BBox:
    """Return a rectangle rotated so that a writing direction, such as ``(0, -1)`` upwards, becomes horizontal."""
    across, down = direction
    xs = [x * across + y * down for x, y in (box[:2], box[2:])]
    ys = [y * across - x * down for x, y in (box[:2], box[2:])]
    return BBox(min(xs), min(ys), max(xs), max(ys))


def overlap(a: BBox, b: BBox) -> bool:
    """Return whether two boxes share more than a side; an empty one may lie in the other."""
    return a.gap_x(b) < 0 and a.gap_y(b) < 0


def is_level(first: BBox, second: BBox) -> bool:
    """Return whether two boxes stand on one row."""
    return -first.gap_y(second) >= LEVEL_SHARE * min(first.height, second.height)


def distance(a: BBox, b: BBox) -> float:
    """Return the Euclidean distance of two boxes; 0 if they meet."""
    return max(0.0, a.gap_x(b)) + max(0.0, a.gap_y(b))


def skewed(box: BBox, degrees: float, centre: tuple[float, float]) -> BBox:
    """Return the box around a box that is turned about a centre, clockwise and by less than 45 degrees."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    width, height = box.width * cos + box.height * abs(sin), box.height * cos + box.width * abs(sin)
    return _turned_about(box, (width, height), (cos, sin), centre)


def straight(box: BBox, degrees: float, centre: tuple[float, float]) -> BBox:
    """Return the box around which ``skewed`` made the given one; one of the same size if that is too flat for it."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    norm = cos * cos - sin * sin
    width, height = ((box.width * cos - box.height * abs(sin)) / norm, (box.height * cos - box.width * abs(sin)) / norm)
    size = (width, height) if width > 0 and height > 0 else (box.width, box.height)
    return _turned_about(box, size, (cos, -sin), centre)


def _turned_about(box: BBox, size: tuple[float, float], cos_sin: tuple[float, float], centre: tuple[float, float]) -> BBox:
    """Return a box of a size, its centre turned about another."""
    (width, height), (cos, sin), (x, y) = size, cos_sin, centre
    across, down = box.centre_x - x, box.centre_y - y
    x0, y0 = x + across * cos - down * sin - width / 2, y + across * sin + down * cos - height / 2
    return BBox(x0, y0, x0 + width, y0 + height)


def unrotated(box: BBox, size: tuple[int, int], picture_box: BBox, rotation: int, skew: float = 0.0) -> BBox:
    """Map a box from pixels of a displayed picture, of some size, to points of the unrotated page, where the picture has a box.

    ``rotation`` is the page's and ``skew`` the picture's, in degrees clockwise; the box is mapped to the page without skew.
    """
    across, down = size
    if skew:
        box = straight(box, skew, (across / 2, down / 2))
    u0, v0, u1, v1 = box.x0 / across, box.y0 / down, box.x1 / across, box.y1 / down
    match rotation % 360:
        case 90:
            u0, v0, u1, v1 = v0, 1 - u1, v1, 1 - u0
        case 180:
            u0, v0, u1, v1 = 1 - u1, 1 - v1, 1 - u0, 1 - v0
        case 270:
            u0, v0, u1, v1 = 1 - v1, u0, 1 - v0, u1
    width, height = picture_box.width, picture_box.height
    return BBox(
        picture_box.x0 + u0 * width, picture_box.y0 + v0 * height, picture_box.x0 + u1 * width, picture_box.y0 + v1 * height
    )
