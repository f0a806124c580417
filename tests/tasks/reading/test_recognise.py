"""Words read off pixels."""

import pytest

from schemas.documents import BlockKind, RecognisedLine, Role
from schemas.errors import FailureCode
from schemas.geometry import BBox
from schemas.tags import TagTemplate, placeholder
from tasks.reading.structure import structure
from tests.tasks.reading.pages import SCAN, kinds, one_figure, scanned


def test_what_was_read_off_a_scanned_page_is_its_text() -> None:
    lines = [
        RecognisedLine(BBox(100, 200, 700, 230), "The pump is stopped before the valve", 0.9),
        RecognisedLine(BBox(100, 235, 690, 265), "is opened; write <image:12345678.png>.", 0.9),
        RecognisedLine(BBox(100, 600, 700, 630), "The filter is taken out last of all", 0.9),
    ]
    document = structure(scanned(), {SCAN: lines})
    assert kinds(document) == [BlockKind.TEXT, BlockKind.TEXT]
    assert document.blocks[0].text.startswith("The pump is stopped before the valve is opened;")
    assert document.blocks[1].text == "The filter is taken out last of all"
    assert document.blocks[1].bbox == BBox(50, 300, 350, 315)
    assert TagTemplate().numbers(document.blocks[0].text) == []
    assert document.figures == (), "a scanned page gets no tag"


@pytest.mark.parametrize(
    ("rotation", "bbox"),
    [(90, BBox(100, 550, 115, 600)), (180, BBox(350, 485, 400, 500)), (270, BBox(285, 0, 300, 50))],
)
def test_ocr_words_of_a_rotated_scan_are_placed_on_the_unrotated_page(rotation: int, bbox: BBox) -> None:
    (block,) = structure(scanned(rotation), {SCAN: [RecognisedLine(BBox(0, 200, 100, 230), "Stop", 0.9)]}).blocks
    assert block.bbox == bbox


def test_a_page_that_is_a_picture_is_named_unless_ocr_has_read_it() -> None:
    assert [failure.code for failure in structure(scanned(), {}).failures] == [FailureCode.NEEDS_OCR]
    assert structure(scanned(), {SCAN: []}).failures == ()


def test_words_read_off_a_figure_are_its_inner_text_and_not_the_pages() -> None:
    document = structure(scanned(role=Role.CONTENT), {SCAN: [RecognisedLine(BBox(0, 0, 100, 30), "Inlet", 0.9)]})
    assert one_figure(document).inner_text == "Inlet"
    assert [block.text for block in document.blocks] == [placeholder(SCAN)]


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_scan_on_its_side_or_upside_down_is_read_in_the_order_of_its_lines(turn: int) -> None:
    words = [
        "The pump is stopped before the valve",
        "is opened, and the filter is taken",
        "out last of all by the operator.",
    ]
    sideways = turn in (90, 270)
    level = [BBox(100, 200 + 35 * at, 500, 230 + 35 * at) for at in range(3)]
    width, height = 800, 1200
    boxes = {
        90: [BBox(width - box.y1, box.x0, width - box.y0, box.x1) for box in level],
        180: [BBox(width - box.x1, height - box.y1, width - box.x0, height - box.y0) for box in level],
        270: [BBox(box.y0, height - box.x1, box.y1, height - box.x0) for box in level],
    }[turn]
    lines = [RecognisedLine(box, text, 0.9, turn) for box, text in zip(boxes, words, strict=True)]
    document = structure(scanned(), {SCAN: lines})
    (block,) = document.blocks
    assert block.text == " ".join(words)
    assert (block.bbox.width < block.bbox.height) == sideways
    assert document.pages[0].rotation == 0, "the page is shown as its PDF has it"
