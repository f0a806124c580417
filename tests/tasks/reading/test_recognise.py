"""Words read off pixels."""

import pytest

from schemas.documents import BlockKind, Figure, Kind, Page, ParsedDocument, Placement, RecognisedLine, Role
from schemas.geometry import BBox
from schemas.tags import TagTemplate, placeholder
from tasks.reading.structure import structure
from tests.tasks.reading.pages import kinds, one_figure

SCAN = "ab" * 32


def _scan(rotation: int = 0, role: Role = Role.PAGE_SCAN) -> ParsedDocument:
    """Return a page of 400 x 600 pt that is one picture of twice as many pixels, as its reader sees it."""
    width, height = (800, 1200) if rotation in (0, 180) else (1200, 800)
    return ParsedDocument(
        doc_id="d",
        title="Scan",
        pages=(Page(1, 400, 600, rotation, 0),),
        lines=(),
        figures=(Figure(SCAN, "0" * 40, width, height, "png"),),
        placements=(Placement(1, 0, BBox(0, 0, 400, 600), SCAN, Kind.SCAN, role, "covers the page"),),
    )


def test_what_was_read_off_a_scanned_page_is_its_text() -> None:
    lines = [
        RecognisedLine(BBox(100, 200, 700, 230), "The pump is stopped before the valve", 0.9),
        RecognisedLine(BBox(100, 235, 690, 265), "is opened; write <image:12345678.png>.", 0.9),
        RecognisedLine(BBox(100, 600, 700, 630), "The filter is taken out last of all", 0.9),
    ]
    found = structure(_scan(), {SCAN: lines})
    assert kinds(found) == [BlockKind.TEXT, BlockKind.TEXT]
    assert found.blocks[0].text.startswith("The pump is stopped before the valve is opened;")
    assert found.blocks[1].text == "The filter is taken out last of all"
    assert found.blocks[1].bbox == BBox(50, 300, 350, 315)
    assert TagTemplate().numbers(found.blocks[0].text) == []
    assert found.figures == (), "a scanned page gets no tag"


@pytest.mark.parametrize(
    ("rotation", "bbox"),
    [(90, BBox(100, 550, 115, 600)), (180, BBox(350, 485, 400, 500)), (270, BBox(285, 0, 300, 50))],
)
def test_ocr_words_of_a_rotated_scan_are_placed_on_the_unrotated_page(rotation: int, bbox: BBox) -> None:
    (block,) = structure(_scan(rotation), {SCAN: [RecognisedLine(BBox(0, 200, 100, 230), "Stop", 0.9)]}).blocks
    assert block.bbox == bbox


def test_words_read_off_a_figure_are_its_inner_text_and_not_the_pages() -> None:
    found = structure(_scan(role=Role.CONTENT), {SCAN: [RecognisedLine(BBox(0, 0, 100, 30), "Inlet", 0.9)]})
    assert one_figure(found).inner_text == "Inlet"
    assert [block.text for block in found.blocks] == [placeholder(SCAN)]
