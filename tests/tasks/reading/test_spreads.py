"""Sheets that show two pages of a book."""

import pymupdf
import pytest

from schemas.documents import BlockKind
from tests.manuals import picture
from tests.tasks.reading.pages import paragraph, starts, structured

MIDDLE = 421.0


def _spread(*, numbers: tuple[str, str] = ("{left}", "{right}"), sheets: int = 5, over: str = "") -> pymupdf.Document:
    """Return sheets whose right page is written before the left one, with the numbers of both at their foot."""
    document = pymupdf.open()
    for sheet in range(sheets):
        page = document.new_page(width=2 * MIDDLE, height=595)
        page.insert_text((470, 90), f"Right of the fold are the parts of sheet {sheet}")
        page.insert_image((440, 260, 800, 520), stream=picture(10 + sheet))
        page.insert_text((40, 90), f"Left of the fold are the tools of sheet {sheet}")
        paragraph(page, "Below", 300, left=40, right=400)
        if over:
            page.insert_text((300, 60), f"{over} of sheet {sheet}", fontsize=11)
        for number, at in zip(numbers, (40, 780), strict=True):
            page.insert_text((at, 575), number.format(left=2 * sheet + 2, right=2 * sheet + 3), fontsize=9)
    return document


def test_the_left_page_is_read_before_the_right_one_and_each_keeps_its_pictures() -> None:
    document = structured(_spread())
    words = [word for word in starts(document) if not word.isdecimal()]
    assert words[:8] == ["Left", "Below", "Right", "FIGURE"] * 2


def test_a_picture_over_both_pages_is_read_once() -> None:
    document = _spread()
    for number, page in enumerate(document):
        page.insert_image((0, 200, 2 * MIDDLE, 250), stream=picture(20 + number))
    structured_spread = structured(document)
    first = [block.kind for block in structured_spread.blocks if block.page == 1]
    assert first.count(BlockKind.FIGURE) == 2
    assert starts(structured_spread)[:3] == ["Left", "FIGURE", "Below"]


@pytest.mark.parametrize(
    ("numbers", "over"),
    [(("{left}", ""), ""), (("{right}", "{left}"), ""), (("{left}", "{right}"), "A line that reaches over the middle")],
    ids=["one number", "numbers that go down", "text over the middle"],
)
def test_a_sheet_that_is_one_page_keeps_its_order(numbers: tuple[str, str], over: str) -> None:
    side_words = [word for word in starts(structured(_spread(numbers=numbers, over=over))) if word in ("Left", "Right")]
    assert side_words[:2] == ["Right", "Left"]


def test_the_right_page_is_read_first_where_text_runs_from_right_to_left() -> None:
    document = pymupdf.open()
    for sheet in range(5):
        page = document.new_page(width=2 * MIDDLE, height=595)
        for word, at, top in (("שמאל", 40, 80), ("ימין", 470, 140)):
            page.insert_htmlbox((at, top, at + 330, top + 40), f"<p dir=rtl>{word} של הספר והמשאבה {'אבגדה'[sheet]}</p>")
        for number, at in ((2 * sheet + 3, 40), (2 * sheet + 2, 780)):
            page.insert_text((at, 575), str(number), fontsize=9)
    assert [word for word in starts(structured(document)) if not word.isdigit()][:2] == ["ימין", "שמאל"]
