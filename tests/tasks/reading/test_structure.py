"""A document as a whole."""

import pymupdf

from tests.manuals import picture
from tests.tasks.reading.pages import paragraph, structured


def test_structuring_twice_gives_the_same() -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "As Figure 1 shows,", 72)
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    page.insert_text((150, 368), "Figure 1: The pump", fontsize=9)
    assert structured(document) == structured(document)
