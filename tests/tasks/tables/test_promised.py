"""Grids of the tables that a layout model sees."""

from schemas.documents import LayoutLabel, Line, PageRegion
from schemas.geometry import BBox, union
from tasks.tables.promised import layout_tables
from tasks.tables.tabulate import tabulate

WIDTH, SIZE = 5.0, 10.0
LABEL, VALUES, NEXT_VALUES = 72.0, 200.0, 300.0


def _line(x: float, y: float, text: str) -> Line:
    return Line(1, 0, BBox(x, y, x + WIDTH * len(text), y + SIZE), text, SIZE, bold=False)


def _letters(line: Line) -> tuple[str, list[BBox]]:
    x0, y0, _, y1 = line.bbox
    return line.text, [BBox(x0 + WIDTH * at, y0, x0 + WIDTH * (at + 1), y1) for at in range(len(line.text))]


def test_a_line_with_a_value_and_the_next_columns_currency_keeps_the_columns_apart() -> None:
    lines = [
        part
        for at, (label, value, further) in enumerate(
            [("Sales", "256", "26"), ("Costs", "104", "12"), ("Income", "152", "14")]
        )
        for part in (
            _line(LABEL, 100 + 12 * at, label),
            _line(VALUES, 100 + 12 * at, f"{value}" + " " * 15 + "$"),  # one line over the edge at 280
            _line(NEXT_VALUES, 100 + 12 * at, further),
        )
    ]
    region = PageRegion(union(line.bbox for line in lines), LayoutLabel.TABLE, (), (111.0, 123.0), (150.0, 280.0))
    (ruling,) = layout_tables([region], [], lines, [], _letters)
    grid = tabulate(ruling, lines, _letters)
    assert grid is not None
    assert grid.rows == (("Sales", "256", "$ 26"), ("Costs", "104", "$ 12"), ("Income", "152", "$ 14"))
