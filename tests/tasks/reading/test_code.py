"""Code and commands keep their lines; monospace words in prose stay prose."""

from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind, StructuredDocument
from tests.tasks.reading.pages import kinds, of, paragraph, structured

STEP = 12.0
LETTER = 6.0
"""Width of a letter of Courier at 10 pt."""


def _page() -> tuple[pymupdf.Document, pymupdf.Page]:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    paragraph(page, "Start", 72)
    paragraph(page, "End", 500)
    return document, page


def _write(page: pymupdf.Page, rows: Sequence[str], top: float = 200, left_x: float = 90) -> None:
    """Write each piece of a row between two blanks or more where it is typed, as TeX does."""
    for number, row in enumerate(rows):
        column = 0
        for piece in row.split("  "):
            if piece.strip():
                indent = len(piece) - len(piece.lstrip())
                page.insert_text(
                    (left_x + LETTER * (column + indent), top + STEP * number), piece.strip(), fontname="cour", fontsize=10
                )
            column += len(piece) + 2


def _code(document: StructuredDocument) -> list[str]:
    return [block.text for block in of(document, BlockKind.CODE)]


def test_code_keeps_its_lines_indents_and_blank_lines_between_paragraphs() -> None:
    rows = ["def stop(pump):", "    pump.halt()    # at once", "", "    return not pump.runs-", "able()"]
    document, page = _page()
    _write(page, rows)
    structure = structured(document)
    assert kinds(structure) == [BlockKind.TEXT, BlockKind.CODE, BlockKind.TEXT]
    assert _code(structure) == ["\n".join(rows)]


def test_a_listing_keeps_its_numbers_also_of_empty_lines() -> None:
    rows = ["begin", "", "  halt", "end"]
    document, page = _page()
    for number, row in enumerate(rows, 1):
        page.insert_text((72, 200 + STEP * number), str(number), fontsize=7)
        if row:
            _write(page, [row], 200 + STEP * number)
    (code,) = _code(structured(document))
    assert code == "1  begin\n2\n3    halt\n4  end"


@pytest.mark.parametrize(
    ("before", "row", "left_x", "is_code"),
    [
        ("Then write", "make install", 90, True),
        ("Then write:", "make", 90, True),
        ("Then write:", "make", 72, False),
        ("Then write", "make", 90, False),
        ("Ask", "jane@example.org, {tom,ann}@example.org", 90, False),
        ("See", "https://example.org/a", 90, False),
        ("Choose", "• fast mode", 90, False),
        ("Choose", "4. fast mode", 90, False),
    ],
)
def test_a_single_row_is_code_if_it_is_a_command(before: str, row: str, left_x: float, *, is_code: bool) -> None:
    document, page = _page()
    page.insert_text((72, 188), before, fontsize=10)
    page.insert_font(fontname="mono", fontbuffer=pymupdf.Font("cour").buffer)
    page.insert_text((left_x, 200), row, fontname="mono", fontsize=10)
    assert [" ".join(text.split()) for text in _code(structured(document))] == ([row] if is_code else [])


@pytest.mark.parametrize("font", ["NimbusMonL-Regu", "NimbusMonL-Bold", "CMTT10", "CMSLTT10", "CMTTI10", "SFTT0900"])
def test_a_monospace_font_is_known_by_its_name(font: str) -> None:
    document, page = _page()
    rows = ["cli", "halt"]
    for number, row in enumerate(rows):
        page.insert_text((90, 200 + STEP * number), f"{row} --now;", fontname="cour", fontsize=10)
    (xref,) = (entry[0] for entry in page.get_fonts() if entry[3] == "Courier")
    document.xref_set_key(xref, "BaseFont", f"/{font}")
    assert _code(structured(document)) == ["cli --now;\nhalt --now;"]


@pytest.mark.parametrize("times", [1, 3])
def test_monospace_words_of_a_sentence_are_prose(times: int) -> None:
    document, page = _page()
    words = "The pump is stopped by the command that every operator knows by heart, which is"
    options = "--slowly --with-valve --without-filter --with-no-noise --and-then --with-noise --at-once " * times
    page.insert_htmlbox(
        (72, 180, 480, 400),
        f'<p style="font: 10pt sans-serif">{words} <code>halt {options}</code> and then it is started again by the other.</p>',
    )
    structure = structured(document)
    assert _code(structure) == []
    assert "once and then it is started again" in " ".join(" ".join(block.text for block in structure.blocks).split())


def test_the_font_says_nothing_where_all_is_typewritten() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _write(page, ["The pump is stopped before the valve is", "opened and the filter is taken out."] * 4)
    assert _code(structured(document)) == []
