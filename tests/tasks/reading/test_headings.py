"""Headings, by their size and by the PDF's outline, and the sections that they begin."""

import pymupdf
import pytest

from schemas.documents import BlockKind, OutlineEntry
from tests.tasks.reading.pages import of, paragraph, structured


def test_without_an_outline_headings_go_by_size() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "Service", fontsize=20)
    paragraph(page, "Alpha", 120)
    page.insert_text((72, 300), "Changing the filter", fontsize=14)
    paragraph(page, "Beta", 320)
    page.insert_text((72, 500), "Storage", fontsize=20)
    paragraph(page, "Gamma", 520)
    structure = structured(document)
    assert [(block.text, block.level) for block in of(structure, BlockKind.HEADING)] == [
        ("Service", 1),
        ("Changing the filter", 2),
        ("Storage", 1),
    ]
    assert [block.section_path for block in of(structure, BlockKind.TEXT)] == [
        ("Service",),
        ("Service", "Changing the filter"),
        ("Storage",),
    ]


@pytest.mark.parametrize("leaders", ["   ", " . . . . . "])
def test_entries_of_a_table_of_contents_are_no_headings(leaders: str) -> None:
    document = pymupdf.open()
    titles = ["1 Service", "2 Storage", "3 Release 7"]
    page = document.new_page()
    page.insert_text((72, 100), "Contents", fontsize=16)
    for row, title in enumerate(titles):
        page.insert_text((72, 140 + 40 * row), f"{title}{leaders}{row + 2}", fontsize=10, fontname="hebo")
    paragraph(page, "Alpha", 400)
    for title in titles:
        page = document.new_page()
        page.insert_text((72, 100), title, fontsize=16)
        paragraph(page, "Beta", 120)
    assert [block.text for block in of(structured(document), BlockKind.HEADING)] == ["Contents", *titles]


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_stamp_along_the_edge_of_the_page_is_no_heading(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page()
    turn = {0: 0, 90: 90}[rotation]
    page.set_rotation(rotation)
    width = page.rect.width
    matrix = page.derotation_matrix

    def write(x: float, y: float, text: str, size: float, rotate: int) -> None:
        page.insert_text(pymupdf.Point(x, y) * matrix, text, fontsize=size, rotate=rotate)

    write(72, 100, "Service of the pump", 16, turn)
    for row in range(12):
        write(72, 130 + 14 * row, "The pump is stopped before the valve is opened slowly.", 10, turn)
    write(width - 30, 400, "preprint 2401.18059 of January 2024", 20, (turn + 90) % 360)
    structure = structured(document)
    assert [block.text for block in of(structure, BlockKind.HEADING)] == ["Service of the pump"]


def test_a_numbered_line_in_capitals_is_a_heading_though_it_is_no_larger_than_the_text() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 110), "2", fontsize=11)
    page.insert_text((92, 110), "RELATED WORK", fontsize=8.5)
    paragraph(page, "First", 140)
    structure = structured(document)
    assert [(block.text, block.level) for block in of(structure, BlockKind.HEADING)] == [("2 RELATED WORK", 1)]


def test_a_sentence_that_begins_in_bold_is_no_heading() -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "First", 72)
    bold = pymupdf.TextWriter(page.rect)
    bold.append((72, 300), "The tree traversal method first selects the roots by their cosine", pymupdf.Font("hebo"), 10)
    bold.append((72, 312), "similarity and goes down from there, level by level, to the leaves.", pymupdf.Font("helv"), 10)
    bold.write_text(page)
    assert of(structured(document), BlockKind.HEADING) == []


def test_with_an_outline_headings_are_those_that_it_names() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "1 Service", fontsize=12)
    paragraph(page, "Alpha", 120)
    page.insert_text((72, 300), "DANGER", fontsize=20)
    paragraph(page, "Beta", 320)
    page.insert_text((72, 500), "1.1 The filter", fontsize=12)
    paragraph(page, "Gamma", 520)
    structure = structured(document, [OutlineEntry(1, "1 Service", 1, 85), OutlineEntry(2, "1.1 The filter", 1, 485)])
    assert [(block.text, block.level) for block in of(structure, BlockKind.HEADING)] == [
        ("1 Service", 1),
        ("1.1 The filter", 2),
    ]
    paths = {block.text.split()[0]: block.section_path for block in of(structure, BlockKind.TEXT)}
    assert paths["Alpha"] == paths["Beta"] == ("1 Service",)
    assert paths["Gamma"] == ("1 Service", "1.1 The filter")


