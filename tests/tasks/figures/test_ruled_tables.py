"""Drawings that are the rules of a table."""

from itertools import pairwise

from schemas.documents import FoundBy
from schemas.drawings import Mark
from schemas.geometry import BBox
from tests.tasks.figures.pages import box_at, boxes_of, line_at, rule_at, ruled_table, search


def test_the_shaded_rows_of_a_table_are_no_picture() -> None:
    cells = [box_at(x, 200 + 12 * row, x + 100, 212 + 12 * row) for row in range(0, 8, 2) for x in (100, 200, 300)]
    lines = [line_at(x + 60, 201 + 12 * row, f"{row}1.4") for row in range(8) for x in (100, 200, 300)]
    rules = [rule_at(200, 400, 199), rule_at(200, 400, 284)]
    assert search([*cells, *rules], lines).regions == ()


def test_an_outer_box_and_the_rules_in_it_are_the_rules_of_a_table() -> None:
    outer = Mark(BBox(72, 100, 500, 180), strokes=0, filled=False, white=False)
    across = [rule_at(72, 500, 125)]
    down = [box_at(x, 100, x + 0.5, 180) for x in (250, 380)]
    lines = [line_at(x, y, "word") for x in (80, 260, 390) for y in (106, 135, 160)]
    (table,) = search([outer, *across, *down], lines).tables
    assert table.bbox == outer.bbox
    assert len(table.across) == 3
    assert len(table.down) == 4
    assert table.found_by is FoundBy.RULED


def test_rows_shaded_by_turns_are_left_to_their_words_and_have_no_ruling() -> None:
    cells = [box_at(x, 200 + 12 * row, x + 100, 212 + 12 * row) for row in range(0, 8, 2) for x in (100, 200, 300)]
    lines = [line_at(x + 60, 201 + 12 * row, f"{row}1.4") for row in range(8) for x in (100, 200, 300)]
    rules = [rule_at(200, 400, y) for y in (199, 211, 284)]
    down = [box_at(x, 199, x + 0.5, 296) for x in (100, 200, 300, 400)]
    assert search([*cells, *rules], lines).tables == ()
    assert len(search([*cells, *rules, *down], lines).tables) == 1


def test_shaded_labels_drawn_twice_are_no_shaded_rows() -> None:
    xs, ys = (100, 320, 360, 400), [200 + 12 * row for row in range(7)]
    labels = [box_at(x, y, 320 - x + 100, y + 12) for y in ys[:-1] for x in (100, 105)]
    rules = [rule_at(100, 400, y) for y in ys] + [box_at(x, y, x + 0.5, y + 12) for x in xs for y in ys[:-1]]
    lines = [line_at(x + 4, y + 1, "1.4") for x in xs[:-1] for y in ys[:-1]]
    (table,) = search([*labels, *rules], lines).tables
    assert len({side.at for side in table.across}) == len(ys)


def test_a_chart_whose_grid_is_ruled_like_a_table_is_a_picture() -> None:
    marks, lines = ruled_table()
    curve = Mark(BBox(80, 110, 480, 300), strokes=12, filled=False, white=False)
    located = search([*marks, curve], lines)
    assert not located.tables
    assert len(located.regions) == 1


def test_a_chart_of_stacked_bars_on_a_grid_of_rules_is_a_picture() -> None:
    border = Mark(BBox(90, 100, 520, 220), strokes=0, filled=False, white=False)
    ends = ((110, 214, 372, 495), (110, 226, 388, 495), (110, 238, 404, 495), (110, 221, 399, 495))
    bars = [box_at(x0, 110 + 24 * row, x1, 122 + 24 * row) for row, xs in enumerate(ends) for x0, x1 in pairwise(xs)]
    grid = [box_at(x, 104, x + 0.5, 210) for x in range(110, 500, 55)] + [rule_at(110, 495, y) for y in (104, 210)]
    ticks = [rule_at(107, 110, 104 + 24 * row) for row in range(5)]
    values = [line_at(x0 + 40, 111 + 24 * row, "30.5") for row, xs in enumerate(ends) for x0 in xs[:-1]]
    located = search([border, *bars, *grid, *ticks], values)
    assert not located.tables
    assert boxes_of(located) == [border.bbox]


def test_full_bars_under_the_number_of_an_exhibit_are_a_picture() -> None:
    halves = [box for y in range(200, 400, 40) for box in (box_at(60, y, 280, y + 20), box_at(280, y, 540, y + 20))]
    names = [line_at(64, y + 25, f"Group {y}") for y in range(200, 400, 40)]
    shares = [line_at(x, y + 5, f"{x}%") for y in range(200, 400, 40) for x in (150, 400)]
    (region,) = search(halves, [line_at(60, 170, "Exhibit 3: shares of both"), *names, *shares]).regions
    assert region.captioned
