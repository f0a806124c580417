"""Furniture of pages besides running heads: fixed rows, stamps, watermarks, line numbers; and the role of each."""

from collections import Counter
from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind, Furniture, StructuredDocument
from tests.tasks.reading.pages import of, paragraph, structured


def _roles(document: StructuredDocument) -> Counter[tuple[str, str]]:
    """Count the furniture of a document by its role and its words, numbers as #."""
    blocks = of(document, BlockKind.MARGIN)
    assert all(block.furniture is not None for block in blocks)
    return Counter(
        (str(block.furniture), "#" if block.text.isdigit() else " ".join(block.text.split())) for block in blocks
    )


def _words(document: StructuredDocument) -> str:
    return " ".join(block.text for block in document.blocks if block.kind is not BlockKind.MARGIN)


def _pages(count: int = 4) -> tuple[pymupdf.Document, list[pymupdf.Page]]:
    document = pymupdf.open()
    for _ in range(count):
        document.new_page(width=595, height=842)
    pages = list(document)
    for number, page in enumerate(pages, 1):
        paragraph(page, f"Page{number}", 220)
    return document, pages


def test_each_margin_has_its_role() -> None:
    document, pages = _pages()
    for number, page in enumerate(pages, 1):
        page.insert_text((72, 40), "Pump manual", fontsize=9)
        page.insert_text((72, 815), "Company confidential", fontsize=9)
        page.insert_text((500, 815), str(number), fontsize=9)
    expected = {("head", "Pump manual"): 4, ("foot", "Company confidential"): 4, ("page_number", "#"): 4}
    assert _roles(structured(document)) == expected


def test_a_head_under_a_stamp_of_the_court_is_found() -> None:
    document, pages = _pages()
    for number, page in enumerate(pages, 1):
        page.insert_text((100, 30), f"Case: 21-13199 Document: 42-1 Page: {number} of 4", fontsize=10)
        page.insert_text((72, 110), str(number), fontsize=10)
        page.insert_text((250, 110), "Opinion of the Court", fontsize=10)
    roles = _roles(structured(document))
    assert roles[("head", "Opinion of the Court")] == 4
    assert roles[("page_number", "#")] == 4


def test_a_label_at_one_height_whose_value_changes_is_text() -> None:
    document, pages = _pages()
    for page, weight in zip(pages, ("3 kg", "5 kg", "8 kg", "13 kg"), strict=True):
        page.insert_text((72, 130), "Weight:", fontsize=10)
        page.insert_text((200, 130), weight, fontsize=10)
    structure = structured(document)
    assert _roles(structure) == {}
    assert _words(structure).count("Weight:") == 4


def test_a_stamp_along_the_side_of_one_page_is_no_text() -> None:
    document, pages = _pages(1)
    pages[0].insert_text((30, 600), "arXiv:2303.05039v2  [cs.IR]  21 Mar 2023", fontsize=20, rotate=90)
    assert _roles(structured(document)) == {("stamp", "arXiv:2303.05039v2 [cs.IR] 21 Mar 2023"): 1}


def test_the_rotated_head_of_a_column_is_text() -> None:
    document, pages = _pages(1)
    pages[0].insert_text((80, 600), "Proportion of retail turnover", fontsize=10, rotate=90)
    assert _roles(structured(document)) == {}


def _watermarked(size: float, angle: float) -> StructuredDocument:
    document, pages = _pages(1)
    paragraph(pages[0], "More", 380)
    middle = pymupdf.Point(200, 420)
    pages[0].insert_text(
        (200, 420), "DRAFT ONLY", fontsize=size, morph=(middle, pymupdf.Matrix(angle)), color=(0.8, 0.8, 0.8)
    )
    return structured(document)


def test_a_watermark_across_the_text_of_one_page_is_no_text() -> None:
    assert _roles(_watermarked(60, 45)) == {("watermark", "DRAFT ONLY"): 1}


def test_large_words_in_the_direction_of_the_text_are_no_watermark() -> None:
    assert "DRAFT ONLY" in _words(_watermarked(24, 0))


def _numbered(numbers: Sequence[int], left_x: float, size: float) -> StructuredDocument:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    step = numbers.step if isinstance(numbers, range) else 1  # numbers of each fifth line have four lines between them
    for row in range(step * len(numbers)):
        top = 120 + 14 * row
        if row % step == 0:
            page.insert_text((left_x, top), str(numbers[row // step]), fontsize=size)
        page.insert_text((100, top), f"the pump number{row} is stopped before the valve is opened again", fontsize=10)
    return structured(document)


@pytest.mark.parametrize(("numbers", "size"), [(range(12, 20), 7), (range(5, 50, 5), 7), (range(1, 26), 10)])
def test_numbers_of_lines_beside_the_text_are_furniture(numbers: range, size: float) -> None:
    structure = _numbered(numbers, 60, size)
    assert [block.furniture for block in of(structure, BlockKind.MARGIN)] == [Furniture.LINE_NUMBER]
    text = _words(structure)
    assert text.split()[:3] == ["the", "pump", "number0"]
    assert not any(word.isdigit() for word in text.split())


@pytest.mark.parametrize(
    ("numbers", "left_x", "size"),
    [
        ([1, 2, 3, 4], 60, 7),  # too few
        ([3, 4, 7, 12, 16, 20], 60, 7),  # pages of contents
        (range(1, 9), 60, 10),  # chapters of contents
    ],
)
def test_other_columns_of_numbers_are_text(numbers: Sequence[int], left_x: float, size: float) -> None:
    assert _roles(_numbered(numbers, left_x, size)) == {}
