"""Footnotes are blocks with their mark; raised digits never join a word or number."""

import pymupdf
import pytest

from schemas.documents import BlockKind
from tests.tasks.reading.pages import draw_table, of, paragraph, structured


def _page() -> tuple[pymupdf.Document, pymupdf.Page]:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    paragraph(page, "Start", 72)
    return document, page


def _write(
    page: pymupdf.Page, pieces: list[tuple[str, float, float]], top: float, left_x: float = 72, size: float = 10
) -> None:
    """Write pieces behind each other: text, size and rise in ems of the line."""
    for text, scale, rise in pieces:
        page.insert_text((left_x, top - rise * size), text, fontsize=scale * size)
        left_x += pymupdf.get_text_length(text, fontsize=scale * size)


@pytest.mark.parametrize(
    ("base", "digits", "scale", "rise", "expected"),
    [
        ("The rates", "3", 0.65, 0.36, "The rates³ rise"),
        ("In the year 1835", "12", 0.65, 0.36, "In the year 1835¹² rise"),
        ("Up to 10", "4", 0.7, 0.4, "Up to 10⁴ rise"),
        ("Down to 10", "-4", 0.7, 0.4, "Down to 10⁻⁴ rise"),
        ("Some CO", "2", 0.7, -0.15, "Some CO2 rise"),
        ("Up to 10", "4", 1.0, 0.4, "Up to 104 rise"),
    ],
)
def test_raised_digits_are_superscripts(base: str, digits: str, scale: float, rise: float, expected: str) -> None:
    document, page = _page()
    _write(page, [(base, 1, 0), (digits, scale, rise), (" rise", 1, 0)], 300)
    assert expected in " ".join(block.text for block in structured(document).blocks)


def test_a_raised_digit_in_a_cell_leaves_the_words_of_the_table_in_their_cells() -> None:
    document, page = _page()
    draw_table(page, [("Part", "Mass"), ("Pump", "")], 400)
    _write(page, [("1,234", 1, 0), ("3", 0.65, 0.36)], 440, left_x=280)
    (table,) = of(structured(document), BlockKind.TABLE)
    assert table.rows[1] == ("Pump", "1,234³")


def test_a_mark_that_is_drawn_after_the_table_is_part_of_its_cell() -> None:
    document, page = _page()
    draw_table(page, [("Screw", "Nm"), ("Long", "25"), ("Short", "12")], 400)
    right_x = 278 + pymupdf.get_text_length("25", fontsize=10)
    for mark, base_y in (("3", 440), ("4", 464)):
        page.insert_text((right_x + 0.5, base_y - 2), mark, fontsize=6.5)
    (table,) = of(structured(document), BlockKind.TABLE)
    assert table.rows[1:] == (("Long", "25³"), ("Short", "12⁴"))


def _notes(page: pymupdf.Page, top: float) -> None:
    _write(page, [("1", 0.65, 0.36), ("The first note, which goes on", 1, 0)], top, size=8)
    _write(page, [("in a second line.", 1, 0)], top + 9, size=8)
    _write(page, [("2", 0.65, 0.36), (" The second.", 1, 0)], top + 18, size=8)


def test_each_footnote_is_a_block_with_its_mark() -> None:
    document, page = _page()
    _notes(page, 700)
    notes = of(structured(document), BlockKind.FOOTNOTE)
    assert [" ".join(note.text.split()) for note in notes] == [
        "¹ The first note, which goes on in a second line.",
        "² The second.",
    ]


def test_smaller_text_with_a_mark_above_other_text_is_no_footnote() -> None:
    document, page = _page()
    _notes(page, 300)
    paragraph(page, "End", 500)
    assert of(structured(document), BlockKind.FOOTNOTE) == []


def test_bold_words_below_a_footnote_are_not_part_of_it() -> None:
    document, page = _page()
    _notes(page, 700)
    page.insert_text((72, 728), "ACME RESEARCH", fontname="hebo", fontsize=8)
    assert "ACME" not in "".join(note.text for note in of(structured(document), BlockKind.FOOTNOTE))
