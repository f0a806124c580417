"""Running heads and page numbers."""

from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind
from tests.tasks.reading.pages import of, paragraph, structured


def test_running_headers_and_page_numbers_are_margins() -> None:
    document = pymupdf.open()
    for number in range(1, 5):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 40), f"P-200 service manual, part {number}", fontsize=9)
        paragraph(page, f"Page{number}", 120)
        page.insert_text((290, 815), str(number), fontsize=9)
    structure = structured(document)
    assert len(of(structure, BlockKind.MARGIN)) == 8
    assert [block.text.split()[0] for block in of(structure, BlockKind.TEXT)] == ["Page1", "Page2", "Page3", "Page4"]


def test_a_line_at_the_head_of_one_page_is_no_margin() -> None:
    document = pymupdf.open()
    for number in range(1, 5):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 60), ("Open", "Close", "Drain", "Fill")[number - 1] + " the valve slowly", fontsize=10)
        paragraph(page, "Then", 120)
    assert of(structured(document), BlockKind.MARGIN) == []


def _margins(feet: Sequence[str]) -> list[str]:
    """Return the margins of a document, given the words at the foot of each page, separated by ``|``."""
    document = pymupdf.open()
    for number, foot in enumerate(feet, 1):
        page = document.new_page(width=595, height=842)
        paragraph(page, f"Page{number}", 120)
        for column, words in enumerate(filter(None, foot.split("|"))):
            page.insert_text((100 + 120 * column, 815), words, fontsize=9)
    return [block.text for block in of(structured(document, layout="never"), BlockKind.MARGIN)]


@pytest.mark.parametrize(
    "feet",
    [
        ["i", "ii", "iii", "iv", "1", "2", "3"],
        ["XIX", "", "XXI"],
        ["", "", "iii"],  # the number of its page
        ["", "1"],  # after a cover
        ["- 1 -", "- 2 -"],
        ["7", "", "9", "10"],
        ["A-1", "A-2", "B-1", "B-2"],
        ["3-9", "4-1"],
        ["Page iv"],
        ["Seite 3 von 9"],
        ["1 / 1"],
        ["6 / 150", "6 / 150"],
    ],
)
def test_page_numbers_go_up_with_the_pages_or_say_what_they_are(feet: list[str]) -> None:
    assert _margins(feet) == [foot for foot in feet if foot]


def _with_heads(heads: Sequence[str], y: int, *, size: int = 9) -> list[str]:
    """Return the margins of a document, given the words at a height of each page, separated by ``|``."""
    document = pymupdf.open()
    for number, head in enumerate(heads, 1):
        page = document.new_page(width=595, height=842)
        for column, words in enumerate(filter(None, head.split("|"))):
            page.insert_text((100 + 220 * column, y), words, fontsize=size)
        paragraph(page, f"Page{number}", 200)
    return [block.text for block in of(structured(document), BlockKind.MARGIN)]


def test_a_head_on_every_page_may_be_far_from_the_edge() -> None:
    heads = ["CHAPTER 1. PUMPS"] * 5
    assert _with_heads(heads, 110) == heads


def test_a_title_level_with_the_page_number_is_margin_where_it_is_repeated() -> None:
    margins = _with_heads([f"Pumps Inc.|{number}" for number in range(4, 9)], 110)
    assert sorted(" ".join(margins).split()) == sorted("4 5 6 7 8".split() + ["Pumps", "Inc."] * 5)


@pytest.mark.parametrize(
    ("heads", "y", "size"),
    [
        (["Chapter 1", "Chapter 2", "Chapter 3", "Chapter 4"], 110, 16),
        (["Turn valve 1", "Turn valve 5", "Turn valve 7", "Turn valve 8"], 110, 9),
        (["2 valves", "3 valves", "4 valves", "5 valves"], 190, 9),
    ],
)
def test_other_lines_with_a_number_inside_the_page_are_text(heads: list[str], y: int, size: int) -> None:
    assert _with_heads(heads, y, size=size) == []


@pytest.mark.parametrize(
    "feet",
    [
        ["vi"],
        ["", "V", "X"],
        ["2018|2017|2016", "", "2018|2017|2016"],
        ["0|50|100"],
        ["RJ-11", "", "PG-9"],
        ["", "2015-2014"],
        ["Li", "", "Vi"],
    ],
)
def test_other_numbers_and_words_at_the_foot_are_text(feet: list[str]) -> None:
    assert _margins(feet) == []


def test_a_year_above_a_column_is_no_page_number() -> None:
    assert _margins(["2018|2017|1", "2018|2017|2", "3", "4", "5"]) == ["1", "2", "3", "4", "5"]


def test_the_third_items_of_lists_near_the_feet_of_pages_are_no_page_numbers() -> None:
    document = pymupdf.open()
    for top, region in ((775, "Peoria"), (787, "Ann Arbor"), (806, "Nebraska"), (781, "Dayton")):
        page = document.new_page(width=595, height=842)
        paragraph(page, "The regions are", 120)
        page.insert_text((85, top), "3.", fontsize=9)
        page.insert_text((110, top), region, fontsize=9)
    assert of(structured(document), BlockKind.MARGIN) == []
