"""Cells between rules, and their words whole."""

from collections.abc import Sequence
from itertools import pairwise

import pymupdf
import pytest

from backends.pdf.document import MuPdfDocument
from schemas.documents import CellSpan, FoundBy
from schemas.drawings import RulePiece, Ruling
from schemas.geometry import BBox
from tasks.reading.read import read_page
from tasks.tables.tabulate import Grid, tabulate

XS, YS = (72.0, 172.0, 272.0), (100.0, 124.0, 148.0, 172.0)


def _ruling(down: Sequence[RulePiece], across: Sequence[RulePiece]) -> Ruling:
    return Ruling(BBox(72, 100, 272, 172), tuple(down), tuple(across), FoundBy.RULED)


def _full() -> Ruling:
    """Return the rules of three rows and two columns at (72, 100) to (272, 172)."""
    return _ruling([RulePiece(x, 100, 172) for x in XS], [RulePiece(y, 72, 272) for y in YS])


def _table(texts: dict[tuple[float, float], str], ruling: Ruling | None = None) -> Grid | None:
    """Read a page that has words where they're put."""
    document = pymupdf.open()
    page = document.new_page()
    for (x, y), text in texts.items():
        page.insert_text((x, y), text, fontsize=10)
    content = read_page(MuPdfDocument(document), 1)
    return tabulate(ruling or _full(), content.texts, content.letters)


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
    down = [RulePiece(72, 100, 172), RulePiece(172, 124, 172), RulePiece(272, 100, 172)]  # the first row is not parted
    across = [
        RulePiece(100, 72, 272),
        RulePiece(124, 72, 272),
        RulePiece(148, 172, 272),
        RulePiece(172, 72, 272),
    ]  # nor the left column
    grid = _table(CELLS, _ruling(down, across))
    assert grid is not None
    assert grid.rows == (("Name Torque", ""), ("Cover\nBolt", "40"), ("", "12"))
    assert grid.boxes == (
        (BBox(72, 100, 272, 124), None),
        (BBox(72, 124, 172, 172), BBox(172, 124, 272, 148)),
        (None, BBox(172, 148, 272, 172)),
    )


