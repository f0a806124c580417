"""Words read off pictures that aren't pages, and pages that nothing has read."""

from schemas.documents import RecognisedLine, Role
from schemas.errors import FailureCode
from schemas.geometry import BBox
from schemas.tags import placeholder
from tasks.reading.structure import structure
from tests.tasks.reading.pages import SCAN, one_figure, scanned


def test_a_page_that_is_a_picture_is_named_unless_ocr_has_read_it() -> None:
    assert [failure.code for failure in structure(scanned(), {}).failures] == [FailureCode.NEEDS_OCR]
    assert structure(scanned(), {SCAN: []}).failures == ()


def test_words_read_off_a_figure_are_its_inner_text_and_not_the_pages() -> None:
    document = structure(scanned(role=Role.CONTENT), {SCAN: [RecognisedLine(BBox(0, 0, 100, 30), "Inlet", 0.9)]})
    assert one_figure(document).inner_text == "Inlet"
    assert [block.text for block in document.blocks] == [placeholder(SCAN)]
