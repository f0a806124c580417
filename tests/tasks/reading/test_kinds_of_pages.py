"""Kinds of pages that once were read wrongly: indexes, logs, forms, notes in the margin, numbers of lines, turned pages."""

import pymupdf
import pytest

from schemas.documents import BlockKind, Furniture
from tests.tasks.reading.pages import of, paragraph, structured

TERMS = ["bearing, 12, 140", "bearing, outer, 13", "gasket, 7", "hopper, 23, 31, 88", "impeller, 4", "nozzle, 19-22"]
LOG = [f"2031-04-0{day} 12:1{day}:07 INFO the upper rotor of pump {day} is ready for work" for day in range(1, 7)]


@pytest.mark.parametrize("entries", [TERMS, LOG])
def test_each_entry_of_an_index_or_a_log_is_a_block(entries: list[str]) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for at, entry in enumerate(entries):
        page.insert_text((72, 100 + 11 * at), entry, fontsize=9)
    assert [block.text for block in of(structured(document, layout="never"), BlockKind.TEXT)] == entries


@pytest.mark.parametrize("tick", ["cross", "letter"])
def test_a_drawn_box_is_ticked_or_empty(tick: str) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for at, is_on in enumerate((True, False, True)):
        top = 100 + 20 * at
        page.draw_rect(pymupdf.Rect(72, top, 81, top + 9))
        if is_on and tick == "cross":
            page.draw_line((72, top), (81, top + 9))
            page.draw_line((72, top + 9), (81, top))
        elif is_on:
            page.insert_text((73.5, top + 8), "X", fontsize=8)
        page.insert_text((92, top + 8), f"filter {at} is clean", fontsize=10)
    texts = [block.text for block in of(structured(document, layout="never"), BlockKind.TEXT)]
    assert texts == ["☒ filter 0 is clean", "☐ filter 1 is clean", "☒ filter 2 is clean"]


def test_a_value_belongs_to_the_label_in_its_frame() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for x, label, value in ((72, "Pump", "DK-4714"), (302, "Inspector", "AP-1555")):
        page.draw_rect(pymupdf.Rect(x, 100, x + 200, 130))
        page.insert_text((x + 4, 110), label, fontsize=7)
        page.insert_text((x + 4, 125), value, fontsize=10)
    words = " ".join(block.text for block in of(structured(document, layout="never"), BlockKind.TEXT))
    assert words.split() == ["Pump", "DK-4714", "Inspector", "AP-1555"]


@pytest.mark.parametrize("step", [1, 5])
def test_the_numbers_of_lines_are_no_markers_of_items(step: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    further = ["the filter is taken out and cleaned with air that is dry and warm"] * 19
    rows = ["First the pump is stopped, and the valve is opened by hand before", *further]
    for number, row in enumerate(rows, 1):
        page.insert_text((72, 100 + 15 * number), row, fontsize=10)
    for number in range(step, 21, step):
        page.insert_text((50, 100 + 15 * number), str(number), fontsize=7)
    read = structured(document)
    assert [block.furniture for block in of(read, BlockKind.MARGIN)] == [Furniture.LINE_NUMBER]
    assert [block.text.split()[0] for block in of(read, BlockKind.TEXT)] == ["First"]


def test_paragraphs_with_numbers_are_no_table_beside_numbers_of_their_lines() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for at in range(5):
        page.insert_text((50, 110 + 60 * at), str(101 + at), fontsize=7)
        paragraph(page, f"Number{at}", 100 + 60 * at)
    for fifth in range(1, 4):
        page.insert_text((530, 110 + 13.7 * (5 * fifth - 1) + 5 * fifth), str(5 * fifth), fontsize=7)
    read = structured(document)
    assert of(read, BlockKind.TABLE) == []
    assert of(read, BlockKind.TEXT)[0].text.split()[:2] == ["101", "Number0"]


def test_notes_in_the_margin_are_no_table_with_their_paragraphs() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for at in range(3):
        top = 100 + 110 * at
        paragraph(page, f"Step{at}", top, left=190)
        page.insert_textbox((72, top, 165, top + 60), "Look at the gauge before the pump is stopped.", fontsize=7.5)
    read = structured(document)
    assert of(read, BlockKind.TABLE) == []
    assert sorted(block.text.split()[0] for block in of(read, BlockKind.TEXT)) == ["Look"] * 3 + ["Step0", "Step1", "Step2"]


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_table_that_runs_upwards_is_read_as_its_reader_sees_it(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    rows = [
        ["Test", "Least", "Most"],
        *([f"upper rotor {at} of the saw", f"{at}.50", f"{at + 3}.25"] for at in range(1, 8)),
    ]
    for at, row in enumerate(rows):
        for x, cell in zip((72, 300, 420), row, strict=True):
            page.insert_text((100 + 18 * at, 842 - x), cell, fontsize=10, rotate=90, fontname="helv" if at else "hebo")
    page.set_rotation(rotation)
    (table,) = of(structured(document), BlockKind.TABLE)
    assert [list(row) for row in table.rows] == rows
