"""Tables in the text, and the content of their cells."""

import re

import pymupdf
import pytest

from schemas.documents import BlockKind
from schemas.tags import placeholder, placeholders
from tests.manuals import picture
from tests.tasks.reading.pages import draw_table, kinds, one_figure, paragraph, structured


@pytest.mark.parametrize("caption_at", [190, 290])
def test_a_table_is_markdown_with_its_caption_on_top_and_its_words_are_nowhere_else(caption_at: float) -> None:
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "First", 72)
    draw_table(page, [["Name", "Torque"], ["Cover", "40"], ["Filter|Net", "12"]], 200)
    page.insert_text((72, caption_at), "Table 1: Torques", fontsize=9)
    paragraph(page, "Second", 330)
    structure = structured(document)
    assert kinds(structure) == [BlockKind.TEXT, BlockKind.TABLE, BlockKind.TEXT]
    table = structure.blocks[1]
    assert table.text.splitlines() == [
        "Table 1: Torques",
        "| Name | Torque |",
        "| --- | --- |",
        "| Cover | 40 |",
        "| Filter\\|Net | 12 |",
    ]
    assert table.rows == (("Name", "Torque"), ("Cover", "40"), ("Filter|Net", "12"))
    assert "Cover" not in structure.blocks[0].text + structure.blocks[2].text


def test_a_picture_in_a_table_is_tagged_in_its_cell_once() -> None:
    document = pymupdf.open()
    page = document.new_page()
    draw_table(page, [["Name", "Sign"], ["Danger", ""], ["Hot", "none"]], 200)
    page.insert_image((300, 227, 330, 245), stream=picture(1, 60, 36))
    structure = structured(document)
    name = one_figure(structure).placement.figure_id or ""
    (table,) = structure.blocks
    assert f"| Danger | {placeholder(name)} |" in table.text
    assert placeholders(table.text) == [name]
    assert one_figure(structure).block == table.order


def test_labels_of_a_drawing_in_a_cell_are_no_words_of_the_cell() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for y in (100, 180, 260):
        page.draw_line((72, y), (500, y))
    for x in (72, 240, 500):
        page.draw_line((x, 100), (x, 260))
    for row in range(2):
        for at in range(3):
            page.draw_circle((130 + 20 * at, 140 + 80 * row), 16)
        page.insert_text((145, 143 + 80 * row), "R1", fontsize=8)
        page.insert_text((250, 140 + 80 * row), ("Turns the device on and off", "Lowers the volume")[row], fontsize=10)
    (table,) = [block for block in structured(document).blocks if block.kind is BlockKind.TABLE]
    assert [[re.sub("\ue000[0-9a-f]{64}\ue001", "PICTURE", cell) for cell in row] for row in table.rows] == [
        ["PICTURE", "Turns the device on and off"],
        ["PICTURE", "Lowers the volume"],
    ]
