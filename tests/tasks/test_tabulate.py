"""Cells between rules, and their words whole."""

from collections.abc import Sequence

import pymupdf

from schemas.geometry import BBox
from tasks.read import read_page
from tasks.tabulate import Grid, Ruling, Side, tabulate

XS, YS = (72.0, 172.0, 272.0), (100.0, 124.0, 148.0, 172.0)


def _ruling(down: Sequence[Side], across: Sequence[Side]) -> Ruling:
    return Ruling(BBox(72, 100, 272, 172), tuple(down), tuple(across))


def _full() -> Ruling:
    """Return the rules of three rows and two columns at (72, 100) to (272, 172)."""
    return _ruling([Side(x, 100, 172) for x in XS], [Side(y, 72, 272) for y in YS])


def _table(texts: dict[tuple[float, float], str], ruling: Ruling | None = None) -> Grid | None:
    """Read a page that has words where they're put."""
    document = pymupdf.open()
    page = document.new_page()
    for (x, y), text in texts.items():
        page.insert_text((x, y), text, fontsize=10)
    content = read_page(document, 1)
    return tabulate(ruling or _full(), content.lines, content.letters_of)


def _rows(texts: dict[tuple[float, float], str], ruling: Ruling | None = None) -> tuple[tuple[str, ...], ...]:
    grid = _table(texts, ruling)
    assert grid is not None
    return grid.rows


CELLS: dict[tuple[float, float], str] = {
    (78, 116): "Name",
    (178, 116): "Torque",
    (78, 140): "Cover",
    (178, 140): "40",
    (78, 164): "Bolt",
    (178, 164): "12",
}


def test_cells_are_read_by_row_and_column() -> None:
    assert _rows(CELLS) == (("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))


def test_a_word_that_runs_into_the_next_cell_is_whole_in_its_own() -> None:
    rows = _rows({**CELLS, (118, 140): "manufacturer", (198, 140): "Nm"})
    assert [cell.split() for cell in rows[1]] == [["Cover", "manufacturer"], ["40", "Nm"]]


def test_a_word_that_runs_over_the_tables_edge_is_not_cut() -> None:
    rows = _rows({**CELLS, (178, 140): "40 Nm, well lubricated"})
    assert rows[1] == ("Cover", "40 Nm, well lubricated")


def test_a_word_of_a_line_of_the_table_that_is_in_no_cell_goes_to_the_nearest() -> None:
    rows = _rows({**CELLS, (178, 140): "40 Nm and a little more or so"})
    assert " ".join(rows[1][1].split()) == "40 Nm and a little more or so"


def test_a_line_beside_the_table_is_not_the_tables() -> None:
    rows = _rows({**CELLS, (300, 140): "see below"})
    assert "see" not in str(rows)


def test_a_table_with_words_in_one_column_only_is_none() -> None:
    assert _table({(78, 116): "Name", (78, 140): "Cover", (78, 164): "Bolt"}) is None


def test_a_cell_over_two_columns_or_rows_is_one() -> None:
    down = [Side(72, 100, 172), Side(172, 124, 172), Side(272, 100, 172)]  # the first row is not parted
    across = [Side(100, 72, 272), Side(124, 72, 272), Side(148, 172, 272), Side(172, 72, 272)]  # nor the left column
    grid = _table(CELLS, _ruling(down, across))
    assert grid is not None
    assert grid.rows == (("Name\nTorque", ""), ("Cover\nBolt", "40"), ("", "12"))
    assert grid.boxes == (
        (BBox(72, 100, 272, 124), None),
        (BBox(72, 124, 172, 172), BBox(172, 124, 272, 148)),
        (None, BBox(172, 148, 272, 172)),
    )


def test_a_table_open_at_its_sides_ends_where_its_rules_do() -> None:
    ruling = _ruling([Side(172, 100, 172)], [Side(y, 72, 272) for y in YS])
    assert _rows(CELLS, ruling) == (("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))


def test_rules_drawn_in_pieces_and_twice_part_cells_all_the_same() -> None:
    down = [Side(x + off, y, y + 24) for x in XS for off in (0, 1.5) for y in YS[:-1]]
    assert _rows(CELLS, _ruling(down, [Side(y, 72, 272) for y in YS])) == (
        ("Name", "Torque"),
        ("Cover", "40"),
        ("Bolt", "12"),
    )


def test_rules_of_one_direction_are_no_table() -> None:
    assert _table(CELLS, _ruling([], [Side(y, 72, 272) for y in YS])) is None
    assert _table(CELLS, _ruling([Side(x, 100, 172) for x in XS], [])) is None