def test_the_number_and_the_title_of_a_heading_on_lines_of_their_own_are_one_heading() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "Chapter 2", fontsize=18)
    page.insert_text((72, 124), "Changing the filter", fontsize=18)
    paragraph(page, "Alpha", 160)
    structure = structured(document, [OutlineEntry(1, "Chapter 2 Changing the filter", 1, 80)])
    assert [block.text for block in of(structure, BlockKind.HEADING)] == ["Chapter 2 Changing the filter"]
    assert [block.section_path for block in of(structure, BlockKind.TEXT)] == [("Chapter 2 Changing the filter",)]


def test_a_heading_whose_number_is_separate_keeps_it_though_the_outline_leaves_it_out() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "2.7.3", fontsize=18)
    page.insert_text((140, 100), "Plasma cutting", fontsize=18)
    paragraph(page, "Alpha", 160)
    structure = structured(document, [OutlineEntry(1, "Plasma cutting", 1, 80)])
    assert [block.text for block in of(structure, BlockKind.HEADING)] == ["2.7.3 Plasma cutting"]


def test_sections_follow_the_outlines_own_order_where_its_heights_are_wrong() -> None:
    document = pymupdf.open()
    page = document.new_page()
    entries = []
    for number, title in enumerate(("Service", "Storage", "Transport")):
        top = 100 + 200 * number
        page.insert_text((72, top), title, fontsize=16)
        paragraph(page, f"{title}-text", top + 30)
        entries.append(OutlineEntry(1, title, 1, 842 - top))
    paths = {block.text.split()[0]: block.section_path for block in of(structured(document, entries), BlockKind.TEXT)}
    assert paths == {f"{title}-text": (title,) for title in ("Service", "Storage", "Transport")}


def test_a_section_begins_where_its_heading_is_and_not_where_its_page_begins() -> None:
    document = pymupdf.open()
    for number in (1, 2):
        page = document.new_page()
        paragraph(page, f"Before{number}", 72)
        page.insert_text((72, 400), f"Section of page {number}", fontsize=16)
        paragraph(page, f"After{number}", 430)
    structure = structured(document, [OutlineEntry(1, f"Section of page {number}", number, 385) for number in (1, 2)])
    paths = {block.text.split()[0]: block.section_path for block in of(structure, BlockKind.TEXT)}
    first, second = ("Section of page 1",), ("Section of page 2",)
    assert paths == {"Before1": (), "After1": first, "Before2": first, "After2": second}


def test_a_section_whose_outline_entry_names_only_the_page_begins_at_its_heading() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 60), "Service", fontsize=16)
    paragraph(page, "Before", 90)
    page.insert_text((72, 400), "Storage", fontsize=16)
    paragraph(page, "After", 430)
    structure = structured(document, [OutlineEntry(1, "Service", 1, None), OutlineEntry(1, "Storage", 1, None)])
    paths = {block.text.split()[0]: block.section_path for block in of(structure, BlockKind.TEXT)}
    assert paths == {"Before": ("Service",), "After": ("Storage",)}


def test_a_section_that_begins_in_the_second_column_does_not_take_in_the_first() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_text((50, 90), "Service", fontsize=16)
    paragraph(page, "Left", 400, left=50, right=285)
    page.insert_text((310, 90), "Storage", fontsize=16)
    paragraph(page, "Right", 400, left=310, right=545)
    structure = structured(document, [OutlineEntry(1, "Service", 1, 75), OutlineEntry(1, "Storage", 1, 75)])
    paths = {block.text.split()[0]: block.section_path for block in of(structure, BlockKind.TEXT)}
    assert paths == {"Left": ("Service",), "Right": ("Storage",)}


def test_an_outline_entry_whose_heading_is_not_on_its_page_counts_from_where_it_points_to() -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "Before", 90)
    paragraph(page, "After", 430)
    structure = structured(document, [OutlineEntry(1, "A drawn title", 1, 300)])
    paths = {block.text.split()[0]: block.section_path for block in of(structure, BlockKind.TEXT)}
    assert paths == {"Before": (), "After": ("A drawn title",)}
