"""Pages that were not written as they are read."""

import pymupdf
import pytest

from schemas.documents import BlockKind
from tests.manuals import picture
from tests.tasks.reading.pages import of, one_figure, paragraph, starts, structured


def _columns(page: pymupdf.Page, top: float) -> None:
    for number, words in enumerate(("One", "Two", "Three", "Four")):
        left_x = 50 if number < 2 else 310
        paragraph(page, words, top + 150 * (number % 2), left=left_x, right=left_x + 235)


def test_a_caption_written_last_is_read_where_the_page_shows_it_with_its_figure() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _columns(page, 330)
    page.insert_image((100, 90, 495, 290), stream=picture(1))
    page.insert_text((230, 306), "Figure 1: Both pumps from above", fontsize=9)
    structure = structured(document)
    assert starts(structure) == ["FIGURE", "Figure", "One", "Two", "Three", "Four"]
    assert one_figure(structure).caption == "Figure 1: Both pumps from above"


def test_headings_written_last_are_read_before_their_text() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for number, words in enumerate(("Alpha", "Beta", "Gamma")):
        paragraph(page, words, 120 + 180 * number)
    for number, title in enumerate(("Service", "Storage", "Transport")):
        page.insert_text((72, 112 + 180 * number), title, fontsize=18)
    structure = structured(document)
    assert starts(structure) == ["Service", "Alpha", "Storage", "Beta", "Transport", "Gamma"]
    assert [block.section_path for block in of(structure, BlockKind.TEXT)] == [("Service",), ("Storage",), ("Transport",)]


def test_a_title_that_is_written_last_is_read_before_both_columns_though_it_is_above_one_only() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _columns(page, 200)
    page.insert_text((300, 150), "Annual report", fontsize=20)
    assert starts(structured(document)) == ["Annual", "One", "Two", "Three", "Four"]


def test_columns_are_read_in_the_order_that_they_are_written_in() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_textbox((420, 220, 545, 300), "Aside the pump is stopped before the valve is opened.", fontsize=8)
    paragraph(page, "First", 90, left=50, right=400)
    paragraph(page, "Second", 300, left=50, right=400)
    assert starts(structured(document)) == ["Aside", "First", "Second"]


@pytest.mark.parametrize("turn", ["its text"])
def test_text_that_runs_up_the_page_keeps_its_order(turn: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for words, bottom in (("Pump", 700), ("Valve", 300)):
        for number in range(3):
            page.insert_text((100 + 80 * number, bottom), f"{words} number {number}", fontsize=10, rotate=90)
    if turn == "the page":
        page.set_rotation(90)
    assert starts(structured(document, layout="never")) == ["Pump", "Pump", "Pump", "Valve", "Valve", "Valve"]


def test_a_page_that_is_rotated_over_keeps_its_order() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.set_rotation(180)
    for number, words in enumerate(("First", "Second", "Third")):
        page.insert_text(pymupdf.Point(72, 200 + 100 * number) * page.derotation_matrix, words, fontsize=10, rotate=180)
    assert starts(structured(document)) == ["First", "Second", "Third"]


def test_running_heads_come_before_the_text_of_their_page_and_feet_after_it() -> None:
    document = pymupdf.open()
    for number in range(4):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 810), f"Issue 1 of the service manual, page {number + 1}", fontsize=8)
        paragraph(page, "Text", 120)
        page.insert_image((150, 400, 350, 500), stream=picture(number))
        page.insert_text((72, 40), "Service manual of the pump", fontsize=8)
    assert starts(structured(document)) == ["Service", "Text", "FIGURE", "Issue"] * 4
