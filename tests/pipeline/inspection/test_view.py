"""A parse to look at: what is drawn over pages, and the HTML beside."""

import re
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest

from backends.pdf.document import open_document
from backends.pdf.pixels import OverlayBox
from pipeline.inspection import view
from pipeline.inspection.inspect import inspect
from schemas.corpus import ParseOptions
from schemas.documents import StructuredDocument
from schemas.reports import InspectedDocument
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.manuals import picture, write_long_table, write_manual


def _colour(kind: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(view.COLOURS[kind][1:]))


def _taken_in(data: bytes) -> StructuredDocument:
    return structure(parse(open_document(data), "d", ParseOptions(), keep_figure=lambda name, data: None), {})


def _drawn_in(mark: OverlayBox) -> tuple[int, ...]:
    return tuple(round(255 * share) for share in mark.colour)


def test_blocks_are_numbered_as_they_are_read_and_figures_coloured_by_role(tmp_path: Path) -> None:
    structured = _taken_in(write_manual(tmp_path / "pump.pdf", "pump").read_bytes())
    marks = view.marks(1, structured)
    assert [(mark.label, _drawn_in(mark)) for mark in marks] == [
        (str(number), _colour(kind)) for number, kind in enumerate(("heading", "text", "content", "caption", "text"), 1)
    ]
    (figure,) = [placement.bbox for placement in structured.placements if placement.page == 1]
    assert marks[2].box == tuple(figure)


def test_what_gets_no_tag_is_drawn_dashed_and_without_a_number() -> None:
    document = pymupdf.open()
    for number in range(6):
        page = document.new_page(width=595, height=842)
        page.insert_image((500, 20, 560, 60), stream=picture(1))
        page.insert_text((72, 200), f"The pump has part number {number} and it is stopped first.", fontsize=11)
        page.insert_text((290, 825), str(number + 1), fontsize=9)
    structured = _taken_in(document.tobytes())
    marks = view.marks(2, structured)
    assert [(mark.label, mark.dashed) for mark in marks] == [("", True), ("", True), ("1", False)]
    assert _drawn_in(marks[0]) == _colour("decorative")


def test_a_table_over_two_pages_has_a_box_on_each(tmp_path: Path) -> None:
    structured = _taken_in(write_long_table(tmp_path / "table.pdf").read_bytes())
    boxes = [
        [mark.box[1] for mark in view.marks(page, structured) if _drawn_in(mark) == _colour("table")] for page in (1, 2)
    ]
    assert boxes == [[pytest.approx(640, abs=2)], [pytest.approx(100, abs=2)]]


Look = Callable[..., tuple[InspectedDocument, str]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Parse a document with a view, and return what was found and the HTML."""

    def run(document: pymupdf.Document) -> tuple[InspectedDocument, str]:
        path = tmp_path / "manual.pdf"
        document.save(path)
        inspected = inspect(path, out=tmp_path / "shown", view=True)
        return inspected, (tmp_path / "shown" / "index.html").read_text(encoding="utf-8")

    return run


def _manual(rotation: int = 0) -> pymupdf.Document:
    document = pymupdf.open()
    page = document.new_page(width=400, height=600)
    page.insert_text((60, 100), "Stop <script>alert(1)</script> & wait for the pump.", fontsize=11)
    page.insert_image((60, 200, 180, 280), stream=picture(1))
    page.insert_text((60, 300), "Figure 1: The pump", fontsize=10)
    page.set_rotation(rotation)
    return document


@pytest.mark.parametrize("rotation", [0, 90])
def test_boxes_are_drawn_where_the_reader_of_the_page_sees_the_figure(look: Look, tmp_path: Path, rotation: int) -> None:
    look(_manual(rotation))
    pixels = pymupdf.Pixmap((tmp_path / "shown" / "page-0001.png").read_bytes())
    scale = pixels.width / (400 if rotation == 0 else 600)
    # The middle of the figure's lower side, on the page as it is turned.
    x, y = (120, 281.5) if rotation == 0 else (600 - 281.5, 120)
    near = [pixels.pixel(round(x * scale) + dx, round(y * scale) + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    colour = _colour("content")
    assert (
        min(
            max(abs(channel - expected_channel) for channel, expected_channel in zip(pixel, colour, strict=True))
            for pixel in near
        )
        < 110
    )


def test_code_keeps_its_lines_in_the_html_and_is_fenced_in_the_text(look: Look) -> None:
    document = _manual()
    for number, row in enumerate(("if a < b:", "    stop")):
        document[0].insert_text((60, 400 + 12 * number), row, fontname="cour", fontsize=10)
    inspected, html = look(document)
    assert "<pre>if a &lt; b:\n    stop</pre>" in html
    assert "```\nif a < b:\n    stop\n```" in inspected.pages[0].tagged_text


def test_the_html_needs_only_its_folder_and_shows_the_text_with_the_figure_in_place(look: Look, tmp_path: Path) -> None:
    inspected, html = look(_manual())
    sources = re.findall(r'src="([^"]+)"', html)
    assert len(sources) == 2
    assert all((tmp_path / "shown" / source).is_file() for source in sources)
    assert re.findall(r"https?://|<script|<link|@import|url\(", html) == []
    assert "Stop &lt;script&gt;alert(1)&lt;/script&gt; &amp; wait" in html
    tag = (inspected.pages[0].figures[0].tag or "").replace("<", "&lt;").replace(">", "&gt;")
    words = re.sub(r"<(?!/?code)[^>]*>", "", html.split("<main>")[1])
    assert words.index("wait for the pump") < words.index(tag) < words.index("Figure 1: The pump")
    assert "[image]" in html.split("<main>")[0]
    targets = set(re.findall(r'href="#([^"]+)"', html))
    assert targets
    assert targets <= set(re.findall(r'id="([^"]+)"', html))


def test_a_page_that_cannot_be_drawn_says_so_beside_its_text(look: Look, tmp_path: Path) -> None:
    document = _manual()
    document.new_page(width=15_000, height=400).insert_text((60, 100), "A very wide page.", fontsize=11)
    _, html = look(document)
    assert not (tmp_path / "shown" / "page-0002.png").exists()
    assert "page 2 is too large to draw" in html
    assert "A very wide page." in html
