"""Where blocks go that a page tells before what stands over them, and what is left as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.geometry import BBox
from tasks.order import Standing, leaps, mended

LEFT, RIGHT, WHOLE = (50.0, 285.0), (310.0, 545.0), (50.0, 545.0)


def _block(column: tuple[float, float], top: float, bottom: float, *, head: tuple[float, float] | None = None) -> Standing:
    x0, x1 = column
    left, right = head or column
    return Standing(BBox(x0, top, x1, bottom), BBox(left, top, right, top + 10))


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


def _read(written: str) -> str:
    names = written.split()
    return " ".join(names[number] for number in mended([PAGE[name] for name in names]))


@pytest.mark.parametrize(
    "written",
    [
        "title l1 l2 l3 r1 r2 r3 foot",
        "r1 r2 r3 l1 l2 l3",  # a side-bar, or a script that runs from the right
        "l1 r1 l2 r2 l3 r3",
        "foot",
        "",
    ],
)
def test_an_order_that_the_page_does_not_contradict_is_kept(written: str) -> None:
    assert _read(written) == written


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("l2 l3 r1 r2 r3 l1", "l1 l2 l3 r1 r2 r3"),
        ("l1 l2 l3 r1 r3 foot r2", "l1 l2 l3 r1 r2 r3 foot"),
        ("foot l1 l2 l3 r1 r2 r3", "l1 l2 l3 r1 r2 r3 foot"),
        ("l3 l1 l2 r1 r2 r3", "l1 l2 l3 r1 r2 r3"),
        ("l1 l2 l3 r1 r2 r3 foot title", "title l1 l2 l3 r1 r2 r3 foot"),
        ("l3 r3 l2 r2 l1 r1", "l1 l2 l3 r1 r2 r3"),
    ],
)
def test_what_is_told_too_late_or_too_early_goes_where_it_stands(written: str, read: str) -> None:
    assert _read(written) == read


def test_what_stands_over_a_note_too_goes_with_the_chart_that_it_belongs_to() -> None:
    beside, under = _block((57, 182), 106, 390), _block((57, 464), 407, 515)
    note = _block((57, 240), 590, 600)
    title, source, publisher = _block((198, 430), 90, 115), _block((198, 460), 308, 350), _block((198, 270), 354, 363)
    assert mended([beside, under, note, title, source, publisher]) == [0, 3, 4, 5, 1, 2]


def test_text_set_around_a_figure_does_not_stand_under_it() -> None:
    around = _block(WHOLE, 160, 260, head=LEFT)  # its last lines are as wide as the page
    words = _block(RIGHT, 100, 150)
    assert mended([around, words]) == [0, 1]


def test_columns_that_overlap_by_a_little_are_columns() -> None:
    assert mended([_block((50, 300), 200, 300), _block((290, 545), 100, 190)]) == [0, 1]


def test_the_labels_of_a_drawing_keep_their_order() -> None:
    labels = [_block(LEFT, 1000 - number, 1000.5 - number) for number in range(201)]
    assert mended(labels) == list(range(201))
    assert mended(labels[:200]) != list(range(200))


BOXES = st.builds(
    lambda x, y, width, height: Standing(BBox(x, y, x + width, y + height), BBox(x, y, x + width, y + height)),
    *(st.integers(0, 400), st.integers(0, 700), st.integers(1, 200), st.integers(1, 100)),
)


@given(st.lists(BOXES, max_size=12))
def test_every_block_is_read_once_and_only_leaps_are_mended(blocks: list[Standing]) -> None:
    order = mended(blocks)
    assert sorted(order) == list(range(len(blocks)))
    assert leaps([block.box for block in blocks]) or order == sorted(order)


def test_a_title_that_is_written_last_comes_behind_the_title_over_it() -> None:
    boxes = [(320, 100, 580, 700), (40, 20, 200, 40), (40, 50, 200, 70), (40, 100, 300, 700), (40, 75, 200, 95)]
    order = mended([Standing(BBox(*box), BBox(*box)) for box in boxes])
    assert order.index(1) < order.index(2) < order.index(4) < order.index(3)
