"""Rectangles on a page.

Coordinates are PDF points (1/72 inch), origin at the top left of the page as it is drawn at rotation 0, y downwards.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_TO_WHOLE = 1.5 * 2.0**52
"""Added to a number and taken off again, it rounds it to a whole one, half to even: no room is left for fractions."""

Box = tuple[float, float, float, float]
"""A rectangle as JSON has it, in points: left, top, right, bottom."""

LEVEL_SHARE = 0.5
"""Minimum overlap of two boxes on one row, as a share of the flatter one's height. Of 409 pages 5 get worse at 0.25."""


class BBox(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    # Hot code: comparisons are several times faster than calls of max and min.

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        """Width in points, never negative."""
        x0, _, x1, _ = self
        return x1 - x0 if x1 > x0 else 0.0

    @property
    def height(self) -> float:
        """Height in points, never negative."""
        _, y0, _, y1 = self
        return y1 - y0 if y1 > y0 else 0.0

    @property
    def area(self) -> float:
        """Area in square points."""
        x0, y0, x1, y1 = self
        return (x1 - x0) * (y1 - y0) if x1 > x0 and y1 > y0 else 0.0

    def __and__(self, box: "BBox") -> "BBox":
        """Return the intersection; of area 0 if they don't meet."""
        x0, y0, x1, y1 = self
        u0, v0, u1, v1 = box
        return BBox(u0 if u0 > x0 else x0, v0 if v0 > y0 else y0, u1 if u1 < x1 else x1, v1 if v1 < y1 else y1)

    def __or__(self, box: "BBox") -> "BBox":
        """Return the smallest rectangle around both."""
        x0, y0, x1, y1 = self
        u0, v0, u1, v1 = box
        return BBox(u0 if u0 < x0 else x0, v0 if v0 < y0 else y0, u1 if u1 > x1 else x1, v1 if v1 > y1 else y1)

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
        x0, _, x1, _ = self
        u0, _, u1, _ = box
        return (u0 if u0 > x0 else x0) - (u1 if u1 < x1 else x1)

    def gap_y(self, box: "BBox") -> float:
        """Return the vertical distance to another rectangle; negative if they overlap."""
        _, y0, _, y1 = self
        _, v0, _, v1 = box
        return (v0 if v0 > y0 else y0) - (v1 if v1 < y1 else y1)

    def has_middle_of(self, box: "BBox") -> bool:
        """Return whether the centre of another rectangle lies in this one or on its edge."""
        x0, y0, x1, y1 = self
        u0, v0, u1, v1 = box
        return x0 <= (u0 + u1) / 2 <= x1 and y0 <= (v0 + v1) / 2 <= y1

    def contains(self, box: "BBox") -> bool:
        """Return whether another rectangle lies in this one, sides included."""
        x0, y0, x1, y1 = self
        u0, v0, u1, v1 = box
        return u0 >= x0 and v0 >= y0 and u1 <= x1 and v1 <= y1

    def grown(self, by: float) -> "BBox":
        """Return the rectangle with each side moved outwards by ``by`` points."""
        x0, y0, x1, y1 = self
        return BBox(x0 - by, y0 - by, x1 + by, y1 + by)

    def rounded(self) -> "BBox":
        """Return the rectangle rounded to a hundredth of a point, as it is stored."""
        # MuPDF's 32 bits times 100 are exact, so this is what round(side, 2) gives, in a third of the time; and never -0.0.
        x0, y0, x1, y1 = self
        return BBox(
            (x0 * 100 + _TO_WHOLE - _TO_WHOLE) / 100,
            (y0 * 100 + _TO_WHOLE - _TO_WHOLE) / 100,
            (x1 * 100 + _TO_WHOLE - _TO_WHOLE) / 100,
            (y1 * 100 + _TO_WHOLE - _TO_WHOLE) / 100,
        )


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
    _, y0, _, y1 = first
    _, top, _, bottom = second
    flatter = min(y1 - y0, bottom - top)
    shared = (y1 if y1 < bottom else bottom) - (y0 if y0 > top else top)
    return shared >= (LEVEL_SHARE * flatter if flatter > 0 else 0.0)


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
