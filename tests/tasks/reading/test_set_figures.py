"""Figures among the text: between what the page put them, with their captions, labels and mentions."""

import pymupdf
import pytest

from schemas.documents import BlockKind
from schemas.tags import placeholder, placeholders
from tests.manuals import picture
from tests.tasks.reading.pages import kinds, of, one_figure, paragraph, starts, structured


def test_a_figure_is_between_the_paragraphs_that_its_page_put_it_between() -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "First", 72)
    paragraph(page, "Second", 400)
    page.insert_image((150, 200, 350, 330), stream=picture(1))
    structure = structured(document)
    assert starts(structure) == ["First", "FIGURE", "Second"]
    figure = one_figure(structure)
    assert figure.block == 1
    assert placeholders(structure.blocks[1].text) == [figure.placement.figure_id]


def test_a_figure_in_a_column_is_between_the_paragraphs_of_its_own_column() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    paragraph(page, "One", 72, left=50, right=285)
    paragraph(page, "Two", 400, left=50, right=285)
    paragraph(page, "Three", 72, left=310, right=545)
    paragraph(page, "Four", 400, left=310, right=545)
    page.insert_image((330, 230, 520, 360), stream=picture(1))
    assert starts(structured(document)) == ["One", "Two", "Three", "FIGURE", "Four"]


def test_a_figure_in_the_left_column_does_not_wait_for_the_right_one() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    paragraph(page, "One", 72, left=50, right=285)
    paragraph(page, "Two", 420, left=50, right=285)
    paragraph(page, "Three", 72, left=310, right=545)
    paragraph(page, "Four", 400, left=310, right=545)
    page.insert_image((60, 230, 250, 360), stream=picture(1))
    page.insert_text((60, 380), "Figure 1: The left pump", fontsize=9)
    structure = structured(document)
    assert sorted(starts(structure)) == ["FIGURE", "Figure", "Four", "One", "Three", "Two"]
    order = starts(structure)
    assert order[order.index("FIGURE") + 1] == "Figure"
    assert [word for word in order if word in {"One", "Two", "Three", "Four"}] == ["One", "Two", "Three", "Four"]


def test_figures_in_a_row_stay_together_though_no_text_is_below_the_last_one() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 90), "Four positions of the lever:", fontsize=10)
    for number in range(4):
        page.insert_image((72 + number * 110, 100, 178 + number * 110, 180), stream=picture(number))
    page.insert_text((72, 230), "Storage", fontsize=16)
    paragraph(page, "Then", 250)
    assert starts(structured(document)) == ["Four", "FIGURE", "FIGURE", "FIGURE", "FIGURE", "Storage", "Then"]


@pytest.mark.parametrize("side", ["below", "above"])
def test_a_figure_and_its_caption_stay_together_in_the_order_of_the_page(side: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "First", 72)
    page.insert_text((150, 368 if side == "below" else 212), "Figure 1: The pump from above", fontsize=9)
    paragraph(page, "Second", 420)
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    structure = structured(document)
    pair = ["FIGURE", "Figure"] if side == "below" else ["Figure", "FIGURE"]
    assert starts(structure) == ["First", *pair, "Second"]
    figure = one_figure(structure)
    assert figure.caption == "Figure 1: The pump from above"
    (caption,) = of(structure, BlockKind.CAPTION)
    assert caption.placement == figure.placement.order


def test_each_caption_goes_to_its_own_figure() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for number, top in enumerate((80, 300, 520), 1):
        page.insert_image((150, top, 350, top + 120), stream=picture(number, 200, 120))
        page.insert_text((150, top + 138), f"Figure {number}: Part number {number}", fontsize=9)
    structure = structured(document)
    assert [(round(figure.placement.bbox.y0), figure.caption) for figure in structure.figures] == [
        (top, f"Figure {number}: Part number {number}") for number, top in enumerate((80, 300, 520), 1)
    ]


def test_a_caption_of_two_lines_is_one() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    text = "Figure 1: The pump from above with its cover taken off and the filter in sight"
    page.insert_textbox((150, 356, 350, 400), text, fontsize=9)
    assert one_figure(structured(document)).caption == text


def test_a_sentence_that_begins_with_figure_3_is_no_caption() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    page.insert_text((150, 368), "Figure 3: The pump", fontsize=9)
    paragraph(page, "Figure 3 shows how", 420)
    structure = structured(document)
    assert kinds(structure) == [BlockKind.FIGURE, BlockKind.CAPTION, BlockKind.TEXT]
    figure = one_figure(structure)
    assert figure.caption == "Figure 3: The pump"
    assert structure.blocks[2].mentions == (figure.placement.figure_id,)


def test_a_mention_on_another_page_names_the_figure() -> None:
    document = pymupdf.open()
    paragraph(document.new_page(), "Take out the cover (see Figure 3-2) while", 100)
    page = document.new_page()
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    page.insert_text((150, 368), "Figure 3-2: The cover", fontsize=9)
    paragraph(document.new_page(), "See Figure 3-1 for what", 100)
    structure = structured(document)
    figure = one_figure(structure).placement.figure_id
    assert {block.page: block.mentions for block in of(structure, BlockKind.TEXT)} == {1: (figure,), 3: ()}
    assert of(structure, BlockKind.CAPTION)[0].mentions == (), "a caption does not mention its own figure"


def test_the_labels_of_a_drawing_are_with_its_tag_and_nowhere_else() -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "First", 72)
    page.draw_line((150, 200), (150, 350))
    page.draw_line((150, 350), (370, 350))
    page.draw_polyline([(150 + step * 20, 340 - (step * step) % 90) for step in range(11)])
    page.insert_text((230, 363), "Speed", fontsize=8)
    page.insert_text((170, 220), "Torque", fontsize=8)
    page.insert_text((160, 386), "Figure 1: Torque by speed", fontsize=9)
    paragraph(page, "Second", 420)
    structure = structured(document)
    assert starts(structure) == ["First", "FIGURE", "Figure", "Second"]
    figure = one_figure(structure)
    assert sorted(figure.inner_text.split()) == ["Speed", "Torque"]
    block = structure.blocks[figure.block]
    assert block.text == placeholder(figure.placement.figure_id or ""), "the words stand in its pixels, and in its own row"
