"""Blocks written in an order that contradicts their positions."""

from collections.abc import Sequence

import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.geometry import BBox
from tasks.reading.page_order import LayoutBlock, reordered
from tasks.reading.parse import parse
from tasks.reading.structure import structure

LEFT, RIGHT, WHOLE = (50.0, 285.0), (310.0, 545.0), (50.0, 545.0)


def _block(
    column: tuple[float, float], top: float, bottom: float, *, head: tuple[float, float] | None = None
) -> LayoutBlock:
    x0, x1 = column
    left_x, right = head or column
    return LayoutBlock(BBox(x0, top, x1, bottom), BBox(left_x, top, right, top + 10))


PAGE = {
    "title": _block((300, 430), 60, 80),
    "l1": _block(LEFT, 100, 200),
    "l2": _block(LEFT, 210, 300),
    "l3": _block(LEFT, 310, 400),
    "r1": _block(RIGHT, 100, 250),
    "r2": _block(RIGHT, 260, 330),
    "r3": _block(RIGHT, 340, 400),
    "foot": _block(WHOLE, 420, 430),
}


def _read(stream_order: str) -> str:
    names = stream_order.split()
    return " ".join(names[number] for number in reordered([PAGE[name] for name in names]))


@pytest.mark.parametrize(
    "stream_order",
    [
        "title l1 l2 l3 r1 r2 r3 foot",
        "r1 r2 r3 l1 l2 l3",  # neither is running text: tables, lists, labels
        "l1 r1 l2 r2 l3 r3",
        "foot",
        "",
    ],
)
def test_an_order_that_the_page_does_not_contradict_is_kept(stream_order: str) -> None:
    assert _read(stream_order) == stream_order


@pytest.mark.parametrize(
    ("stream_order", "read"),
    [
        ("l2 l3 r1 r2 r3 l1", "l1 l2 l3 r1 r2 r3"),
        ("l1 l2 l3 r1 r3 foot r2", "l1 l2 l3 r1 r2 r3 foot"),
        ("foot l1 l2 l3 r1 r2 r3", "l1 l2 l3 r1 r2 r3 foot"),
        ("l3 l1 l2 r1 r2 r3", "l1 l2 l3 r1 r2 r3"),
        ("l1 l2 l3 r1 r2 r3 foot title", "title l1 l2 l3 r1 r2 r3 foot"),
        ("l3 r3 l2 r2 l1 r1", "l1 l2 l3 r1 r2 r3"),
    ],
)
def test_what_is_written_too_late_or_too_early_goes_to_its_position(stream_order: str, read: str) -> None:
    assert _read(stream_order) == read


def test_blocks_above_a_note_too_go_with_the_chart_that_it_belongs_to() -> None:
    beside, under = _block((57, 182), 106, 390), _block((57, 464), 407, 515)
    note = _block((57, 240), 590, 600)
    title, source, publisher = _block((198, 430), 90, 115), _block((198, 460), 308, 350), _block((198, 270), 354, 363)
    assert reordered([beside, under, note, title, source, publisher]) == [0, 3, 4, 5, 1, 2]


def test_text_set_around_a_figure_is_not_below_it() -> None:
    around = _block(WHOLE, 160, 260, head=LEFT)  # its last lines are as wide as the page
    words = _block(RIGHT, 100, 150)
    assert reordered([around, words]) == [0, 1]


def test_columns_that_overlap_by_a_little_are_columns() -> None:
    assert reordered([_block((50, 300), 200, 300), _block((290, 545), 100, 190)]) == [0, 1]


def test_the_labels_of_a_drawing_keep_their_order() -> None:
    labels = [_block(LEFT, 1000 - number, 1000.5 - number) for number in range(201)]
    assert reordered(labels) == list(range(201))
    assert reordered(labels[:200]) != list(range(200))


def _text(column: tuple[float, float], top: float, bottom: float, size: float = 10) -> LayoutBlock:
    return _block(column, top, bottom)._replace(prose=size)


COLUMNS = {
    "title": _block(WHOLE, 60, 80),
    "l1": _text(LEFT, 100, 200),
    "l2": _text(LEFT, 210, 400),
    "lh": _block((50, 120), 405, 415),
    "l3": _text(LEFT, 420, 500),
    "r0": _block((310, 400), 100, 110),
    "r1": _text(RIGHT, 115, 250),
    "r2": _text(RIGHT, 260, 500),
    "low": _text(LEFT, 510, 560),
    "note": _text(RIGHT, 100, 250, size=8),
    "foot": _block(WHOLE, 600, 610),
}


def _mirrored(box: BBox) -> BBox:
    return BBox(595 - box.x1, box.y0, 595 - box.x0, box.y1)


def _in_columns(stream_order: str, *, right_to_left: bool = False) -> str:
    names = stream_order.split()
    blocks = [COLUMNS[name] for name in names]
    if right_to_left:
        blocks = [LayoutBlock(_mirrored(block.box), _mirrored(block.head), block.prose) for block in blocks]
    return " ".join(names[number] for number in reordered(blocks, right_to_left=right_to_left))


