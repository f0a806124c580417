"""Reading order, captions, mentions, sections and tables, on pages made for the purpose."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pymupdf
import pytest

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.documents import (
    Block,
    BlockKind,
    Figure,
    Kind,
    OutlineEntry,
    Page,
    ParsedDocument,
    PlacedFigure,
    Placement,
    RecognisedLine,
    Role,
    StructuredDocument,
)
from schemas.geometry import BBox
from schemas.tags import TagTemplate, placeholder, placeholders
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.manuals import picture

SCAN = "ab" * 32


def _structured(document: pymupdf.Document, outline: Sequence[OutlineEntry] = ()) -> StructuredDocument:
    parsed = parse(
        open_document(document.tobytes(no_new_id=True)), "d", ParseOptions(), keep_figure=lambda name, data: None
    )
    return structure(replace(parsed, outline=tuple(outline)), {})


def _paragraph(page: pymupdf.Page, words: str, top: float, *, left: float = 72, right: float = 520) -> None:
    """Write running text of three lines at least, which begins with the words."""
    text = f"{words} " + "the pump is stopped before the valve is opened and the filter is taken out " * 3
    page.insert_textbox((left, top, right, top + 120), f"{text.strip()}.", fontsize=10)


def _kinds(document: StructuredDocument) -> list[BlockKind]:
    return [block.kind for block in document.blocks]


def _starts(document: StructuredDocument) -> list[str]:
    """Return the first word of each block, and ``FIGURE`` for a figure."""
    return ["FIGURE" if block.kind is BlockKind.FIGURE else block.text.split()[0] for block in document.blocks]


def _of(document: StructuredDocument, kind: BlockKind) -> list[Block]:
    return [block for block in document.blocks if block.kind is kind]


def _one_figure(document: StructuredDocument) -> PlacedFigure:
    (figure,) = document.figures
    return figure


# Figures in reading order


def test_a_figure_stands_between_the_paragraphs_that_its_page_put_it_between() -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "First", 72)
    _paragraph(page, "Second", 400)
    page.insert_image((150, 200, 350, 330), stream=picture(1))
    found = _structured(document)
    assert _starts(found) == ["First", "FIGURE", "Second"]
    figure = _one_figure(found)
    assert figure.block == 1
    assert placeholders(found.blocks[1].text) == [figure.placement.figure_id]


def test_a_figure_in_a_column_stands_between_the_paragraphs_of_its_own_column() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _paragraph(page, "One", 72, left=50, right=285)
    _paragraph(page, "Two", 400, left=50, right=285)
    _paragraph(page, "Three", 72, left=310, right=545)
    _paragraph(page, "Four", 400, left=310, right=545)
    page.insert_image((330, 230, 520, 360), stream=picture(1))
    assert _starts(_structured(document)) == ["One", "Two", "Three", "FIGURE", "Four"]


def test_a_figure_in_the_left_column_does_not_wait_for_the_right_one() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _paragraph(page, "One", 72, left=50, right=285)
    _paragraph(page, "Two", 420, left=50, right=285)
    _paragraph(page, "Three", 72, left=310, right=545)
    _paragraph(page, "Four", 400, left=310, right=545)
    page.insert_image((60, 230, 250, 360), stream=picture(1))
    page.insert_text((60, 380), "Figure 1: The left pump", fontsize=9)
    found = _structured(document)
    assert sorted(_starts(found)) == ["FIGURE", "Figure", "Four", "One", "Three", "Two"]
    order = _starts(found)
    assert order[order.index("FIGURE") + 1] == "Figure"
    assert [word for word in order if word in {"One", "Two", "Three", "Four"}] == ["One", "Two", "Three", "Four"]


def test_figures_in_a_row_stand_together_though_no_text_is_below_the_last_one() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 90), "Four positions of the lever:", fontsize=10)
    for number in range(4):
        page.insert_image((72 + number * 110, 100, 178 + number * 110, 180), stream=picture(number))
    page.insert_text((72, 230), "Storage", fontsize=16)
    _paragraph(page, "Then", 250)
    assert _starts(_structured(document)) == ["Four", "FIGURE", "FIGURE", "FIGURE", "FIGURE", "Storage", "Then"]


@pytest.mark.parametrize("side", ["below", "above"])
def test_a_figure_and_its_caption_stand_together_in_the_order_of_the_page(side: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "First", 72)
    page.insert_text((150, 368 if side == "below" else 212), "Figure 1: The pump from above", fontsize=9)
    _paragraph(page, "Second", 420)
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    found = _structured(document)
    pair = ["FIGURE", "Figure"] if side == "below" else ["Figure", "FIGURE"]
    assert _starts(found) == ["First", *pair, "Second"]
    figure = _one_figure(found)
    assert figure.caption == "Figure 1: The pump from above"
    (caption,) = _of(found, BlockKind.CAPTION)
    assert caption.placement == figure.placement.order


def test_each_caption_goes_to_its_own_figure() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for number, top in enumerate((80, 300, 520), 1):
        page.insert_image((150, top, 350, top + 120), stream=picture(number, 200, 120))
        page.insert_text((150, top + 138), f"Figure {number}: Part number {number}", fontsize=9)
    found = _structured(document)
    assert [(round(figure.placement.bbox.y0), figure.caption) for figure in found.figures] == [
        (top, f"Figure {number}: Part number {number}") for number, top in enumerate((80, 300, 520), 1)
    ]


def test_a_caption_of_two_lines_is_one() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    text = "Figure 1: The pump from above with its cover taken off and the filter in sight"
    page.insert_textbox((150, 356, 350, 400), text, fontsize=9)
    assert _one_figure(_structured(document)).caption == text


def test_a_sentence_that_begins_with_figure_3_is_no_caption() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    page.insert_text((150, 368), "Figure 3: The pump", fontsize=9)
    _paragraph(page, "Figure 3 shows how", 420)
    found = _structured(document)
    assert _kinds(found) == [BlockKind.FIGURE, BlockKind.CAPTION, BlockKind.TEXT]
    figure = _one_figure(found)
    assert figure.caption == "Figure 3: The pump"
    assert found.blocks[2].mentions == (figure.placement.figure_id,)


def test_a_mention_on_another_page_names_the_figure() -> None:
    document = pymupdf.open()
    _paragraph(document.new_page(), "Take out the cover (see Figure 3-2) while", 100)
    page = document.new_page()
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    page.insert_text((150, 368), "Figure 3-2: The cover", fontsize=9)
    _paragraph(document.new_page(), "See Figure 3-1 for what", 100)
    found = _structured(document)
    figure = _one_figure(found).placement.figure_id
    assert {block.page: block.mentions for block in _of(found, BlockKind.TEXT)} == {1: (figure,), 3: ()}
    assert _of(found, BlockKind.CAPTION)[0].mentions == (), "a caption does not mention its own figure"


def test_the_labels_of_a_drawing_stand_with_its_tag_and_nowhere_else() -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "First", 72)
    page.draw_line((150, 200), (150, 350))
    page.draw_line((150, 350), (370, 350))
    page.draw_polyline([(150 + step * 20, 340 - (step * step) % 90) for step in range(11)])
    page.insert_text((230, 363), "Speed", fontsize=8)
    page.insert_text((170, 220), "Torque", fontsize=8)
    page.insert_text((160, 386), "Figure 1: Torque by speed", fontsize=9)
    _paragraph(page, "Second", 420)
    found = _structured(document)
    assert _starts(found) == ["First", "FIGURE", "Figure", "Second"]
    figure = _one_figure(found)
    assert sorted(figure.inner_text.split()) == ["Speed", "Torque"]
    block = found.blocks[figure.block]
    assert block.text == placeholder(figure.placement.figure_id or ""), "the words stand in its pixels, and in its own row"


@pytest.mark.parametrize(
    "order",
    [
        "icon first",
        "as read",
    ],
)
def test_an_icon_stands_in_its_line_where_the_page_shows_it(order: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    if order == "icon first":
        page.insert_image((158, 190, 178, 204), stream=picture(1, 40, 28))
    page.insert_text((72, 200), "Press the button", fontsize=11)
    if order == "as read":
        page.insert_image((158, 190, 178, 204), stream=picture(1, 40, 28))
    page.insert_text((184, 200), "to stop the pump and wait.", fontsize=11)
    found = _structured(document)
    figure = _one_figure(found)
    assert figure.placement.role is Role.ICON
    (block,) = found.blocks
    assert " ".join(block.text.split()) == (
        f"Press the button {placeholder(figure.placement.figure_id or '')} to stop the pump and wait."
    )


def test_two_icons_of_a_line_each_stand_in_their_place() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text(
        (72, 200), "press the          key and then, if nothing happens, the          key at the other side", fontsize=11
    )
    words = [word[:4] for word in page.get_text("words") if word[4] == "the"]
    for seed, (_, _, right, _) in zip((1, 2), (words[0], words[1]), strict=True):
        page.insert_image((right + 4, 190, right + 24, 204), stream=picture(seed, 40, 28))
    (block,) = _structured(document).blocks
    pieces = re.split("\ue000[0-9a-f]{64}\ue001", " ".join(block.text.split()))
    assert [piece.strip() for piece in pieces] == [
        "press the",
        "key and then, if nothing happens, the",
        "key at the other side",
    ]


@pytest.mark.parametrize(
    ("lines", "font", "text"),
    [
        (
            ["先关闭进水阀门，然后检查系", "统的压力并等待五分钟，再打", "开阀门。"],
            "china-s",
            "先关闭进水阀门，然后检查系统的压力并等待五分钟，再打开阀门。",
        ),
        (
            ["弁を閉じてから圧力を確認し", "ます。その後、もう一度弁を", "開けます。"],
            "japan",
            "弁を閉じてから圧力を確認します。その後、もう一度弁を開けます。",
        ),
        (["请选择：", "用于安装系统的磁盘和分区表", "语言。"], "china-s", "请选择：\n用于安装系统的磁盘和分区表语言。"),
        (
            ["밸브를 닫고 압력을 확인하고", "나서 다시 밸브를 여십시오", "끝."],
            "korea",
            "밸브를 닫고 압력을 확인하고 나서 다시 밸브를 여십시오 끝.",
        ),
    ],
)
def test_wrapped_lines_of_a_script_without_spaces_are_joined_without_any(lines: list[str], font: str, text: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 200), lines, fontname=font, fontsize=11)
    (block,) = _structured(document).blocks
    assert block.text == text


# Pages that were not written as they are read


def _columns(page: pymupdf.Page, top: float) -> None:
    for number, words in enumerate(("One", "Two", "Three", "Four")):
        left = 50 if number < 2 else 310
        _paragraph(page, words, top + 150 * (number % 2), left=left, right=left + 235)


def test_a_caption_that_is_written_last_stands_where_the_page_shows_it_with_its_figure() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _columns(page, 330)
    page.insert_image((100, 90, 495, 290), stream=picture(1))
    page.insert_text((230, 306), "Figure 1: Both pumps from above", fontsize=9)
    found = _structured(document)
    assert _starts(found) == ["FIGURE", "Figure", "One", "Two", "Three", "Four"]
    assert _one_figure(found).caption == "Figure 1: Both pumps from above"


def test_headings_that_are_written_last_stand_over_their_text() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for number, words in enumerate(("Alpha", "Beta", "Gamma")):
        _paragraph(page, words, 120 + 180 * number)
    for number, title in enumerate(("Service", "Storage", "Transport")):
        page.insert_text((72, 112 + 180 * number), title, fontsize=18)
    found = _structured(document)
    assert _starts(found) == ["Service", "Alpha", "Storage", "Beta", "Transport", "Gamma"]
    assert [block.section_path for block in _of(found, BlockKind.TEXT)] == [("Service",), ("Storage",), ("Transport",)]


def test_a_title_that_is_written_last_is_read_before_both_columns_though_it_stands_over_one() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _columns(page, 200)
    page.insert_text((300, 150), "Annual report", fontsize=20)
    assert _starts(_structured(document)) == ["Annual", "One", "Two", "Three", "Four"]


def test_columns_are_read_in_the_order_that_they_are_written_in() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_textbox((420, 220, 545, 300), "Aside the pump is stopped before the valve is opened.", fontsize=8)
    _paragraph(page, "First", 90, left=50, right=400)
    _paragraph(page, "Second", 300, left=50, right=400)
    assert _starts(_structured(document)) == ["Aside", "First", "Second"]


@pytest.mark.parametrize("turn", ["the page", "its text"])
def test_text_that_runs_up_the_page_keeps_its_order(turn: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for words, bottom in (("Pump", 700), ("Valve", 300)):
        for number in range(3):
            page.insert_text((100 + 80 * number, bottom), f"{words} number {number}", fontsize=10, rotate=90)
    if turn == "the page":
        page.set_rotation(90)
    assert _starts(_structured(document)) == ["Pump", "Pump", "Pump", "Valve", "Valve", "Valve"]


def test_a_page_that_is_turned_over_keeps_its_order() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.set_rotation(180)
    for number, words in enumerate(("First", "Second", "Third")):
        page.insert_text(pymupdf.Point(72, 200 + 100 * number) * page.derotation_matrix, words, fontsize=10, rotate=180)
    assert _starts(_structured(document)) == ["First", "Second", "Third"]


# Headings and margins


def test_without_an_outline_headings_go_by_size() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "Service", fontsize=20)
    _paragraph(page, "Alpha", 120)
    page.insert_text((72, 300), "Changing the filter", fontsize=14)
    _paragraph(page, "Beta", 320)
    page.insert_text((72, 500), "Storage", fontsize=20)
    _paragraph(page, "Gamma", 520)
    found = _structured(document)
    assert [(block.text, block.level) for block in _of(found, BlockKind.HEADING)] == [
        ("Service", 1),
        ("Changing the filter", 2),
        ("Storage", 1),
    ]
    assert [block.section_path for block in _of(found, BlockKind.TEXT)] == [
        ("Service",),
        ("Service", "Changing the filter"),
        ("Storage",),
    ]


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_stamp_along_the_edge_of_the_page_is_no_heading(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page()
    turn = {0: 0, 90: 90}[rotation]
    page.set_rotation(rotation)
    width = page.rect.width
    matrix = page.derotation_matrix

    def write(x: float, y: float, text: str, size: float, rotate: int) -> None:
        page.insert_text(pymupdf.Point(x, y) * matrix, text, fontsize=size, rotate=rotate)

    write(72, 100, "Service of the pump", 16, turn)
    for row in range(12):
        write(72, 130 + 14 * row, "The pump is stopped before the valve is opened slowly.", 10, turn)
    write(width - 30, 400, "preprint 2401.18059 of January 2024", 20, (turn + 90) % 360)
    found = _structured(document)
    assert [block.text for block in _of(found, BlockKind.HEADING)] == ["Service of the pump"]


def test_a_numbered_line_in_capitals_is_a_heading_though_it_is_no_larger_than_the_text() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 110), "2", fontsize=11)
    page.insert_text((92, 110), "RELATED WORK", fontsize=8.5)
    _paragraph(page, "First", 140)
    page.insert_text((72, 350), "SEE BELOW", fontsize=10)
    found = _structured(document)
    assert [(block.text, block.level) for block in _of(found, BlockKind.HEADING)] == [("2 RELATED WORK", 1)]


def test_a_sentence_that_begins_in_bold_is_no_heading() -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "First", 72)
    bold = pymupdf.TextWriter(page.rect)
    bold.append((72, 300), "The tree traversal method first selects the roots by their cosine", pymupdf.Font("hebo"), 10)
    bold.append((72, 312), "similarity and goes down from there, level by level, to the leaves.", pymupdf.Font("helv"), 10)
    bold.write_text(page)
    assert _of(_structured(document), BlockKind.HEADING) == []


def test_with_an_outline_headings_are_those_that_it_names() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "1 Service", fontsize=12)
    _paragraph(page, "Alpha", 120)
    page.insert_text((72, 300), "DANGER", fontsize=20)
    _paragraph(page, "Beta", 320)
    page.insert_text((72, 500), "1.1 The filter", fontsize=12)
    _paragraph(page, "Gamma", 520)
    found = _structured(document, [OutlineEntry(1, "1 Service", 1, 85), OutlineEntry(2, "1.1 The filter", 1, 485)])
    assert [(block.text, block.level) for block in _of(found, BlockKind.HEADING)] == [
        ("1 Service", 1),
        ("1.1 The filter", 2),
    ]
    paths = {block.text.split()[0]: block.section_path for block in _of(found, BlockKind.TEXT)}
    assert paths["Alpha"] == paths["Beta"] == ("1 Service",)
    assert paths["Gamma"] == ("1 Service", "1.1 The filter")


def test_the_number_and_the_title_of_a_heading_on_lines_of_their_own_are_one_heading() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "Chapter 2", fontsize=18)
    page.insert_text((72, 124), "Changing the filter", fontsize=18)
    _paragraph(page, "Alpha", 160)
    found = _structured(document, [OutlineEntry(1, "Chapter 2 Changing the filter", 1, 80)])
    assert [block.text for block in _of(found, BlockKind.HEADING)] == ["Chapter 2 Changing the filter"]
    assert [block.section_path for block in _of(found, BlockKind.TEXT)] == [("Chapter 2 Changing the filter",)]


def test_a_heading_whose_number_stands_apart_keeps_it_though_the_outline_leaves_it_out() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "2.7.3", fontsize=18)
    page.insert_text((140, 100), "Plasma cutting", fontsize=18)
    _paragraph(page, "Alpha", 160)
    found = _structured(document, [OutlineEntry(1, "Plasma cutting", 1, 80)])
    assert [block.text for block in _of(found, BlockKind.HEADING)] == ["2.7.3 Plasma cutting"]


def test_sections_follow_the_outlines_own_order_where_its_heights_are_wrong() -> None:
    document = pymupdf.open()
    page = document.new_page()
    entries = []
    for number, title in enumerate(("Service", "Storage", "Transport")):
        top = 100 + 200 * number
        page.insert_text((72, top), title, fontsize=16)
        _paragraph(page, f"{title}-text", top + 30)
        entries.append(OutlineEntry(1, title, 1, 842 - top))
    paths = {block.text.split()[0]: block.section_path for block in _of(_structured(document, entries), BlockKind.TEXT)}
    assert paths == {f"{title}-text": (title,) for title in ("Service", "Storage", "Transport")}


def test_a_section_begins_where_its_heading_stands_and_not_where_its_page_begins() -> None:
    document = pymupdf.open()
    for number in (1, 2):
        page = document.new_page()
        _paragraph(page, f"Before{number}", 72)
        page.insert_text((72, 400), f"Section of page {number}", fontsize=16)
        _paragraph(page, f"After{number}", 430)
    found = _structured(document, [OutlineEntry(1, f"Section of page {number}", number, 385) for number in (1, 2)])
    paths = {block.text.split()[0]: block.section_path for block in _of(found, BlockKind.TEXT)}
    first, second = ("Section of page 1",), ("Section of page 2",)
    assert paths == {"Before1": (), "After1": first, "Before2": first, "After2": second}


def test_a_section_whose_outline_entry_names_only_the_page_begins_at_its_heading() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 60), "Service", fontsize=16)
    _paragraph(page, "Before", 90)
    page.insert_text((72, 400), "Storage", fontsize=16)
    _paragraph(page, "After", 430)
    found = _structured(document, [OutlineEntry(1, "Service", 1, None), OutlineEntry(1, "Storage", 1, None)])
    paths = {block.text.split()[0]: block.section_path for block in _of(found, BlockKind.TEXT)}
    assert paths == {"Before": ("Service",), "After": ("Storage",)}


def test_a_section_that_begins_in_the_second_column_does_not_take_in_the_first() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_text((50, 90), "Service", fontsize=16)
    _paragraph(page, "Left", 400, left=50, right=285)
    page.insert_text((310, 90), "Storage", fontsize=16)
    _paragraph(page, "Right", 400, left=310, right=545)
    found = _structured(document, [OutlineEntry(1, "Service", 1, 75), OutlineEntry(1, "Storage", 1, 75)])
    paths = {block.text.split()[0]: block.section_path for block in _of(found, BlockKind.TEXT)}
    assert paths == {"Left": ("Service",), "Right": ("Storage",)}


def test_an_outline_entry_whose_heading_is_not_on_its_page_counts_from_where_it_points_to() -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "Before", 90)
    _paragraph(page, "After", 430)
    found = _structured(document, [OutlineEntry(1, "A drawn title", 1, 300)])
    paths = {block.text.split()[0]: block.section_path for block in _of(found, BlockKind.TEXT)}
    assert paths == {"Before": (), "After": ("A drawn title",)}


def test_running_headers_and_page_numbers_are_margins() -> None:
    document = pymupdf.open()
    for number in range(1, 5):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 40), f"P-200 service manual, part {number}", fontsize=9)
        _paragraph(page, f"Page{number}", 120)
        page.insert_text((290, 815), str(number), fontsize=9)
    found = _structured(document)
    assert len(_of(found, BlockKind.MARGIN)) == 8
    assert [block.text.split()[0] for block in _of(found, BlockKind.TEXT)] == ["Page1", "Page2", "Page3", "Page4"]


def test_a_line_at_the_head_of_one_page_is_no_margin() -> None:
    document = pymupdf.open()
    for number in range(1, 5):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 60), ("Open", "Close", "Drain", "Fill")[number - 1] + " the valve slowly", fontsize=10)
        _paragraph(page, "Then", 120)
    assert _of(_structured(document), BlockKind.MARGIN) == []


def _margins(feet: Sequence[str]) -> list[str]:
    """Return what is margin of a document of as many pages, each with some words at its foot, parted by ``|``."""
    document = pymupdf.open()
    for number, foot in enumerate(feet, 1):
        page = document.new_page(width=595, height=842)
        _paragraph(page, f"Page{number}", 120)
        for column, words in enumerate(filter(None, foot.split("|"))):
            page.insert_text((100 + 120 * column, 815), words, fontsize=9)
    return [block.text for block in _of(_structured(document), BlockKind.MARGIN)]


@pytest.mark.parametrize(
    "feet",
    [
        ["i", "ii", "iii", "iv", "1", "2", "3"],
        ["XIX", "", "XXI"],
        ["", "", "iii"],  # the number of its page
        ["", "1"],  # after a cover
        ["- 1 -", "- 2 -"],
        ["7", "", "9", "10"],
        ["A-1", "A-2", "B-1", "B-2"],
        ["3-9", "4-1"],
        ["Page iv"],
        ["Seite 3 von 9"],
        ["1 / 1"],
        ["6 / 150", "6 / 150"],
        ["3", "3", "3", "3", "3"],  # a chapter's
    ],
)
def test_page_numbers_go_up_with_the_pages_or_say_what_they_are(feet: list[str]) -> None:
    assert _margins(feet) == [foot for foot in feet if foot]


@pytest.mark.parametrize(
    "feet",
    [
        ["Civil", "Vic", "ILL", "Mild", "civil", "MIX"],
        ["vi"],
        ["", "V", "X"],
        ["2018|2017|2016", "", "2018|2017|2016"],
        ["0|50|100"],
        ["RJ-11", "", "PG-9"],
        ["", "2015-2014"],
        ["Li", "", "Vi"],
    ],
)
def test_other_numbers_and_words_at_the_foot_are_text(feet: list[str]) -> None:
    assert _margins(feet) == []


def test_a_year_that_stands_over_a_column_is_no_page_number() -> None:
    assert _margins(["2018|2017|1", "2018|2017|2", "3", "4", "5"]) == ["1", "2", "3", "4", "5"]


# Text and tables


def _table(page: pymupdf.Page, rows: Sequence[Sequence[str]], top: float) -> None:
    bottom = top + 24 * len(rows)
    for row in range(len(rows) + 1):
        page.draw_line((72, top + 24 * row), (472, top + 24 * row))
    for column in range(3):
        page.draw_line((72 + 200 * column, top), (72 + 200 * column, bottom))
    for row, cells in enumerate(rows):
        for column, text in enumerate(cells):
            page.insert_text((78 + 200 * column, top + 16 + 24 * row), text, fontsize=10)


@pytest.mark.parametrize("caption_at", [190, 290])
def test_a_table_is_markdown_with_its_caption_on_top_and_its_words_stand_nowhere_else(caption_at: float) -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "First", 72)
    _table(page, [["Name", "Torque"], ["Cover", "40"], ["Filter|Net", "12"]], 200)
    page.insert_text((72, caption_at), "Table 1: Torques", fontsize=9)
    _paragraph(page, "Second", 330)
    found = _structured(document)
    assert _kinds(found) == [BlockKind.TEXT, BlockKind.TABLE, BlockKind.TEXT]
    table = found.blocks[1]
    assert table.text.splitlines() == [
        "Table 1: Torques",
        "| Name | Torque |",
        "| --- | --- |",
        "| Cover | 40 |",
        "| Filter\\|Net | 12 |",
    ]
    assert table.rows == (("Name", "Torque"), ("Cover", "40"), ("Filter|Net", "12"))
    assert "Cover" not in found.blocks[0].text + found.blocks[2].text


def test_what_a_block_says_over_a_table_is_read_before_it() -> None:
    document = pymupdf.open()
    page = document.new_page()
    cells = [("Before", "the service"), ("Cover", "40"), ("Filter", "12"), ("Pump", "7"), ("Valve", "9"), ("After", "that")]
    for row, (name, torque) in enumerate(cells):
        whole = name in {"Before", "After"}
        page.insert_text((72, 100 + 12 * row), f"{name} {torque} the pump is stopped" if whole else name, fontsize=10)
        if not whole:
            page.insert_text((200, 100 + 12 * row), torque, fontsize=10)
    found = _structured(document)
    assert _kinds(found) == [BlockKind.TEXT, BlockKind.TABLE, BlockKind.TEXT]
    assert _starts(found)[0] == "Before"
    assert _starts(found)[-1] == "After"


def test_a_picture_in_a_table_is_tagged_in_its_cell_once() -> None:
    document = pymupdf.open()
    page = document.new_page()
    _table(page, [["Name", "Sign"], ["Danger", ""], ["Hot", "none"]], 200)
    page.insert_image((300, 227, 330, 245), stream=picture(1, 60, 36))
    found = _structured(document)
    name = _one_figure(found).placement.figure_id or ""
    (table,) = found.blocks
    assert f"| Danger | {placeholder(name)} |" in table.text
    assert placeholders(table.text) == [name]
    assert _one_figure(found).block == table.order


HEADER = ["Part", "Torque"]
PARTS = [[f"Screw M{number}", f"{number} Nm"] for number in range(1, 9)]


def _two_pages(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    *,
    above: str = "Table 1: Torques",
    again: str = "",
    foot: str = "",
    top: float = 90,
    bottom: float = 740,
) -> StructuredDocument:
    """Structure two pages: a table at the foot of one, a table at the head of the next, page numbers, running text."""
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _paragraph(page, "First", 72)
    start = bottom - 24 * len(first)
    if above:
        page.insert_text((72, start - 8), above, fontsize=9)
    _table(page, first, start)
    page.insert_text((72, 762), foot, fontsize=9)
    page.insert_text((290, 825), "1", fontsize=9)
    page = document.new_page(width=595, height=842)
    if again:
        page.insert_text((72, top - 8), again, fontsize=9)
    _table(page, second, top)
    _paragraph(page, "Second", top + 24 * len(second) + 30)
    page.insert_text((290, 825), "2", fontsize=9)
    return _structured(document)


@pytest.mark.parametrize(
    ("header", "above", "again", "foot"),
    [
        (True, "Table 1: Torques", "", ""),
        (False, "Table 1: Torques", "", ""),
        (True, "", "", ""),
        (True, "Table 1: Torques", "Table 1: (continued)", ""),
        (False, "Table 1: Torques", "Table 1 (Continued from previous page)", ""),
        (True, "Table 1: Torques", "Table 1: Torques", ""),
        (True, "Table 1: Torques", "Table 1: (continued)", "1) Measured on the cold pump."),
        (True, "Table 1: Torques", "", "(continued on next page)"),
    ],
)
def test_a_table_over_two_pages_is_one(header: bool, above: str, again: str, foot: str) -> None:
    found = _two_pages(
        [HEADER, *PARTS[:4]], [*([HEADER] if header else []), *PARTS[4:]], above=above, again=again, foot=foot
    )
    (table,) = _of(found, BlockKind.TABLE)
    assert table.rows == tuple(map(tuple, [HEADER, *PARTS]))
    assert [(part.page, part.rows) for part in table.parts] == [(1, 5), (2, 4)]
    assert table.page == 1
    assert table.parts[1].bbox.y0 == pytest.approx(90, abs=2)
    lines = table.text.splitlines()
    assert lines[: 1 if above else 0] == ([above] if above else [])
    assert len(lines) == len(PARTS) + 2 + bool(above)
    text = [block.text.split()[0] for block in _of(found, BlockKind.TEXT)]
    assert text == ["First", *(["1)"] if foot.startswith("1)") else []), "Second"]
    said = " ".join(block.text for block in found.blocks)
    assert all(words in said for words in (again, foot)), "what says that a table goes on is kept as margin"


def test_a_table_over_three_pages_is_one() -> None:
    document = pymupdf.open()
    for rows in (PARTS[:3], PARTS[3:6], PARTS[6:]):
        page = document.new_page(width=595, height=842)
        _table(page, [HEADER, *rows], 700 if rows == PARTS[:3] else 80)
    (table,) = _of(_structured(document), BlockKind.TABLE)
    assert table.rows == tuple(map(tuple, [HEADER, *PARTS]))
    assert [(part.page, part.rows) for part in table.parts] == [(1, 4), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    "why", ["another caption", "another header in bold", "far from the foot", "text between", "three columns"]
)
def test_two_tables_on_two_pages_stay_two(why: str) -> None:
    first, second = [HEADER, *PARTS[:4]], PARTS[4:]
    match why:
        case "another caption":
            found = _two_pages(first, [HEADER, *second], again="Table 2: More torques")
        case "far from the foot":
            found = _two_pages(first, second, bottom=500)
        case "text between":
            found = _two_pages(first, [HEADER, *second], foot="The valve is opened last of all.")
        case "another header in bold":
            document = pymupdf.open()
            _bold_table(document.new_page(width=595, height=842), first, 620)
            _bold_table(document.new_page(width=595, height=842), [["Valve", "Bar"], *second], 80)
            found = _structured(document)
        case _:
            document = pymupdf.open()
            _table(document.new_page(width=595, height=842), first, 620)
            page = document.new_page(width=595, height=842)
            _table(page, second, 80)
            page.draw_line((372, 80), (372, 80 + 24 * len(second)))
            found = _structured(document)
    assert [(table.page, len(table.parts)) for table in _of(found, BlockKind.TABLE)] == [(1, 1), (2, 1)]


def _bold_table(page: pymupdf.Page, rows: Sequence[Sequence[str]], top: float) -> None:
    _table(page, [["", ""], *rows[1:]], top)
    for column, text in enumerate(rows[0]):
        page.insert_text((78 + 200 * column, top + 16), text, fontsize=10, fontname="hebo")


def test_a_picture_on_the_second_page_of_a_table_is_tagged_in_its_cell() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    _table(page, [HEADER, *PARTS[:4]], 620)
    page = document.new_page(width=595, height=842)
    _table(page, [HEADER, ["Danger", ""], *PARTS[4:]], 80)
    page.insert_image((300, 107, 330, 125), stream=picture(1, 60, 36))
    found = _structured(document)
    (table,) = found.blocks
    figure = _one_figure(found)
    assert table.rows[5] == ("Danger", placeholder(figure.placement.figure_id or ""))
    assert (figure.placement.page, figure.block) == (2, table.order)


def test_a_header_that_is_said_again_with_a_picture_keeps_it() -> None:
    document = pymupdf.open()
    for number, top in enumerate((620, 80)):
        page = document.new_page(width=595, height=842)
        _table(page, [["Part", ""], *PARTS[number * 4 : number * 4 + 4]], top)
        page.insert_image((300, top + 3, 330, top + 21), stream=picture(1, 60, 36))
    found = _structured(document)
    (table,) = found.blocks
    assert len(table.rows) == 10
    assert len(placeholders(table.text)) == len(found.figures) == 2


def test_a_word_broken_at_the_end_of_a_line_is_whole_again() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text(
        (72, 100),
        [
            "Before the cover comes off the mainte-",
            "nance switch is turned, and the Allen-",
            "Bradley drive is left to run down.",
        ],
        fontsize=11,
    )
    (block,) = _structured(document).blocks
    assert "the maintenance switch is turned, and the Allen- Bradley drive is left" in block.text


def test_lines_that_end_early_keep_their_ends() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), ["G21", "G90 X10", "M30 and this is a long line that ends the block"], fontsize=11)
    (block,) = _structured(document).blocks
    assert block.text.splitlines() == ["G21", "G90 X10", "M30 and this is a long line that ends the block"]


# What was read off pixels


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
    assert _kinds(found) == [BlockKind.TEXT, BlockKind.TEXT]
    assert found.blocks[0].text.startswith("The pump is stopped before the valve is opened;")
    assert found.blocks[1].text == "The filter is taken out last of all"
    assert found.blocks[1].bbox == BBox(50, 300, 350, 315)
    assert TagTemplate().numbers(found.blocks[0].text) == []
    assert found.figures == (), "a scanned page gets no tag"


@pytest.mark.parametrize(
    ("rotation", "bbox"),
    [(90, BBox(100, 550, 115, 600)), (180, BBox(350, 485, 400, 500)), (270, BBox(285, 0, 300, 50))],
)
def test_what_was_read_off_a_turned_scan_stands_on_the_unturned_page(rotation: int, bbox: BBox) -> None:
    (block,) = structure(_scan(rotation), {SCAN: [RecognisedLine(BBox(0, 200, 100, 230), "Stop", 0.9)]}).blocks
    assert block.bbox == bbox


def test_words_read_off_a_figure_are_its_inner_text_and_not_the_pages() -> None:
    found = structure(_scan(role=Role.CONTENT), {SCAN: [RecognisedLine(BBox(0, 0, 100, 30), "Inlet", 0.9)]})
    assert _one_figure(found).inner_text == "Inlet"
    assert [block.text for block in found.blocks] == [placeholder(SCAN)]


def test_structuring_twice_gives_the_same() -> None:
    document = pymupdf.open()
    page = document.new_page()
    _paragraph(page, "As Figure 1 shows,", 72)
    page.insert_image((150, 220, 350, 350), stream=picture(1))
    page.insert_text((150, 368), "Figure 1: The pump", fontsize=9)
    assert _structured(document) == _structured(document)


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_an_icon_in_a_line_of_a_turned_page_stands_at_its_word(rotation: int) -> None:
    level = pymupdf.open()
    page = level.new_page(width=600, height=600)
    page.insert_text((72, 200), "Press the button        to stop the pump and wait until it is at rest.", fontsize=11)
    right = next(word[2] for word in page.get_text("words") if word[4] == "button")
    page.insert_image((right + 4, 190, right + 18, 204), stream=picture(1, 40, 40))
    document = pymupdf.open()
    turned = document.new_page(width=600, height=600)
    turned.show_pdf_page(turned.rect, level, 0, rotate=rotation)
    turned.set_rotation(rotation)
    text = "".join(block.text for block in _structured(document).blocks)
    before, after = re.split("\ue000[0-9a-f]{64}\ue001", " ".join(text.split()))
    assert (before.strip(), after.strip()) == ("Press the button", "to stop the pump and wait until it is at rest.")


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
    (table,) = [block for block in _structured(document).blocks if block.kind is BlockKind.TABLE]
    assert [[re.sub("\ue000[0-9a-f]{64}\ue001", "PICTURE", cell) for cell in row] for row in table.rows] == [
        ["PICTURE", "Turns the device on and off"],
        ["PICTURE", "Lowers the volume"],
    ]
