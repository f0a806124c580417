"""Which texts are labels of a drawing."""

from schemas.geometry import BBox
from tests.tasks.figures.pages import bar_chart, boxes_of, circles, line_at, search


def test_the_names_of_bars_belong_to_the_chart() -> None:
    marks, lines = bar_chart(200)
    names = [line_at(180 - 5 * len(name), 202 + 24 * row, name) for row, name in enumerate(("North", "South-west", "East"))]
    (box,) = boxes_of(search(marks, [*lines, *names]))
    assert box.x0 <= min(name.bbox.x0 for name in names)


def test_labels_of_a_drawing_are_its_own_though_they_share_a_block_with_a_paragraph_at_its_side() -> None:
    paragraph = line_at(72, 100, "The control cabinet takes a torque of 49 Newtonmetres.", block=1)
    labels = [line_at(x, 100, text, block=1) for x, text in ((430, "R1"), (470, "R2"))]
    located = search(circles(BBox(420, 108, 500, 150)), [paragraph, *labels])
    assert boxes_of(located) == [BBox(420, 100, 500, 150)]
