"""Icons in their lines."""

import re

import pymupdf
import pytest

from schemas.documents import Role
from schemas.tags import placeholder
from tests.manuals import picture
from tests.tasks.reading.pages import one_figure, structured


@pytest.mark.parametrize(
    "order",
    [
        "icon first",
        "as read",
    ],
)
def test_an_icon_is_in_its_line_where_the_page_shows_it(order: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    if order == "icon first":
        page.insert_image((158, 190, 178, 204), stream=picture(1, 40, 28))
    page.insert_text((72, 200), "Press the button", fontsize=11)
    if order == "as read":
        page.insert_image((158, 190, 178, 204), stream=picture(1, 40, 28))
    page.insert_text((184, 200), "to stop the pump and wait.", fontsize=11)
    structure = structured(document)
    figure = one_figure(structure)
    assert figure.placement.role is Role.ICON
    (block,) = structure.blocks
    assert " ".join(block.text.split()) == (
        f"Press the button {placeholder(figure.placement.figure_id or '')} to stop the pump and wait."
    )


def test_two_icons_of_a_line_are_each_at_their_position() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text(
        (72, 200), "press the          key and then, if nothing happens, the          key at the other side", fontsize=11
    )
    words = [word[:4] for word in page.get_text("words") if word[4] == "the"]
    for seed, (_, _, right, _) in zip((1, 2), (words[0], words[1]), strict=True):
        page.insert_image((right + 4, 190, right + 24, 204), stream=picture(seed, 40, 28))
    (block,) = structured(document).blocks
    pieces = re.split("\ue000[0-9a-f]{64}\ue001", " ".join(block.text.split()))
    assert [piece.strip() for piece in pieces] == [
        "press the",
        "key and then, if nothing happens, the",
        "key at the other side",
    ]


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_an_icon_in_a_line_of_a_rotated_page_is_at_its_word(rotation: int) -> None:
    level = pymupdf.open()
    page = level.new_page(width=600, height=600)
    page.insert_text((72, 200), "Press the button        to stop the pump and wait until it is at rest.", fontsize=11)
    right = next(word[2] for word in page.get_text("words") if word[4] == "button")
    page.insert_image((right + 4, 190, right + 18, 204), stream=picture(1, 40, 40))
    document = pymupdf.open()
    turned = document.new_page(width=600, height=600)
    turned.show_pdf_page(turned.rect, level, 0, rotate=rotation)
    turned.set_rotation(rotation)
    text = "".join(block.text for block in structured(document).blocks)
    before, after = re.split("\ue000[0-9a-f]{64}\ue001", " ".join(text.split()))
    assert (before.strip(), after.strip()) == ("Press the button", "to stop the pump and wait until it is at rest.")
