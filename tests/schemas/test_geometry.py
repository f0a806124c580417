"""Rectangles."""

import math

from schemas.geometry import BBox


def test_a_box_is_rounded_to_a_hundredth_whatever_its_sides_are() -> None:
    box = BBox(-0.001, 1.234, math.inf, math.nan).rounded()
    assert box[:3] == (0.0, 1.23, math.inf)
    assert math.copysign(1, box.x0) == 1, "JSON has no two zeros"
    assert math.isnan(box.y1)
