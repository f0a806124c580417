"""Cells over several columns, split where words stand apart at the columns of another row."""

from itertools import pairwise

import pytest

from schemas.documents import CellSpan, FoundBy, Line
from schemas.drawings import RulePiece, Ruling
from schemas.geometry import BBox
from tasks.tables.rows import View
from tasks.tables.tabulate import Boxes, split_columns, tabulate

SIZE = 10.0
XS = (72.0, 172.0, 232.0, 292.0)
HEAD = tuple(BBox(left, 100, right, 120) for left, right in pairwise(XS))
BODY = [BBox(72, 120 + 20 * row, 292, 140 + 20 * row) for row in range(3)]
CELLS: Boxes = (HEAD, *((box, None, None) for box in BODY))
NAMES, FIGURES = ("Austria", "Belgium", "Cyprus"), (("12", "3"), ("9", "1"), ("4", "0"))


def _line(x: float, y: float, text: str) -> Line:
    return Line(1, 0, BBox(x, y, x + 0.5 * SIZE * len(text), y + SIZE), text, SIZE, bold=False)


def _letters(line: Line) -> tuple[str, list[BBox]]:
    width = 0.5 * SIZE
    return line.text, [
        BBox(line.bbox.x0 + width * at, line.bbox.y0, line.bbox.x0 + width * (at + 1), line.bbox.y1)
        for at in range(len(line.text))
    ]


def _rows() -> list[Line]:
    return [
        _line(x, 125 + 20 * row, text)
        for row, (name, figures) in enumerate(zip(NAMES, FIGURES, strict=True))
        for x, text in zip((76, 182, 242), (name, *figures), strict=True)
    ]


def _widths(cells: Boxes) -> list[list[tuple[float, float] | None]]:
    return [[None if box is None else (box.x0, box.x1) for box in row] for row in cells]


def test_rows_without_column_rules_are_split_at_the_cells_of_the_head() -> None:
    split = split_columns(CELLS, _rows(), _letters)
    assert _widths(split) == [[(72, 172), (172, 232), (232, 292)]] * 4
    assert [row[0].y1 for row in split if row[0] is not None] == [120, 140, 160, 180]


def test_a_line_over_several_columns_is_split_where_its_words_stand_apart() -> None:
    lines = [_line(76, 125 + 20 * row, f"{name:<22}{'12':<12}3") for row, name in enumerate(NAMES)]
    assert _widths(split_columns(CELLS, lines, _letters))[1:] == [[(72, 172), (172, 232), (232, 292)]] * 3


def test_a_row_whose_words_run_over_an_edge_stays_whole_among_split_ones() -> None:
    lines = [*_rows()[:6], _line(76, 165, "not counted in the total of the year")]
    widths = _widths(split_columns(CELLS, lines, _letters))
    assert widths[2] == [(72, 172), (172, 232), (232, 292)]
    assert widths[3] == [(72, 292), None, None]


def test_a_header_over_several_columns_stays_whole() -> None:
    group = BBox(172, 80, 292, 100)
    cells: Boxes = ((BBox(72, 80, 172, 100), group, None), HEAD)
    lines = [_line(206, 85, "Tonnes"), _line(76, 105, "Year"), _line(182, 105, "2006"), _line(242, 105, "2007")]
    assert split_columns(cells, lines, _letters) == cells
    apart = [_line(182, 85, "Tonnes"), _line(242, 85, "in 1000")]  # words apart in one row are chance
    assert split_columns(cells, apart, _letters) == cells


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_on_a_turned_page_its_readers_columns_count(rotation: int) -> None:
    view = View(rotation)
    down = [RulePiece(x, 100, 180 if x in (72, 292) else 120) for x in XS]
    across = [RulePiece(y, 72, 292) for y in range(100, 200, 20)]
    ruling = Ruling(BBox(72, 100, 292, 180), tuple(down), tuple(across), FoundBy.RULED)
    lines = [line._replace(bbox=view.stored(line.bbox)) for line in _rows()]
    grid = tabulate(view.ruling(ruling, view.stored), lines, _letters, rotation)
    assert grid is not None
    assert grid.rows[1:] == tuple((name, *figures) for name, figures in zip(NAMES, FIGURES, strict=True))
    assert _widths(tuple(tuple(None if box is None else view.seen(box) for box in row) for row in grid.boxes)) == (
        [[(72, 172), (172, 232), (232, 292)]] * 4
    )


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_header_over_several_columns_spans_those_that_the_reader_of_a_turned_page_sees(rotation: int) -> None:
    view = View(rotation)
    down = [RulePiece(x, 100 if x == 232 else 80, 120) for x in XS]
    across = [RulePiece(80, 72, 292), RulePiece(100, 72, 292), RulePiece(120, 72, 292)]
    ruling = Ruling(BBox(72, 80, 292, 120), tuple(down), tuple(across), FoundBy.RULED)
    words = [_line(182, 85, "Tonnes"), _line(76, 105, "Year"), _line(182, 105, "2006"), _line(242, 105, "2007")]
    lines = [line._replace(bbox=view.stored(line.bbox)) for line in words]
    grid = tabulate(view.ruling(ruling, view.stored), lines, _letters, rotation)
    assert grid is not None
    assert grid.rows == (("", "Tonnes", ""), ("Year", "2006", "2007"))
    assert grid.spans == (CellSpan(0, 1, 1, 2),)
