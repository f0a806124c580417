"""Paragraphs, items and headings, cut out of the regions of a layout model or of the PDF reader's blocks."""

from collections.abc import Sequence

import pymupdf
import pytest

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.documents import BlockKind, Furniture, LayoutLabel, Line, OutlineEntry, PageRegion
from schemas.drawings import PageLine
from schemas.errors import FailureCode
from schemas.geometry import BBox, union
from tasks.reading.blocks import regroup_lines
from tasks.reading.parse import parse
from tests.tasks.reading.pages import of, paragraph, structured

SIZE = 10.0
FULL = "a line of a paragraph that goes on to the right side, word by word"


def _lines(*rows: tuple[float, str], pitch: float = 12.0) -> list[PageLine]:
    return [
        PageLine(Line(1, 0, BBox(x, 100 + pitch * at, x + 5 * len(text), 110 + pitch * at), text, SIZE, bold=False), True)
        for at, (x, text) in enumerate(rows)
    ]


def _region(lines: Sequence[PageLine], label: LayoutLabel) -> PageRegion:
    boxes = [line.bbox for line, _ in lines]
    return PageRegion(union(boxes), label, tuple(boxes))


def _texts(lines: Sequence[PageLine], label: LayoutLabel = LayoutLabel.TEXT) -> list[list[str]]:
    blocks: dict[int, list[str]] = {}
    for line, _ in regroup_lines(lines, [_region(lines, label)], 0):
        blocks.setdefault(line.block, []).append(line.text)
    return list(blocks.values())


def test_each_item_with_a_marker_begins_a_block() -> None:
    lines = _lines((72, f"(1) {FULL}"), (90, "and its end."), (72, "(2) Second."), (72, "\u2022 Third."))
    assert [len(block) for block in _texts(lines, LayoutLabel.ITEM)] == [2, 1, 1]


def test_an_indent_begins_a_paragraph_and_a_hanging_line_goes_on() -> None:
    indented = _lines((72, FULL), (72, f"{FULL}."), (92, f"Next {FULL[5:]}"), (72, "and its end."))
    assert [len(block) for block in _texts(indented)] == [2, 2]
    hanging = _lines((72, FULL), (92, FULL), (92, "and its end."))
    assert [len(block) for block in _texts(hanging)] == [3]


@pytest.mark.parametrize("labels", ["ABBC", "ABCC", "AAAA", "AAAC"])
def test_a_drop_cap_is_the_first_letter_of_its_paragraph(labels: str) -> None:
    rest = _lines(
        (100, "he rotor of the lift turns, and"), (100, "so does the hub behind"), (72, "it until the brake is set.")
    )
    cap = PageLine(
        Line(1, 0, rest[0].line.bbox._replace(x0=72.0, x1=96.0, y1=rest[1].line.bbox.y1), "T", 30.0, bold=True), True
    )
    lines = [cap, *rest]
    regions = [
        _region([line for line, label in zip(lines, labels, strict=True) if label == part], LayoutLabel.TEXT)
        for part in sorted(set(labels))
    ]
    regrouped = regroup_lines(lines, regions, 0)
    assert len({line.block for line, _ in regrouped}) == 1
    assert regrouped[0].line.text.startswith("The rotor")


def test_a_larger_gap_begins_a_paragraph_at_any_line_spacing() -> None:
    wide = _lines((72, FULL), (72, FULL), (72, FULL), pitch=24.0)
    assert [len(block) for block in _texts(wide)] == [3]
    apart = [
        *wide,
        *(PageLine(line._replace(bbox=BBox(*line.bbox[:1], 260, line.bbox.x1, 270)), True) for line, _ in wide[:1]),
    ]
    assert [len(block) for block in _texts(apart)] == [3, 1]


def test_a_bullet_that_stands_apart_belongs_to_the_line_behind_it() -> None:
    bullet = PageLine(Line(1, 9, BBox(60, 100, 64, 110), "\u2022", SIZE, bold=False), True)
    lines = _lines((72, "an item"), (72, "another item"))
    assert _texts([*lines, bullet], LayoutLabel.ITEM)[0][:2] == ["\u2022", "an item"]


def _page() -> tuple[pymupdf.Document, pymupdf.Page]:
    document = pymupdf.open()
    return document, document.new_page()


def _text(document: pymupdf.Document) -> str:
    return "\n".join(block.text for block in structured(document).blocks)


def test_what_is_drawn_twice_is_read_once() -> None:
    document, page = _page()
    for shift in (0.0, 0.7):
        page.insert_text((72 + shift, 100), "Never stand below the load.", fontsize=12)
    assert _text(document).count("Never stand") == 1


def test_words_of_spaced_letters_are_joined() -> None:
    document, page = _page()
    x = 72.0
    for word in ("CORNER", "WORKSHOP"):
        for letter in word:
            page.insert_text((x, 100), letter, fontsize=12)
            x += 14
        x += 14
    assert "CORNER WORKSHOP" in _text(document)


