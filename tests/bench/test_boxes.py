"""Boxes drawn round what was found on a page."""

from pathlib import Path

import pymupdf
import pytest

from bench.boxes import COLOURS, DASHED, draw, marks, read
from schemas.documents import BlockKind, Role
from tests.manuals import picture, write_long_table, write_manual


def test_blocks_are_numbered_as_they_are_read_and_figures_have_their_role(tmp_path: Path) -> None:
    structured = read(write_manual(tmp_path / "pump.pdf", "pump").read_bytes())
    found = [*marks(1, structured)]
    kinds = (BlockKind.HEADING, BlockKind.TEXT, Role.CONTENT, BlockKind.CAPTION, BlockKind.TEXT)
    assert [(mark.label, mark.kind) for mark in found] == [(str(number), kind) for number, kind in enumerate(kinds, 1)]
    (figure,) = [placement.bbox for placement in structured.placements if placement.page == 1]
    assert found[2].box == figure


def test_what_gets_no_tag_is_dashed_and_without_a_number() -> None:
    document = pymupdf.open()
    for number in range(6):
        page = document.new_page(width=595, height=842)
        page.insert_image((500, 20, 560, 60), stream=picture(1))
        page.insert_text((72, 200), f"The pump has part number {number} and it is stopped first.", fontsize=11)
        page.insert_text((290, 825), str(number + 1), fontsize=9)
    found = marks(2, read(document.tobytes()))
    assert sorted((mark.label, mark.kind in DASHED) for mark in found) == [("", True), ("", True), ("1", False)]


def test_a_table_over_two_pages_has_a_box_on_each(tmp_path: Path) -> None:
    structured = read(write_long_table(tmp_path / "table.pdf").read_bytes())
    boxes = [[mark.box[1] for mark in marks(page, structured) if mark.kind is BlockKind.TABLE] for page in (1, 2)]
    assert boxes == [[pytest.approx(640, abs=2)], [pytest.approx(100, abs=2)]]


@pytest.mark.parametrize("rotation", [0, 90])
def test_boxes_are_drawn_where_the_reader_of_the_page_sees_the_figure(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=400, height=600)
    page.insert_image((60, 200, 180, 280), stream=picture(1))
    page.insert_text((60, 300), "Figure 1: The pump", fontsize=10)
    page.set_rotation(rotation)
    pixels = draw(page, [*marks(1, read(document.tobytes()))])
    scale = pixels.width / (400 if rotation == 0 else 600)
    # The middle of the figure's lower side, on the page as it is turned.
    x, y = (120, 280) if rotation == 0 else (600 - 280, 120)
    near = [pixels.pixel(round(x * scale) + dx, round(y * scale) + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    colour = tuple(bytes.fromhex(COLOURS[Role.CONTENT][1:]))
    differences = [max(abs(channel - wanted) for channel, wanted in zip(pixel, colour, strict=True)) for pixel in near]
    assert min(differences) < 110
