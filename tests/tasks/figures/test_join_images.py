"""Which images make one picture."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from schemas.drawings import Image
from schemas.geometry import BBox
from tasks.figures.locate import join_images
from tests.tasks.figures.pages import boxes_of, line_at, search


def _strips(edges: Sequence[float]) -> list[Image]:
    return [
        Image(at, at, BBox(100, top, 300, end), 400, 50, (200, 0, 0, end - top))
        for at, (top, end) in enumerate(pairwise(edges))
    ]


def test_strips_that_touch_are_one_picture_and_images_with_a_gap_between_are_two() -> None:
    strips = _strips((100, 120, 141, 160))
    assert boxes_of(search([], [], images=strips)) == [BBox(100, 100, 300, 160)]
    assert len(boxes_of(search([], [], images=[strips[0], strips[2]]))) == 2


def test_rows_of_tiles_are_one_picture() -> None:
    tiles = [
        BBox(100 + 50 * column, 100 + 40 * row, 150 + 50 * column, 140 + 40 * row)
        for row in range(2)
        for column in range(3)
    ]
    images = [Image(at, at, box, 50, 40, (50, 0, 0, 40)) for at, box in enumerate(tiles)]
    assert boxes_of(search([], [], images=images)) == [BBox(100, 100, 250, 180)]


@pytest.mark.parametrize(("rule", "pictures"), [(BBox(60, 119.5, 340, 120.5), 2), (BBox(100, 119.5, 300, 120.5), 1)])
def test_a_rule_past_their_corners_parts_the_pictures_of_two_cells(rule: BBox, pictures: int) -> None:
    assert len(join_images(_strips((100, 120, 141)), [rule])) == pictures


def test_a_small_image_in_a_line_of_text_is_inline_and_one_under_it_is_not() -> None:
    button = Image(0, 0, BBox(155, 99, 167, 111), 24, 24, (12, 0, 0, 12))
    below = replace(button, bbox=BBox(155, 140, 167, 152))
    words = [line_at(100, 100, "Press the"), line_at(170, 100, "button")]
    assert [region.inline for region in search([], words, images=[button]).regions] == [True]
    assert [region.inline for region in search([], words, images=[below]).regions] == [False]