@pytest.mark.parametrize("right_to_left", [False, True])
@pytest.mark.parametrize(
    ("stream_order", "read"),
    [
        ("r1 l1", "l1 r1"),
        ("title r0 r1 r2 l1 l2 lh l3 foot", "title l1 l2 lh l3 r0 r1 r2 foot"),
        ("r0 r1 r2 foot title l1 l2 lh l3", "title l1 l2 lh l3 r0 r1 r2 foot"),  # both faults at once
        ("title l1 r0 r1 r2 l2 lh l3 foot", "title l1 l2 lh l3 r0 r1 r2 foot"),  # a column in the midst of the other
    ],
)
def test_a_column_of_text_is_read_before_the_one_behind_it(stream_order: str, read: str, right_to_left: bool) -> None:
    assert _in_columns(stream_order, right_to_left=right_to_left) == read


@pytest.mark.parametrize("right_to_left", [False, True])
@pytest.mark.parametrize(
    "stream_order",
    [
        "title l1 l2 lh l3 r0 r1 r2 foot",
        "note l1 l2",  # another size of type: a side-bar, read where it is written
        "r0 l1 l2",  # no running text
        "l1 r1 low",  # not beside each other: row by row
    ],
)
def test_what_may_be_read_where_it_is_written_stays_there(stream_order: str, right_to_left: bool) -> None:
    assert _in_columns(stream_order, right_to_left=right_to_left) == stream_order


def test_columns_written_back_to_front_are_read_from_the_front() -> None:
    columns = [_text((50 + 170 * number, 200 + 170 * number), top, top + 90) for number in (2, 0, 1) for top in (100, 200)]
    assert reordered(columns) == [2, 3, 4, 5, 0, 1]
    assert reordered(columns[:2] + columns[4:] + columns[2:4]) == [4, 5, 2, 3, 0, 1]


def test_columns_that_overlap_are_not_exchanged() -> None:
    assert reordered([_text((280, 545), 100, 300), _text(LEFT, 100, 300)]) == [0, 1]


ENGLISH = "the pump is stopped before the valve is opened and the filter is taken out "
HEBREW = "המשאבה נעצרת לפני שהשסתום נפתח והמסנן מוצא החוצה "


def _first_words(paragraphs: Sequence[tuple[str, tuple[float, float]]], words: str, direction: str) -> list[str]:
    """Return the first word of each block of a page that a producer wrote in this order."""
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for first, (left_x, right) in paragraphs:
        page.insert_htmlbox((left_x, 100, right, 400), f"<p dir={direction}>{first} {words * 6}</p>")
    parsed = parse(
        open_document(document.tobytes(no_new_id=True)), "d", ParseOptions(), keep_figure=lambda _name, _picture: None
    )
    return [block.text.split()[0] for block in structure(parsed, {}).blocks]


def test_columns_run_as_the_pages_lines_do() -> None:
    assert _first_words([("Second", RIGHT), ("First", LEFT)], ENGLISH, "ltr") == ["First", "Second"]
    assert _first_words([("ראשון", RIGHT), ("שני", LEFT)], HEBREW, "rtl") == ["ראשון", "שני"]
    assert _first_words([("שני", LEFT), ("ראשון", RIGHT)], HEBREW, "rtl") == ["ראשון", "שני"]


BOXES = st.builds(
    lambda x, y, width, height, prose: LayoutBlock(
        BBox(x, y, x + width, y + height), BBox(x, y, x + width, y + height), float(prose)
    ),
    *(st.integers(0, 400), st.integers(0, 700), st.integers(1, 200), st.integers(1, 100), st.sampled_from([0, 8, 10])),
)


@given(st.lists(BOXES, max_size=12), st.booleans())
def test_every_block_is_read_once(blocks: list[LayoutBlock], right_to_left: bool) -> None:
    order = reordered(blocks, right_to_left=right_to_left)
    assert sorted(order) == list(range(len(blocks)))


@given(st.lists(BOXES, max_size=12))
def test_exchanged_columns_contradict_the_page_no_more_than_before(blocks: list[LayoutBlock]) -> None:
    def over(upper: LayoutBlock, lower: LayoutBlock) -> bool:
        across = min(upper.box.x1, lower.box.x1) - max(upper.box.x0, lower.box.x0)
        return across > 0 and upper.box.y1 <= lower.box.y0

    def written_late(order: list[int]) -> int:
        return sum(over(blocks[late], blocks[early]) for at, late in enumerate(order) for early in order[:at])

    plain = [block._replace(prose=0.0) for block in blocks]
    assert written_late(reordered(blocks)) <= written_late(reordered(plain))


def test_a_title_that_is_written_last_comes_behind_the_title_over_it() -> None:
    boxes = [(320, 100, 580, 700), (40, 20, 200, 40), (40, 50, 200, 70), (40, 100, 300, 700), (40, 75, 200, 95)]
    order = reordered([LayoutBlock(BBox(*box), BBox(*box)) for box in boxes])
    assert order.index(1) < order.index(2) < order.index(4) < order.index(3)
