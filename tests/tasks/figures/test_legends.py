"""Which small boxes are keys of a legend."""

from schemas.geometry import BBox
from tests.tasks.figures.pages import bar_chart, box_at, boxes_of, line_at, search


def test_the_keys_of_a_legend_belong_to_their_chart() -> None:
    marks, lines = bar_chart()
    keys = [box_at(200 + 60 * key, 180, 206 + 60 * key, 186) for key in range(2)]
    names = [line_at(208 + 60 * key, 178, str(2008 + 7 * key)) for key in range(2)]
    (box,) = boxes_of(search([*marks, *keys], [*lines, *names]))
    assert box.y0 == 178
    (alone,) = boxes_of(search([*marks, *keys], lines))
    assert alone.y0 == 200


def test_a_legend_by_itself_is_a_picture_and_the_squares_of_a_list_are_none() -> None:
    colours = [(0.9, 0.5, 0.1), (0.7, 0.2, 0.3), (0.4, 0.1, 0.5)]
    keys = [box_at(150 + 20 * row, 302 + 14 * row, 156 + 20 * row, 308 + 14 * row) for row in range(3)]
    names = [line_at(158 + 20 * row, 300 + 14 * row, name) for row, name in enumerate(("Business", "Accountancy", "Law"))]
    legend = [key._replace(colour=colour) for key, colour in zip(keys, colours, strict=True)]
    assert boxes_of(search(legend, names)) == [BBox(150, 300, 233, 338)]
    assert boxes_of(search([key._replace(colour=colours[0]) for key in keys], names)) == []
