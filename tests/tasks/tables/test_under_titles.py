"""Regions in which a layout model joins several tables."""

from collections.abc import Sequence

import pytest

from schemas.documents import LayoutLabel, Line, PageRegion
from schemas.geometry import BBox, union
from tasks.tables.promised import tables_under_titles, with_forms

WIDTH, SIZE, TITLE_SIZE = 4.0, 8.0, 11.0
LEFT, RIGHT = 50.0, 300.0


def _line(x: float, y: float, text: str, size: float = SIZE) -> Line:
    return Line(1, 0, BBox(x, y, x + WIDTH * len(text), y + size), text, size, bold=size > SIZE)


def _rows(x: float, y: float, rows: Sequence[tuple[str, str]]) -> list[Line]:
    return [
        _line(x + 80 * column, y + 12 * row, text) for row, texts in enumerate(rows) for column, text in enumerate(texts)
    ]


def _page(titles: Sequence[Line], rows: Sequence[Line]) -> list[PageRegion]:
    headings = [PageRegion(title.bbox, LayoutLabel.HEADING, (title.bbox,)) for title in titles]
    table = union(line.bbox for line in rows)
    joined = PageRegion(table, LayoutLabel.TABLE, tuple(line.bbox for line in rows), (111.5, 123.5), (120.0, 290.0, 370.0))
    return [*headings, joined]


PUMPS = [("Pump A", "12"), ("Pump B", "31"), ("Pump C", "7")]
LINES = [("Line 1", "256"), ("Line 2", "249"), ("Line 3", "242")]


def test_titles_side_by_side_part_the_tables_below_them() -> None:
    titles = [_line(LEFT, 84, "Pumps", TITLE_SIZE), _line(RIGHT, 84, "Lines", TITLE_SIZE)]
    rows = [*_rows(LEFT, 100, PUMPS), *_rows(RIGHT, 100, LINES)]
    *_, pumps, lines = tables_under_titles(_page(titles, rows), [*titles, *rows])
    assert (pumps.label, pumps.bbox.x0, pumps.columns) == (LayoutLabel.TABLE, LEFT, (120.0,))
    assert (lines.label, lines.bbox.x0, lines.columns) == (LayoutLabel.TABLE, RIGHT, (370.0,))
    assert pumps.rows == lines.rows == (111.5, 123.5)


def test_a_line_like_the_title_parts_the_tables_above_and_below_it() -> None:
    titles = [_line(LEFT, 84, "Pumps", TITLE_SIZE)]
    inner = _line(LEFT, 140, "Tanks", TITLE_SIZE)
    rows = [*_rows(LEFT, 100, PUMPS), inner, *_rows(LEFT, 156, LINES)]
    parts = tables_under_titles(_page(titles, rows), [*titles, *rows])
    assert [part.label for part in parts] == [
        LayoutLabel.HEADING,
        LayoutLabel.TABLE,
        LayoutLabel.HEADING,
        LayoutLabel.TABLE,
    ]
    assert parts[2].bbox == inner.bbox


@pytest.mark.parametrize(
    "right_rows",
    [
        pytest.param([("12", "256"), ("14", "249"), ("17", "242")], id="years over columns of values"),
        pytest.param([("", "256"), ("", "249"), ("", "242")], id="no labels at the title's left edge"),
    ],
)
def test_headers_over_columns_of_one_table_part_nothing(right_rows: list[tuple[str, str]]) -> None:
    titles = [_line(LEFT, 84, "Pump", TITLE_SIZE), _line(RIGHT, 84, "In 2031", TITLE_SIZE)]
    rows = [*_rows(LEFT, 100, PUMPS), *(line for line in _rows(RIGHT, 100, right_rows) if line.text)]
    regions = _page(titles, rows)
    assert tables_under_titles(regions, [*titles, *rows]) == regions


def test_a_larger_line_in_the_middle_of_a_cell_parts_nothing() -> None:
    titles = [_line(LEFT, 84, "Pumps", TITLE_SIZE)]
    rows = [*_rows(LEFT, 100, PUMPS), _line(LEFT + 100, 140, "Note", TITLE_SIZE), *_rows(LEFT, 156, LINES)]
    regions = _page(titles, rows)
    assert tables_under_titles(regions, [*titles, *rows]) == regions


def _boxes(labels: Sequence[Line], values: Sequence[Line]) -> list[BBox]:
    return [(label.bbox | value.bbox).grown(3) for label, value in zip(labels, values, strict=True)]


def test_boxes_apart_with_a_label_over_its_value_are_no_table() -> None:
    places = [(50, 100), (300, 100), (50, 150)]
    labels = [_line(x, y, f"Pump {number}", 6) for number, (x, y) in enumerate(places)]
    values = [_line(x, y + 12, f"EK-14{number}") for number, (x, y) in enumerate(places)]
    region = _page([], [*labels, *values])[0]
    frames = _boxes(labels, values)
    assert [form.label for form in with_forms([region], frames, [*labels, *values])] == [LayoutLabel.TEXT]
    assert with_forms([region], frames[:2], [*labels, *values]) == [region]
    touching = [frame.grown(20) for frame in frames]
    assert with_forms([region], touching, [*labels, *values]) == [region]


def test_labels_beside_boxes_apart_belong_to_the_table_of_the_values() -> None:
    labels = [_line(50, 100 + 30 * number, f"Pump {number}:") for number in range(3)]
    values = [_line(200, 100 + 30 * number, f"EK-14{number}") for number in range(3)]
    frames = [value.bbox.grown(3) for value in values]
    text, table = PageRegion(union(line.bbox for line in labels), LayoutLabel.TEXT, ()), _page([], values)[0]
    form, *others = with_forms([text, table], frames, [*labels, *values])
    assert (form.label, set(form.lines), others) == (LayoutLabel.TABLE, {line.bbox for line in [*labels, *values]}, [text])
    assert with_forms([text, table], frames, [*labels[1:], *values]) == [
        text,
        table,
    ]  # a drawing of boxes has no labels beside