def test_a_table_open_at_its_sides_ends_where_its_rules_do() -> None:
    ruling = _ruling([RulePiece(172, 100, 172)], [RulePiece(y, 72, 272) for y in YS])
    assert _rows(CELLS, ruling) == (("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))


def test_rules_drawn_in_pieces_and_twice_part_cells_all_the_same() -> None:
    down = [RulePiece(x + off, y, y + 24) for x in XS for off in (0, 1.5) for y in YS[:-1]]
    assert _rows(CELLS, _ruling(down, [RulePiece(y, 72, 272) for y in YS])) == (
        ("Name", "Torque"),
        ("Cover", "40"),
        ("Bolt", "12"),
    )


def test_a_rule_whose_pieces_are_drawn_at_slightly_different_heights_is_whole() -> None:
    low, high = YS[1], YS[1] - 0.2
    pieces = [
        RulePiece(low, 72, 122),
        RulePiece(high, 222, 272),
        RulePiece(low, 122, 222),
        *(RulePiece(y, 72, 272) for y in (YS[0], *YS[2:])),
    ]
    assert _rows(CELLS, _ruling(_full().down, pieces)) == (("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))


def test_below_a_head_drawn_cell_by_cell_rows_have_its_columns() -> None:
    down = [RulePiece(x, 100, 172 if x != 172 else 124) for x in XS]
    rows = _rows(CELLS, _ruling(down, [RulePiece(y, 72, 272) for y in YS]))
    assert rows == (("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))


def test_rules_of_one_direction_are_no_table() -> None:
    assert _table(CELLS, _ruling([], [RulePiece(y, 72, 272) for y in YS])) is None
    assert _table(CELLS, _ruling([RulePiece(x, 100, 172) for x in XS], [])) is None


HEAD_Y, BODY_Y, LINE_PT = 100.0, 124.0, 12.0


def _drawn(
    columns: Sequence[Sequence[str]],
    *,
    width: float = 100,
    rotation: int = 0,
    right_to_left: bool = False,
    under: int = 0,
    merged: bool = False,
) -> Grid:
    """Read a table with rules over and under its head and at its end, of columns whose first line is the head.

    Args:
        columns: What stands in each, line by line.
        width: Of a column, in points; letters are 10 points high.
        rotation: How the page is turned; the table is drawn so that its reader sees it level.
        right_to_left: Columns are drawn from the right.
        under: How many rows of their own the rules part under the band.
        merged: The first column has one cell beside the band and those rows.
    """
    document = pymupdf.open()
    page = document.new_page(width=800, height=800)
    page.set_rotation(rotation)
    lines = max(map(len, columns)) - 1
    ends = [HEAD_Y, BODY_Y, BODY_Y + lines * LINE_PT + 6]
    ends += [ends[-1] + 24 * (number + 1) for number in range(under)]
    xs = [72 + width * number for number in range(len(columns) + 1)]
    for index, column in enumerate(columns):
        x = xs[len(columns) - 1 - index if right_to_left else index] + 4
        for y, text in zip([116, *(BODY_Y + LINE_PT * (line + 1) for line in range(lines))], column, strict=False):
            page.insert_text(pymupdf.Point(x, y) * page.derotation_matrix, text, fontsize=10, rotate=rotation)
        for row in ends[2:-1] if index or not merged else ():
            page.insert_text(pymupdf.Point(x, row + 16) * page.derotation_matrix, "more", fontsize=10, rotate=rotation)
    corners = [
        [pymupdf.Point(at, start) * page.derotation_matrix, pymupdf.Point(at, end) * page.derotation_matrix]
        for at in xs
        for start, end in [(ends[0], ends[-1])]
    ] + [
        [pymupdf.Point(start, at) * page.derotation_matrix, pymupdf.Point(end, at) * page.derotation_matrix]
        for at in ends
        for start, end in [(xs[merged and at in ends[2:-1]], xs[-1])]
    ]
    down = [
        RulePiece(corner.x, *sorted((corner.y, next_corner.y)))
        for corner, next_corner in corners
        if abs(corner.x - next_corner.x) < 1
    ]
    across = [
        RulePiece(corner.y, *sorted((corner.x, next_corner.x)))
        for corner, next_corner in corners
        if abs(corner.y - next_corner.y) < 1
    ]
    content = read_page(MuPdfDocument(document), 1)
    bbox = BBox(*(pymupdf.Rect(xs[0], ends[0], xs[-1], ends[-1]) * page.derotation_matrix))
    grid = tabulate(
        Ruling(bbox, tuple(down), tuple(across), FoundBy.RULED),
        content.texts,
        content.letters,
        rotation,
        right_to_left=right_to_left,
    )
    assert grid is not None
    return grid


NUMBERS = [["Part", "Cover", "Bolt", "Washer"], ["Nm", "40", "12", "-"], ["Count", "1", "8", "1,000"]]
NUMBERED = (("Part", "Nm", "Count"), ("Cover", "40", "1"), ("Bolt", "12", "8"), ("Washer", "-", "1,000"))


def test_numbers_under_numbers_are_rows_without_rules_between_them() -> None:
    grid = _drawn(NUMBERS)
    assert grid.rows == NUMBERED
    for column in range(3):
        boxes = [box for row in grid.boxes if (box := row[column]) is not None]
        assert len(boxes) == 4
        assert (boxes[0].y0, boxes[-1].y1) == (grid.bbox.y0, grid.bbox.y1)
        assert all(over.y1 == under.y0 for over, under in pairwise(boxes))  # a picture between is in one of them


def test_two_rows_of_numbers_are_enough() -> None:
    assert _drawn([column[:3] for column in NUMBERS]).rows == NUMBERED[:3]


def test_one_column_of_numbers_is_enough_beside_names_that_wrap() -> None:
    columns = [
        ["Part", "Cover with four", "screws of steel", "Bolt", "Washer", "Gasket, cut"],
        ["Nm", "40", "", "12", "8", "1"],
    ]
    assert _drawn(columns).rows[1:] == (
        ("Cover with four\nscrews of steel", "40"),
        ("Bolt", "12"),
        ("Washer", "8"),
        ("Gasket, cut", "1"),
    )


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_rows_without_rules_are_those_that_the_reader_of_a_rotated_page_sees(rotation: int) -> None:
    assert _drawn(NUMBERS, rotation=rotation).rows == NUMBERED


def test_rows_without_rules_are_read_from_right_to_left_where_the_page_is() -> None:
    assert _drawn(NUMBERS, right_to_left=True).rows == NUMBERED


def test_a_wrapped_cell_stays_in_its_row() -> None:
    columns = [
        ["Part", "Cover", "", "Bolt", "", "", "Washer"],
        ["Made of", "cast iron, to be", "painted", "steel of a high", "quality, with no", "coating", "copper"],
        ["Nm", "40", "", "12", "", "", "8"],
    ]
    assert _drawn(columns).rows[1:] == (
        ("Cover", "cast iron, to be\npainted", "40"),
        ("Bolt", "steel of a high\nquality, with no\ncoating", "12"),
        ("Washer", "copper", "8"),
    )


def test_a_wrapped_name_stays_in_its_row_though_its_numbers_are_beside_its_last_line() -> None:
    columns = [
        ["", "Sales of goods and", "of services", "Taxes", "Interest"],
        ["2022", "", "9,120", "1,400", "210"],
        ["2023", "", "8,001", "1,377", "190"],
    ]
    assert _drawn(columns).rows[1:] == (
        ("Sales of goods and\nof services", "9,120", "8,001"),
        ("Taxes", "1,400", "1,377"),
        ("Interest", "210", "190"),
    )


def test_words_show_rows_too_where_the_table_is_one_band() -> None:
    columns = [["Part", "Cover", "Bolt", "Washer"], ["Made of", "iron", "steel", "copper"], ["Spare", "no", "yes", "yes"]]
    assert _drawn(columns).rows[1:] == (("Cover", "iron", "no"), ("Bolt", "steel", "yes"), ("Washer", "copper", "yes"))


def _wrapped(text: str, width: float) -> list[str]:
    """Set a text in lines as wide as they may be."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if pymupdf.get_text_length(longer, fontsize=10) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


PROSE = (
    "Loosen the four screws of the cover with the long wrench and lift it off. Then drain the oil into a clean pan, and let "
    "the gearbox cool for one hour before you touch the shaft. Never reach into the housing while it turns, even by hand."
)


@pytest.mark.parametrize("width", [60, 90, 140])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_paragraphs_side_by_side_are_one_row(width: float, count: int) -> None:
    words = PROSE.split()
    texts = [" ".join([*words[number * 5 :], *words[: number * 5]]) for number in range(count)]
    columns = [[f"Step {number}", *_wrapped(text, width)] for number, text in enumerate(texts)]
    assert len(_drawn(columns, width=width + 8).rows) == 2


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_cell_beside_ruled_and_unruled_rows_is_one(rotation: int) -> None:
    columns = [["Model", "Large"], ["F1", "1", "2", "3"], ["Recall", "4", "5", "6"]]
    rows = _drawn(columns, rotation=rotation, under=1, merged=True).rows
    assert [row[1:] for row in rows] == [("F1", "Recall"), ("1", "4"), ("2", "5"), ("3", "6"), ("more", "more")]
    assert sorted(row[0] for row in rows) == ["", "", "", "Large", "Model"]


def test_lines_that_are_not_level_are_one_row() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for x, step in ((78, 11), (178, 14)):
        for line in range(5):
            page.insert_text((x, 136 + step * line), f"{x}.{line}", fontsize=10)
    content = read_page(MuPdfDocument(document), 1)
    ruling = Ruling(
        BBox(72, 100, 272, 210),
        tuple(RulePiece(x, 100, 210) for x in XS),
        tuple(RulePiece(y, 72, 272) for y in (100.0, 124.0, 210.0)),
        FoundBy.RULED,
    )
    grid = tabulate(ruling, content.texts, content.letters)
    assert grid is not None
    assert len(grid.rows) == 2


def test_a_head_over_columns_and_a_label_over_rows_are_spans() -> None:
    xs, ys = (72.0, 172.0, 222.0, 272.0), (100.0, 124.0, 148.0, 172.0, 196.0)
    ruling = Ruling(
        BBox(72, 100, 272, 196),
        (RulePiece(72, 100, 196), RulePiece(172, 100, 196), RulePiece(222, 124, 196), RulePiece(272, 100, 196)),
        (
            RulePiece(100, 72, 272),
            RulePiece(124, 172, 272),
            RulePiece(148, 72, 272),
            RulePiece(172, 172, 272),
            RulePiece(196, 72, 272),
        ),
        FoundBy.RULED,
    )
    words = [("Load", 0, 0), ("Torque", 1, 0), ("cold", 1, 1), ("hot", 2, 1), ("Cover", 0, 2)]
    words += [("40", 1, 2), ("44", 2, 2), ("41", 1, 3), ("45", 2, 3)]
    grid = _table({(xs[column] + 6, ys[row] + 16): text for text, column, row in words}, ruling)
    assert grid is not None
    assert grid.rows == (("Load", "Torque", ""), ("", "cold", "hot"), ("Cover", "40", "44"), ("", "41", "45"))
    assert grid.spans == (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2), CellSpan(2, 0, 2, 1))


def test_a_head_over_columns_from_right_to_left_is_in_the_first_of_them() -> None:
    ruling = _ruling(
        [RulePiece(72, 100, 172), RulePiece(172, 124, 172), RulePiece(272, 100, 172)], [RulePiece(y, 72, 272) for y in YS]
    )
    document = pymupdf.open()
    page = document.new_page()
    for (x, y), text in {
        (78, 116): "Torque",
        (78, 140): "cold",
        (178, 140): "hot",
        (78, 164): "1",
        (178, 164): "2",
    }.items():
        page.insert_text((x, y), text, fontsize=10)
    content = read_page(MuPdfDocument(document), 1)
    grid = tabulate(ruling, content.texts, content.letters, right_to_left=True)
    assert grid is not None
    assert grid.rows == (("Torque", ""), ("hot", "cold"), ("2", "1"))
    assert grid.spans == (CellSpan(0, 0, 1, 2),)


def test_a_table_of_single_cells_has_no_span() -> None:
    grid = _table(CELLS)
    assert grid is not None
    assert grid.spans == ()


@pytest.mark.parametrize(
    ("operators", "cells", "is_rows"),
    [
        (("Y = ~A", "Y = +A", "Y = -A"), ("$not", "$pos", "$neg"), True),
        (("Y = |A", "Y = !A"), ("$reduce_bool", "$logic_not"), True),
        (("a pump", "of two"), ("takes the", "torque 40"), False),
    ],
)
def test_stacked_lines_that_begin_alike_are_rows(
    operators: tuple[str, ...], cells: tuple[str, ...], *, is_rows: bool
) -> None:
    ruling = Ruling(
        BBox(72, 100, 184, 172),
        tuple(RulePiece(x, 100, 172) for x in (72, 112, 184)),
        tuple(RulePiece(y, 72, 184) for y in (100, 124, 172)),
        FoundBy.RULED,
    )
    texts: dict[tuple[float, float], str] = {(75, 116): "Verilog", (115, 116): "Cell"}
    for number, row in enumerate(zip(operators, cells, strict=True)):
        texts |= {(75, 138 + 12 * number): row[0], (115, 138 + 12 * number): row[1]}
    stacked = tuple(zip(operators, cells, strict=True)) if is_rows else (("\n".join(operators), "\n".join(cells)),)
    assert _rows(texts, ruling)[1:] == stacked
