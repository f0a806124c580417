"""Rows of whole pages, and what is known of a page in words."""

import pytest

from schemas.documents import Block, BlockKind, Kind, Page, PlacedFigure, Placement, Role
from schemas.geometry import BBox
from schemas.models import Description, Flag
from schemas.tags import placeholder
from tasks.enriching.caption import DescriptionResult, describe
from tasks.enriching.caption_quality import flags
from tasks.enriching.chunk import rows_of_pages, words_of_pages
from tasks.enriching.prompts import presets, surroundings_of_page

BOX = BBox(10, 10, 90, 90)
FIGURE, SHEET = "f" * 64, "a" * 64
PAGES = [Page(number, 100, 200, 0, 10) for number in (1, 2, 3)]


def _block(order: int, page: int, text: str, kind: BlockKind = BlockKind.TEXT, section: str = "Pumps") -> Block:
    return Block(order, page, kind, BOX, text, (section,) if section else ())


def test_a_page_says_its_blocks_in_order_without_running_heads_and_figures() -> None:
    blocks = [
        _block(0, 1, "Pumps", BlockKind.HEADING),
        _block(1, 1, f"Open the valve. {placeholder(FIGURE)}"),
        _block(2, 1, "Manual of the pump 7", BlockKind.MARGIN),
        _block(3, 3, "Close it.", section="Valves"),
    ]
    words = words_of_pages(PAGES, blocks)
    assert words[1].text == "Pumps\nOpen the valve."
    assert (words[2].text, words[2].order, words[2].section_path) == ("", 1, ("Pumps",))
    assert (words[3].order, words[3].section_path) == (3, ("Valves",))


@pytest.mark.parametrize(
    ("margins", "printed"),
    [
        (["12"], "12"),
        (["– 12 –"], "12"),
        (["Page 12 of 40"], "12"),
        (["12 / 40"], "12"),
        (["Seite 12"], "12"),
        (["Pump manual", "12"], "12"),
        (["The pump manual 3000"], ""),
        (["Manual of the pump 7"], ""),
        (["12", "2026"], ""),
        (["٣"], "٣"),
        ([], ""),
    ],
)
def test_the_printed_number_is_what_stands_alone_in_a_margin(margins: list[str], printed: str) -> None:
    blocks = [_block(order, 1, text, BlockKind.MARGIN) for order, text in enumerate(margins)]
    assert words_of_pages(PAGES[:1], blocks)[1].printed == printed


def test_a_page_has_a_row_where_it_has_a_picture_and_names_the_figures_on_it() -> None:
    placement = Placement(1, 4, BOX, FIGURE, Kind.RASTER, Role.CONTENT, "a picture")
    figures = [PlacedFigure(placement, "Figure 1", (), "", 1)]
    words = words_of_pages(PAGES, [_block(0, 1, "Open the valve.")])
    rows = describe(
        rows_of_pages(PAGES, words, {1: SHEET, 3: SHEET}, figures),
        figures,
        {},
        lambda texts: [1] * len(texts),
        max_tokens=9,
    )
    assert [(row.regions[0].page, row.regions[0].bbox, row.figure_id) for row in rows] == [
        (1, BBox(0, 0, 100, 200), SHEET),
        (3, BBox(0, 0, 100, 200), SHEET),
    ]
    assert [row.figure_refs for row in rows] == [(FIGURE,), ()]
    assert [row.text for row in rows] == ["Open the valve.", "Page without words"]


def test_a_description_takes_the_place_of_the_words_and_hides_no_tag() -> None:
    words = words_of_pages(PAGES, [_block(0, 1, "Open the valve.")])
    wording = DescriptionResult("vlm", "- It shows a valve,\n- and <image:12345678.png>.")
    rows = rows_of_pages(PAGES, words, {1: SHEET}, [])
    (row,) = describe(rows, [], {("page", SHEET): wording}, lambda texts: [1] * len(texts), max_tokens=9)
    assert row.text.startswith("- It shows a valve, - and ")
    assert "<image:" not in row.text
    assert row.tagged_text == row.text


def test_a_description_must_name_the_printed_number_and_be_in_the_pages_language() -> None:
    english = "Open the valve, wait until the pressure has fallen to nothing, and then remove the four screws of the lid."
    blocks = [_block(0, 1, english), _block(1, 1, "Page 12", BlockKind.MARGIN)]
    around = surroundings_of_page("", words_of_pages(PAGES[:1], blocks)[1])
    prompt = presets()["page"]

    def found(text: str) -> tuple[Flag, ...]:
        return flags(Description("x", text, "vlm", 1, 1, 1), prompt, around)

    assert found("- It says how to open the lid of a pump.\n- Page 12.") == ()
    assert found("- It says how to open the lid of a pump.") == (Flag.PAGE_NUMBER_MISSING,)
    assert found("- Там написано, как открыть крышку насоса.\n- 12") == (Flag.WRONG_LANGUAGE,)
