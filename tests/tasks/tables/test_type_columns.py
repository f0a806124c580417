"""Columns of tables with types, where they are certain."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from schemas.documents import CellSpan
from schemas.tags import placeholder
from tasks.tables.type_columns import DecimalMark, decimal_mark, type_columns


def _column(cells: Sequence[str], mark: DecimalMark | None = None) -> "tuple[pa.DataType, list[object]]":
    table = type_columns([["Item", "Value"], *[["x", cell] for cell in cells]], mark=mark)
    return table.schema.field("Value").type, table.column("Value").to_pylist()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["12", "(1,234)", "1,234,567"], [12, -1234, 1234567]),
        (["0.5", "-1,200", "−3", "+4.25"], [0.5, -1200, -3, 4.25]),
        (["1.234,5", "2.000", "0,75"], [1234.5, 2000, 0.75]),
        (["79 935", "1 649 692", "—", ""], [79935, 1649692, None, None]),
        (["1’234’567", "12", "n.a."], [1234567, 12, None]),
    ],
)
def test_numbers_keep_sign_and_value(cells: list[str], values: list[float]) -> None:
    assert _column(cells)[1] == values


@pytest.mark.parametrize(
    "cells",
    [
        ["1,234", "2,345"],
        ["007", "12"],
        ["12.5.2020", "1.6.2020"],
        ["12", "about 13"],
        ["1234567890123456", "1"],
        ["1.5", "2,5"],
        ["(12", "13"],
        ["12 *", "13"],
        ["12 % €", "3"],
        ["1 23", "4"],
        ["", "—"],
    ],
)
def test_what_is_no_number_for_certain_is_text(cells: list[str]) -> None:
    kind, values = _column(cells)
    assert kind == pa.string()
    assert values == [cell or None for cell in cells]


def test_a_mark_of_thousands_is_certain_by_the_column_the_table_or_the_document() -> None:
    assert _column(["1,234", "2,345"], DecimalMark.POINT)[1] == [1234, 2345]
    assert _column(["1,234", "2,345"], DecimalMark.COMMA)[1] == [1.234, 2.345]
    table = type_columns([["Share", "Value"], ["12.5", "1,234"], ["3.75", "2,345"]])
    assert table.column("Value").to_pylist() == [1234, 2345]
    assert decimal_mark(["1,234", "words", "0.123", "12"]) is DecimalMark.POINT
    assert decimal_mark(["1,234", "12"]) is None
    assert decimal_mark(["1,5", "1.5"]) is None


def test_units_per_cent_and_currencies_have_a_column_of_their_own() -> None:
    rows = [
        ["Item", "Size", "Share", "Price"],
        ["a", "12 mm", "5 %", "$ (30)"],
        ["b", "1.5 kN/m²", "7.5%", "€12"],
        ["c", "4", "", "3"],
    ]
    rows[1][3] = "$30"
    assert type_columns(rows).to_pylist() == [
        {"Item": "a", "Size": 12, "Size (unit)": "mm", "Share": 5, "Share (unit)": "%", "Price": 30, "Price (unit)": "$"},
        {
            "Item": "b",
            "Size": 1.5,
            "Size (unit)": "kN/m²",
            "Share": 7.5,
            "Share (unit)": "%",
            "Price": 12,
            "Price (unit)": "€",
        },
        {
            "Item": "c",
            "Size": 4,
            "Size (unit)": None,
            "Share": None,
            "Share (unit)": None,
            "Price": 3,
            "Price (unit)": None,
        },
    ]


def test_columns_are_named_by_groups_and_rows_by_their_merged_label() -> None:
    rows = [["Load", "Torque", ""], ["", "cold", "hot"], ["Cover", "40", "44"], ["", "41", "45"]]
    spans = [CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2), CellSpan(2, 0, 2, 1)]
    assert type_columns(rows, spans).to_pylist() == [
        {"Load": "Cover", "Torque / cold": 40, "Torque / hot": 44},
        {"Load": "Cover", "Torque / cold": 41, "Torque / hot": 45},
    ]


def test_names_are_different_and_rows_may_be_short() -> None:
    table = type_columns([["", "Value", "Value"], ["a", "1"], [placeholder("ab" * 32), "2", "x"]])
    assert table.column_names == ["column 1", "Value", "Value (2)"]
    assert table.column("column 1").to_pylist() == ["a", None]
    assert table.column("Value (2)").to_pylist() == [None, "x"]
