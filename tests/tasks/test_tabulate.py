"""Cells of tables keep their words whole."""

import pymupdf

from schemas.geometry import BBox
from tasks.tabulate import Grid, tabulate


def _tables(texts: dict[tuple[float, float], str]) -> list[Grid]:
    """Return the tables of a page with three rows and two columns at (72, 100) to (272, 172), and words where they're put."""
    document = pymupdf.open()
    page = document.new_page()
    for row in range(4):
        page.draw_line((72, 100 + 24 * row), (272, 100 + 24 * row))
    for column in range(3):
        page.draw_line((72 + 100 * column, 100), (72 + 100 * column, 172))
    for (x, y), text in texts.items():
        page.insert_text((x, y), text, fontsize=10)
    return tabulate(page, BBox(72, 100, 272, 172))


CELLS: dict[tuple[float, float], str] = {
    (78, 116): "Name",
    (178, 116): "Torque",
    (78, 140): "Cover",
    (178, 140): "40",
    (78, 164): "Bolt",
    (178, 164): "12",
}


def test_cells_are_read_by_row_and_column() -> None:
    (grid,) = _tables(CELLS)
    assert grid.rows == (("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))


def test_a_word_that_runs_into_the_next_cell_is_whole_in_its_own() -> None:
    (grid,) = _tables({**CELLS, (118, 140): "manufacturer", (198, 140): "Nm"})
    assert [cell.split() for cell in grid.rows[1]] == [["Cover", "manufacturer"], ["40", "Nm"]]


def test_a_word_that_runs_over_the_tables_edge_is_not_cut() -> None:
    (grid,) = _tables({**CELLS, (178, 140): "40 Nm, well lubricated"})
    assert grid.rows[1] == ("Cover", "40 Nm, well lubricated")


def test_a_word_of_a_line_of_the_table_that_is_in_no_cell_goes_to_the_nearest() -> None:
    (grid,) = _tables({**CELLS, (178, 140): "40 Nm and a little more or so"})
    assert " ".join(grid.rows[1][1].split()) == "40 Nm and a little more or so"


def test_a_line_beside_the_table_is_not_the_tables() -> None:
    (grid,) = _tables({**CELLS, (300, 140): "see below"})
    assert "see" not in str(grid.rows)


def test_a_table_with_words_in_one_column_only_is_none() -> None:
    assert _tables({(78, 116): "Name", (78, 140): "Cover", (78, 164): "Bolt"}) == []
