"""The cells of regions that a layout model calls tables, by the alignment of their words."""

from collections.abc import Sequence

from schemas.documents import CellSpan, FoundBy, Line
from schemas.geometry import BBox
from tasks.tables.align import Aligned, align_region

SIZE = 10.0


def _line(x0: float, y0: float, text: str, *, block: int = 0, size: float = SIZE) -> Line:
    return Line(1, block, BBox(x0, y0, x0 + 0.5 * size * len(text), y0 + size), text, size, bold=False)


def _grid(rows: Sequence[Sequence[str]], xs: Sequence[float], top: float = 100.0, step: float = 14.0) -> list[Line]:
    """Set rows of cells; "" leaves a cell out."""
    return [
        _line(x, top + step * number, text)
        for number, row in enumerate(rows)
        for x, text in zip(xs, row, strict=True)
        if text
    ]


XS = (72, 240, 320)
FIGURES = [("Model", "Recall", "Words"), ("BM25", "0.61", "120"), ("Dense", "0.72", "96"), ("Hybrid", "0.81", "101")]


def _tables(lines: Sequence[Line], *, right_to_left: bool = False) -> list[Aligned]:
    table = align_region(lines, right_to_left=right_to_left)
    return [] if table is None else [table]


def _rows(lines: Sequence[Line]) -> list[tuple[tuple[str, ...], ...]]:
    return [table.table.rows for table in _tables(lines)]


def test_rows_of_cells_in_columns_are_a_table() -> None:
    lines = _grid(FIGURES, (72, 180, 260))
    (found,) = _tables(lines)
    assert found.table.rows == tuple(FIGURES)
    assert found.lines == frozenset(lines)
    assert found.table.bbox == BBox(72, 100, 285, 152)
    assert found.table.found_by is FoundBy.ALIGNED


def test_an_empty_cell_stays_empty() -> None:
    rows = [("Key", "Left", "Right"), ("F1", "", "help"), ("F2", "save", ""), ("F3", "open", "close")]
    assert _rows(_grid(rows, (72, 180, 260))) == [tuple(rows)]


def test_a_label_over_its_rows_and_a_wrapped_cell_belong_to_the_table() -> None:
    rows = [("Item", "Price"), ("Pumps", ""), ("small pump", "120"), ("large pump", "240"), ("", "with tax")]
    assert _rows(_grid([*rows, ("valve", "12")], (72, 240))) == [(*rows, ("valve", "12"))]


def test_sections_of_a_balance_are_one_table() -> None:
    above = _grid([("Assets", "2022", "2023"), ("Cash", "100", "120"), ("Stock", "900", "870")], (72, 300, 360))
    below = _grid([("Debt", "2022", "2023"), ("Loans", "400", "390"), ("Bonds", "100", "100")], (72, 300, 360), top=180)
    assert [len(rows) for rows in _rows([*above, *below])] == [6]


def test_text_level_for_other_reasons_is_no_table() -> None:
    prose = "the pump is switched off before the lid is taken"
    columns = [[(prose, prose)] * 8, (72, 330)]
    bullets = [[("•", "switch the pump off"), ("•", "take off the lid"), ("•", "clean the filter")], (72, 90)]
    contents = [[(f"Chapter {number} {'. ' * 30}", f"{number}0") for number in range(1, 6)], (72, 500)]
    lone = [[(prose,), (prose,), (prose,)], (72,)]
    two = [FIGURES[:2], (72, 180, 260)]
    for rows, xs in (columns, bullets, contents, lone, two):
        assert _rows(_grid(rows, xs)) == []  # type: ignore[arg-type]


def test_a_table_of_contents_with_numbers_of_sections_is_no_table_and_a_statement_with_leaders_is_one() -> None:
    pages = ("iv", "1", "3", "3", "12")
    contents = [(f"1.{number}", f"Part of the pump {'. ' * 20}", page) for number, page in enumerate(pages)]
    statement = [
        (f"{number}", f"Sales of the pump {'. ' * 20}", sold) for number, sold in enumerate(("90", "12", "35", "7"))
    ]
    assert _rows(_grid(contents, (72, 100, 500))) == []
    assert len(_rows(_grid(statement, (72, 100, 500)))[0]) == 4


def test_a_ragged_scatter_of_words_is_no_table() -> None:
    lines = [_line(72 + 37 * (number % 7), 100 + 14 * row, "word word") for row in range(8) for number in (row, row + 3)]
    assert _rows(sorted(lines, key=lambda line: (line.bbox.y0, line.bbox.x0))) == []


