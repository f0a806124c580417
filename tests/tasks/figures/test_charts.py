"""Which boxes are the bars of a chart."""

from itertools import pairwise

from schemas.geometry import BBox
from tests.tasks.figures.pages import bar_chart, box_at, boxes_of, line_at, search


def test_bars_with_their_values_are_a_picture_without_a_caption() -> None:
    marks, lines = bar_chart()
    (box,) = boxes_of(search(marks, lines))
    assert box.iou(BBox(150, 200, 330, 286)) > 0.9


def test_vertical_bars_are_a_picture_too() -> None:
    heights = (40, 90, 65, 20)
    marks = [box_at(150 + 40 * number, 300 - height, 170 + 40 * number, 300) for number, height in enumerate(heights)]
    lines = [line_at(155 + 40 * number, 290 - height, str(height)) for number, height in enumerate(heights)]
    assert len(boxes_of(search(marks, lines))) == 1


def test_shares_of_a_whole_in_one_bar_after_the_other_are_a_picture() -> None:
    ends = ((150, 236, 294, 336), (150, 190, 260, 336))
    marks = [box_at(x0, 200 + 30 * row, x1, 220 + 30 * row) for row, xs in enumerate(ends) for x0, x1 in pairwise(xs)]
    lines = [line_at(xs[0] + 10, 205 + 30 * row, "43%") for row, xs in enumerate(ends)]
    assert len(boxes_of(search(marks, lines))) == 1


def test_boxes_without_values_and_the_backgrounds_of_words_are_no_bars() -> None:
    marks, values = bar_chart()
    words = [line_at(mark.bbox.x0, mark.bbox.y0 + 2, "w" * int(mark.bbox.width / 5)) for mark in marks]
    numbers = [line_at(340, 202, "12"), line_at(340, 226, "13")]
    assert boxes_of(search(marks, [])) == []
    assert boxes_of(search(marks, values[:1])) == []
    assert boxes_of(search(marks, [*words, *numbers])) == []