def test_values_of_fields_stand_beside_their_labels() -> None:
    document, page = _page()
    for at, (label, kind, value) in enumerate(
        [
            ("Serial number", pymupdf.PDF_WIDGET_TYPE_TEXT, "HX-4471-B"),
            ("Brake holds", pymupdf.PDF_WIDGET_TYPE_CHECKBOX, True),
            ("Limiter sealed", pymupdf.PDF_WIDGET_TYPE_CHECKBOX, False),
        ]
    ):
        y = 100 + 30 * at
        page.insert_text((96, y), label, fontsize=11)
        field = pymupdf.Widget()
        field.field_type, field.field_name, field.field_value = kind, label, value
        is_text = kind == pymupdf.PDF_WIDGET_TYPE_TEXT
        field.rect = pymupdf.Rect(220, y - 12, 380, y + 4) if is_text else pymupdf.Rect(72, y - 11, 86, y + 3)
        page.add_widget(field)
    text = " ".join(_text(document).replace("|", " ").split())
    assert "Serial number HX-4471-B" in text
    assert "\u2611 Brake holds" in text
    assert "\u2610 Limiter sealed" in text


def test_entries_of_a_table_of_contents_are_furniture_each_by_itself() -> None:
    document, page = _page()
    for at, (title, number) in enumerate([("1 Mounting", 2), ("1.1 Tools", 2), ("2 Wiring", 3), ("3 First start", 4)]):
        page.insert_text((72, 100 + 16 * at), f"{title} {'. ' * (30 - len(title))}{number}", fontsize=11)
    entries = [block for block in of(structured(document), BlockKind.MARGIN) if block.furniture is Furniture.CONTENTS]
    assert [block.text.split(" .")[0] for block in entries] == ["1 Mounting", "1.1 Tools", "2 Wiring", "3 First start"]


def test_a_page_whose_fonts_give_control_characters_is_a_failure_and_its_text_is_left_out() -> None:
    document, page = _page()
    page.insert_text((72, 100), "(PSW\\LQJ WKH WDQN LV GRQH", fontsize=11)
    raw = document.tobytes()
    broken = pymupdf.open(stream=raw)
    xref = broken[0].get_contents()[0]
    stream = broken.xref_stream(xref)
    broken.update_stream(xref, stream.replace(b"20", b"03"))
    parsed = parse(
        open_document(broken.tobytes()), "d", ParseOptions(layout="never"), keep_figure=lambda _name, _picture: None
    )
    codes = [failure.code for failure in parsed.failures]
    assert codes in ([FailureCode.FONT_UNREADABLE], [])
    assert (codes == []) == bool(parsed.lines)


def test_the_model_tells_the_same_of_the_same_page() -> None:
    document, page = _page()
    page.insert_textbox((72, 72, 300, 400), "The pump is stopped before the valve is opened. " * 8, fontsize=10)
    data = document.tobytes()
    first_regions, second_regions = (open_document(data).read_page(1).regions(0) for _ in range(2))
    assert first_regions == second_regions
    assert first_regions


def test_a_heading_that_the_outline_leaves_out_is_one_below_its_section() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    top = 72
    for title, size in (("Maintenance", 20), ("Cleaning the filter", 14), ("Changing the oil", 14)):
        page.insert_text((72, top + 20), title, fontsize=size)
        page.insert_textbox((72, top + 30, 520, top + 130), f"{FULL}. " * 5, fontsize=10)
        top += 150
    structure = structured(document, [OutlineEntry(1, "Maintenance", 1, 72)])
    headings = of(structure, BlockKind.HEADING)
    assert [(block.text, block.level) for block in headings] == [
        ("Maintenance", 1),
        ("Cleaning the filter", 2),
        ("Changing the oil", 2),
    ]
    assert structure.blocks[-1].section_path == ("Maintenance", "Changing the oil")


def test_bullets_at_the_head_of_pages_are_items() -> None:
    document = pymupdf.open()
    for number in range(4):
        page = document.new_page(width=595, height=842)
        for row in range(30):
            page.insert_text((72, 60 + 24 * row), "\u2022", fontname="symb", fontsize=10)
            page.insert_text((90, 60 + 24 * row), f"Valve {number} {row} is closed before the pump stops.", fontsize=10)
    assert of(structured(document), BlockKind.MARGIN) == []


def test_items_have_their_depth_and_the_text_after_the_list_has_none() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    rows = [(72, "1. Stop the pump."), (90, "a. Press the switch."), (90, "b. Wait."), (72, "2. Open the valve.")]
    for row, (left_x, text) in enumerate([*rows, (72, "The pump is empty after a minute.")]):
        page.insert_text((left_x, 200 + 24 * row), text, fontsize=10)
    blocks = of(structured(document), BlockKind.TEXT)
    assert [(block.text, block.level) for block in blocks] == [
        *zip([text for _, text in rows], [1, 2, 2, 1], strict=True),
        ("The pump is empty after a minute.", None),
    ]


def test_a_page_on_which_the_layout_model_fails_is_read_by_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, looks_at: str) -> None: ...

        def predict(self, page: pymupdf.Page, **options: object) -> list[dict[str, object]]:
            raise RuntimeError("the model can't see this page")

    document = pymupdf.open()
    paragraph(document.new_page(), "The pump lifts water from the well to the tank above the house.", 100)
    monkeypatch.setattr("backends.pdf.page.layout_model", Broken)
    failed = [block.text for block in structured(document, layout="every_page").blocks]
    assert failed == [block.text for block in structured(document, layout="never").blocks] != []
