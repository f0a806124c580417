"""What a figure's row says."""

from collections.abc import Sequence

from schemas.documents import Chunk, Kind, PlacedFigure, Placement, Region, Role
from schemas.geometry import BBox
from schemas.tags import placeholder
from tasks.enriching.caption import DescriptionResult, describe

FIGURE = "ab" * 32
BOX = BBox(10, 10, 100, 50)


def _count(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def _figure(caption: str, section: Sequence[str], inner_text: str, step: str = "") -> PlacedFigure:
    placement = Placement(1, 3, BOX, FIGURE, Kind.RASTER, Role.CONTENT, "image")
    return PlacedFigure(placement, caption, tuple(section), inner_text, 1, step)


def _row(beside: str) -> Chunk:
    tagged = f"{placeholder(FIGURE)}\n{beside}".strip()
    return Chunk(4, "figure", (Region(1, BOX),), (), "", tagged, (FIGURE,), figure_id=FIGURE, placement=3)


def _described(beside: str, figure: PlacedFigure, tokens: int = 1000, wording: DescriptionResult | None = None) -> str:
    text = Chunk(0, "text", (Region(1, BOX),), (), "Press.", "Press.", ())
    before, row = describe(
        [text, _row(beside)], [figure], {("figure", FIGURE): wording} if wording else {}, _count, max_tokens=tokens
    )
    assert before is text
    assert row.tagged_text == _row(beside).tagged_text
    return row.text


def test_a_figures_row_holds_what_stands_beside_it_its_section_and_its_words() -> None:
    panel = _figure("Figure 1: The panel", ("Setup", "Panel"), "START  STOP")
    assert _described("Figure 1: The panel", panel) == "Figure 1: The panel\nPanel\nSTART STOP"
    by_its_step = _figure("", ("Volume",), "VOL+", "Press the upper button.")
    assert _described("Press the upper button.", by_its_step) == "Press the upper button.\nVolume\nVOL+"


def test_a_figure_that_nothing_is_known_of_can_be_found() -> None:
    assert _described("", _figure("", (), "")) == "Figure without caption or words"


def test_a_description_stands_behind_the_caption_on_one_line_and_hides_no_tag() -> None:
    wording = DescriptionResult("vlm", "A red button,\n\nlabelled <image:12345678.png>.")
    row = _described("Figure 1: The panel", _figure("Figure 1: The panel", ("Panel",), "START"), wording=wording)
    assert row.splitlines()[0] == "Figure 1: The panel"
    assert row.splitlines()[2:] == ["Panel", "START"]
    assert "labelled" in row.splitlines()[1]
    assert "<image:" not in row


def test_a_long_description_keeps_its_beginning_and_fills_its_row() -> None:
    row = _described("図1 安全弁", _figure("図1 安全弁", ("弁",), "圧力計と安全弁の位置" * 30), 100)
    assert row.startswith("図1 安全弁\n弁\n")
    assert 90 <= len(row) <= 100
