"""Labels of pages, as they are printed."""

from collections.abc import Sequence

import pymupdf
import pytest

from tests.tasks.reading.pages import paragraph, structured

BODY = [str(number) for number in range(1, 5)]


def _labels(
    feet: Sequence[str], *, at_head: bool = False, page_labels: Sequence[dict[str, object]] = ()
) -> tuple[str, ...]:
    """Return the labels of a document, given the words at the foot or head of each page."""
    document = pymupdf.open()
    for number, foot in enumerate(feet, 1):
        page = document.new_page(width=595, height=842)
        paragraph(page, f"Page{number}", 120)
        if foot:
            page.insert_text((100, 40 if at_head else 815), foot, fontsize=9)
    if page_labels:
        document.set_page_labels(list(page_labels))
    return structured(document, layout="never").labels


@pytest.mark.parametrize(
    ("feet", "labels"),
    [
        (["", "", *BODY], ("", "", *BODY)),
        (["", "ii", "iii", "iv", *BODY], ("i", "ii", "iii", "iv", *BODY)),
        (["", "", "", "2", "3", "", "5"], ("", "", "1", "2", "3", "4", "5")),  # openings of chapters have no number
        (["A-1", "A-2", "B-1", "B-2", "B-3"], ("A-1", "A-2", "B-1", "B-2", "B-3")),
        (["Page 7 of 9", "Page 8 of 9", "Page 9 of 9"], ("7", "8", "9")),
        (["XIX", "XX", "XXI"], ("XIX", "XX", "XXI")),
    ],
)
def test_numbers_that_increase_with_the_pages_are_their_labels(feet: Sequence[str], labels: tuple[str, ...]) -> None:
    assert _labels(feet) == labels


def test_a_running_head_holds_the_number_at_either_end() -> None:
    heads = ["Pump manual 11", "12 Pump manual", "Pump manual 13", "14 Pump manual"]
    assert _labels(heads, at_head=True) == ("11", "12", "13", "14")


@pytest.mark.parametrize(
    "feet",
    [
        ["1", "2", "3", "4"],  # the numbers of the pages
        ["Draft 2016", "Draft 2016", "Draft 2016"],
        ["", "7", "8", ""],  # two pages are no run
        [*[""] * 12, "1", "2", "3"],  # an appendix alone
    ],
)
def test_other_numbers_are_no_labels(feet: Sequence[str]) -> None:
    assert _labels(feet) == ()


def test_the_labels_of_the_pdf_come_before_those_that_are_printed() -> None:
    page_labels = [{"startpage": 0, "prefix": "T-", "style": "D", "firstpagenum": 1}]
    assert _labels(["", *BODY], page_labels=page_labels) == ("T-1", "T-2", "T-3", "T-4", "T-5")