def test_separate_currency_symbols_and_dashes_make_no_formula_of_a_table() -> None:
    rows = [(name, "$", "—", "$", "—", "$", "45") for name in ("Equities", "Bonds", "Funds", "Total")]
    assert _rows(_grid(rows, (72, 200, 215, 260, 275, 320, 335))) != []


def test_a_header_over_several_columns_belongs_to_its_table_and_a_line_over_its_first_column_does_not() -> None:
    lines = _grid([("", "2016", "2017"), ("Sales", "1,208", "1,431"), ("Costs", "966", "1,020")], (72, 240, 320))
    over, title = _line(232, 86, "Year Ended December 31,"), _line(72, 86, "Sales by year")
    assert _rows([over, *lines])[0][0] == ("", "Year Ended December 31,", "")
    assert _rows([title, *lines])[0][0] == ("", "2016", "2017")


def test_the_end_of_a_cell_over_two_columns_is_no_header() -> None:
    names = _grid([("Open", "Shows the account"), ("Edit", "Changes the account"), ("Close", "Leaves it")], (72, 200))
    assert _rows([_line(200, 86, "account tree."), *names])[0][0] == ("Open", "Shows the account")


VALUES = [("Diesel", "79 935", "55"), ("Petrol", "2 961", "73"), ("Gas", "51 955", "52")]


def _over(top: float) -> list[Line]:
    """Set a header of two lines over two columns, cell by cell, its last line ending at ``top``."""
    return [
        _line(168, top - 22, "Number of", block=1),
        _line(168, top - 11, "cars (*)", block=1),
        _line(258, top - 22, "Share", block=2),
        _line(262, top - 11, "(%)", block=3),
    ]


def test_a_header_over_several_columns_is_a_span_in_the_first_of_them() -> None:
    years = [
        _line(196, 86, "Sales in thousands"),
        *_grid([("", "2016", "2017"), *[("North", "1,208", "1,431")] * 4], (72, 190, 270)),
    ]
    (found,) = _tables(years)
    assert found.table.rows[0] == ("", "Sales in thousands", "")
    assert found.table.spans == (CellSpan(0, 1, 1, 2),)
    (mirrored,) = _tables(years, right_to_left=True)
    assert mirrored.table.rows[0] == ("Sales in thousands", "", "")
    assert mirrored.table.spans == (CellSpan(0, 0, 1, 2),)


def test_a_cell_that_reaches_over_its_gutter_beside_another_is_no_span() -> None:
    rows = _grid([("Model", "Recall", "Words"), *[("BM25", "0.61", "120")] * 8], (72, 180, 260))
    long = _grid([("Dense, long name", "", "96")], (72, 180, 260), top=226)
    (found,) = _tables([*rows, *long])
    assert found.table.rows[-1] == ("Dense, long name", "", "96")
    assert found.table.spans == ()


def test_a_wrapped_label_is_one_cell_whichever_of_its_lines_has_the_values() -> None:
    rows = [
        ("Balance as of January 2015", "465", "5"),
        ("Purchases of equipment and", "", ""),
        ("software", "119", "12"),
        ("Issuance of stock for a non-", "31", "6"),
        ("cash acquisition", "", ""),
        ("Sales", "", ""),
        ("abroad", "7", "1"),
    ]
    assert _rows(_grid(rows, XS, step=11)) == [
        (
            rows[0],
            ("Purchases of equipment and software", "119", "12"),
            ("Issuance of stock for a non-cash acquisition", "31", "6"),
            rows[5],
            rows[6],
        )
    ]


def test_a_currency_symbol_behind_a_number_is_the_next_ones() -> None:
    rows = [("Sales", "465 $", "5 $", "11"), ("Costs", "6", "—", "4"), ("Taxes", "7", "2", "9")]
    (found,) = _rows(_grid(rows, (72, 240, 320, 400)))
    assert found[0] == ("Sales", "465", "$ 5", "$ 11")


def test_items_with_a_bullet_and_a_letter_are_no_table() -> None:
    items = [("• C.", "State the name of the publisher."), ("• D.", "Preserve all the notices."), ("• E.", "Add a notice.")]
    assert _rows(_grid(items, (72, 110))) == []
    assert len(_rows(_grid([(f"Item {text}", *more) for text, *more in items], (72, 130)))) == 1
