"""Scanned pages, drawn for the purpose: what OCR would read of them becomes a page like any other."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

from backends.pdf.scans import scanned_lines, scanned_page, with_type
from backends.stores.object_store import open_store
from ray_jobs.enrich import structure_with
from schemas.documents import (
    NO_FONT,
    BlockKind,
    Kind,
    Line,
    Page,
    ParsedDocument,
    Placement,
    Recognised,
    RecognisedLine,
    Role,
    StructuredDocument,
)
from schemas.geometry import BBox, skewed, union
from schemas.ids import figure_file
from schemas.tags import TagTemplate
from tasks.figures.pixel_rules import ink_of
from tasks.figures.render import encode
from tests.tasks.reading.pages import draw_table, kinds, of, parsed, starts, structured

SENTENCE = "the pump is stopped before the valve is opened and the filter is taken out"
PX = 150 / 72
"""Pixels a point."""
WIDTH, HEIGHT = 595, 842
TABLE = [["Part", "Torque"], ["Cover plate", "40"], ["Bolt", "12"], ["Seal ring", "7"]]

Draw = Callable[[pymupdf.Page], None]


def read(
    folder: Path,
    draw: Draw,
    *,
    rotation: int = 0,
    turn: int = 0,
    degrees: float = 0.0,
    own: Sequence[Line] = (),
    join: Callable[[list[RecognisedLine]], list[RecognisedLine]] = lambda lines: lines,
) -> StructuredDocument:
    """Structure a drawn page as a scan whose words OCR has read.

    Args:
        folder: For the store.
        draw: Draws the page.
        rotation: Of the page, in degrees clockwise.
        turn: Of the paper in the scanner, likewise.
        degrees: Skew of the paper.
        own: Lines that the page has as text.
        join: Changes what OCR reads.
    """
    with pymupdf.open() as document:
        page = document.new_page(width=WIDTH, height=HEIGHT)
        draw(page)
        drawn = page.get_pixmap(dpi=150)
        spans = [
            (BBox(*line["bbox"]), "".join(span["text"] for span in line["spans"]).strip())
            for block in page.get_text("dict")["blocks"]
            for line in block.get("lines", ())
        ]
    picture = Image.frombytes("RGB", (drawn.width, drawn.height), drawn.samples)
    size = picture.width, picture.height
    lines = join([RecognisedLine(BBox(*(side * PX for side in box)), text, 0.9) for box, text in spans if text])
    if degrees:
        middle = size[0] / 2, size[1] / 2
        picture = picture.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor="white")
        lines = [replace(line, bbox=skewed(line.bbox, degrees, middle), skew=degrees) for line in lines]
    if turn:
        picture = picture.rotate(-turn, expand=True)
        lines = [replace(line, bbox=_turned(line.bbox, turn, size), turn=turn) for line in lines]
    figure, data = encode(np.asarray(picture))
    store = open_store(str(folder))
    store.put(figure_file(figure.figure_id), data)
    width, height = (side / PX for side in (picture.size if rotation in (0, 180) else picture.size[::-1]))
    scan = ParsedDocument(
        doc_id="d",
        title="Scan",
        pages=(Page(1, width, height, rotation, 0),),
        lines=tuple(own),
        figures=(figure,),
        placements=(
            Placement(1, 0, BBox(0, 0, width, height), figure.figure_id, Kind.SCAN, Role.PAGE_SCAN, "covers the page"),
        ),
    )
    return structure_with(scan, [Recognised(figure.figure_id, tuple(lines))], store)


def _turned(box: BBox, turn: int, size: tuple[int, int]) -> BBox:
    width, height = size
    return {
        90: BBox(height - box.y1, box.x0, height - box.y0, box.x1),
        180: BBox(width - box.x1, height - box.y1, width - box.x0, height - box.y0),
        270: BBox(box.y0, width - box.x1, box.y1, width - box.x0),
    }[turn]


def paragraphs(page: pymupdf.Page) -> None:
    for top, word in ((100, "First"), (260, "Second")):
        page.insert_textbox((72, top, 520, top + 120), f"{word} {SENTENCE}; {SENTENCE}; {SENTENCE}.", fontsize=11)


def rows(document: StructuredDocument) -> list[list[str]]:
    (table,) = of(document, BlockKind.TABLE)
    return [list(row) for row in table.rows]


def test_what_was_read_off_a_scanned_page_is_its_text(tmp_path: Path) -> None:
    def draw(page: pymupdf.Page) -> None:
        paragraphs(page)
        page.insert_text((72, 420), "Write <image:12345678.png> on the last line of the label.", fontsize=11)

    document = read(tmp_path, draw)
    assert starts(document) == ["First", "Second", "Write"]
    assert document.blocks[0].text == f"First {SENTENCE}; {SENTENCE}; {SENTENCE}."
    assert document.blocks[0].bbox == pytest.approx((72, 102, 515, 147), abs=4)
    assert TagTemplate().numbers(document.blocks[2].text) == []
    assert document.figures == (), "a scanned page gets no tag"


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_the_words_of_a_rotated_scan_are_placed_on_the_unrotated_page(tmp_path: Path, rotation: int) -> None:
    document = read(tmp_path, paragraphs, rotation=rotation)
    assert starts(document) == ["First", "Second"]
    box = document.blocks[0].bbox
    expected = {90: (102, 77, 147, 523), 180: (77, 695, 523, 740), 270: (695, 72, 740, 518)}[rotation]
    assert box == pytest.approx(expected, abs=6)


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_scan_on_its_side_or_upside_down_is_read_in_the_order_of_its_lines(tmp_path: Path, turn: int) -> None:
    document = read(tmp_path, paragraphs, turn=turn)
    assert [block.text for block in document.blocks][:1] == [f"First {SENTENCE}; {SENTENCE}; {SENTENCE}."]
    assert (document.blocks[0].bbox.width < document.blocks[0].bbox.height) == (turn in (90, 270))
    assert document.pages[0].rotation == 0, "the page is shown as its PDF has it"


@pytest.mark.parametrize("degrees", [0.0, 3.0, -4.0])
def test_a_ruled_table_has_its_cells_also_on_a_skewed_page(tmp_path: Path, degrees: float) -> None:
    def draw(page: pymupdf.Page) -> None:
        paragraphs(page)
        draw_table(page, TABLE, 420)

    document = read(tmp_path, draw, degrees=degrees)
    assert rows(document) == TABLE
    (table,) = of(document, BlockKind.TABLE)
    middle = WIDTH / 2, HEIGHT / 2
    assert table.bbox == pytest.approx(skewed(BBox(72, 420, 472, 516), degrees, middle), abs=6)
    assert document.placements[0].bbox == pytest.approx((0, 0, WIDTH, HEIGHT), abs=1), "the scan itself stays"


def test_a_line_that_ocr_reads_over_a_rule_is_cut(tmp_path: Path) -> None:
    def joined(lines: list[RecognisedLine]) -> list[RecognisedLine]:
        cover = next(line for line in lines if line.text == "Cover plate")
        torque = next(line for line in lines if line.text == "40")
        both = replace(cover, bbox=cover.bbox | torque.bbox, text="Cover plate 40")
        return [line for line in lines if line not in (cover, torque)] + [both]

    def draw(page: pymupdf.Page) -> None:
        paragraphs(page)
        draw_table(page, TABLE, 420)

    assert rows(read(tmp_path, draw, join=joined)) == TABLE


def test_a_picture_on_the_page_is_cut_out_with_its_caption(tmp_path: Path) -> None:
    shades = np.random.default_rng(1).integers(0, 200, (60, 90, 3), np.uint8)
    photograph = Image.fromarray(shades).resize((540, 360), Image.Resampling.BICUBIC)

    def draw(page: pymupdf.Page) -> None:
        paragraphs(page)
        sink = io.BytesIO()
        photograph.save(sink, "PNG")
        page.insert_image((150, 400, 420, 580), stream=sink.getvalue())
        page.insert_text((150, 600), "Figure 4: The pump from above, with both of its valves", fontsize=10)

    document = read(tmp_path, draw)
    (figure,) = document.figures
    assert figure.caption.startswith("Figure 4")
    assert figure.placement.bbox.iou(BBox(150, 400, 420, 580)) > 0.7
    assert kinds(document)[-2:] == [BlockKind.FIGURE, BlockKind.CAPTION]
    assert open_store(str(tmp_path)).get(f"figures/{figure.placement.figure_id}.png")


def test_a_line_in_thicker_letters_is_a_heading(tmp_path: Path) -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, 80), "Stopping the pump", fontsize=12, fontname="hebo")
        paragraphs(page)

    document = read(tmp_path, draw)
    assert [block.text for block in of(document, BlockKind.HEADING)] == ["Stopping the pump"]


@pytest.mark.parametrize(
    ("style", "font", "text"),
    [("tiro", NO_FONT, SENTENCE), ("tiit", f"{NO_FONT}-Italic", SENTENCE), ("tibo", f"{NO_FONT}-Bold", "4.2 The filter")],
)
def test_what_ocr_reads_on_one_line_is_cut_where_the_strokes_change(style: str, font: str, text: str) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_textbox((72, 200, 520, 400), f"{SENTENCE}; {SENTENCE}; {SENTENCE}.", fontsize=11, fontname="tiro")
        page.insert_text((72, 100), text, fontsize=11, fontname=style)
        if style == "tibo":
            page.insert_text(
                (90 + pymupdf.get_text_length(text, style, 11), 100), "The pump is", fontsize=11, fontname="tiro"
            )
        words = page.get_text("words")
        picture = page.get_pixmap(dpi=150).tobytes("png")
        sheet = Page(1, page.rect.width, page.rect.height, 0, 0)
    rows = sorted({round(word[1] + word[3], -1) for word in words})
    on_rows = [[word for word in words if round(word[1] + word[3], -1) == row] for row in rows]
    boxes = [union(BBox(*word[:4]) for word in row) for row in on_rows]
    read_off = [
        RecognisedLine(BBox(*(side * PX for side in box)), " ".join(word[4] for word in row), 0.9)
        for box, row in zip(boxes, on_rows, strict=True)
    ]
    inked = ink_of(picture, read_off, [line.bbox for line in read_off])
    lines = [line for box, runs in zip(boxes, inked, strict=True) for line in scanned_lines(box, 0, runs)]
    with pymupdf.open(
        stream=scanned_page(sheet, picture, BBox(0, 0, sheet.width_pt, sheet.height_pt), 0, with_type(lines), [])
    ) as made:
        blocks = made[0].get_text("dict")["blocks"]
        spans = [
            span for block in blocks for line in block.get("lines", ()) for span in line["spans"] if span["text"].strip()
        ]
    assert (spans[0]["text"].strip(), spans[0]["font"]) == (text, font)
    assert {span["font"] for span in spans[1:]} == {NO_FONT}


def test_words_that_a_page_has_as_text_stay_and_come_once(tmp_path: Path) -> None:
    stamp = Line(1, 0, BBox(72, 700, 260, 712), "Received in the archive on Monday", 11, bold=False)

    def draw(page: pymupdf.Page) -> None:
        paragraphs(page)
        page.insert_text((72, 710), "Received in tho archivc on Monday", fontsize=11)

    document = read(tmp_path, draw, own=[stamp])
    assert [block.text for block in document.blocks if "Received" in block.text] == [stamp.text]


def test_columns_that_ocr_reads_row_by_row_are_read_one_after_the_other(tmp_path: Path) -> None:
    def draw(page: pymupdf.Page) -> None:
        for left, word in ((60, "Left"), (310, "Right")):
            text = " ".join(f"{word} {SENTENCE}." for _ in range(5))
            page.insert_textbox((left, 90, left + 230, 400), text, fontsize=10)

    def by_rows(lines: list[RecognisedLine]) -> list[RecognisedLine]:
        return sorted(lines, key=lambda line: (round(line.bbox.y0), line.bbox.x0))

    text = " ".join(block.text for block in read(tmp_path, draw, join=by_rows).blocks)
    assert text.rindex("Left") < text.index("Right")


def test_the_rules_of_a_scan_with_a_text_layer_are_those_of_its_tables() -> None:
    with pymupdf.open() as drawn, pymupdf.open() as layered:
        page = drawn.new_page(width=WIDTH, height=HEIGHT)
        paragraphs(page)
        draw_table(page, TABLE, 420)
        sheet = layered.new_page(width=WIDTH, height=HEIGHT)
        sheet.insert_image(sheet.rect, stream=page.get_pixmap(dpi=150).tobytes("png"))
        for block in page.get_text("dict")["blocks"]:
            for line in block.get("lines", ()):
                for span in line["spans"]:
                    sheet.insert_text(span["origin"], span["text"], fontsize=span["size"], render_mode=3)
        assert [placement.role for placement in parsed(layered).placements] == [Role.BACKGROUND]
        assert rows(structured(layered)) == TABLE
