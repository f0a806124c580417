"""Positions of pictures without a caption, by the text beside or around them."""

import pytest

from schemas.documents import Line
from schemas.geometry import BBox
from tasks.reading.picture_places import PicturePlace, TextBlock, place_pictures

LEFT, RIGHT = 72.0, 340.0


def _lines(*texts: str, x0: float = LEFT, y0: float, block: int = 0, width: float = RIGHT - LEFT) -> tuple[Line, ...]:
    """Return lines of one block, 14 pt apart; each but the last is full."""
    return tuple(
        Line(
            1,
            block,
            BBox(x0, y0 + 14 * row, x0 + (width if row < len(texts) - 1 else width / 2), y0 + 14 * row + 12),
            text,
            11,
            False,
        )
        for row, text in enumerate(texts)
    )


def _passage(*texts: str, x0: float = LEFT, y0: float, width: float = RIGHT - LEFT, is_heading: bool = False) -> TextBlock:
    lines = _lines(*texts, x0=x0, y0=y0, block=int(y0), width=width)
    box = BBox(x0, y0, x0 + width, lines[-1].bbox.y1)
    return TextBlock(box, () if is_heading else lines, is_heading)


def _order(pictures: list[BBox], passages: list[TextBlock], *, right_to_left: bool = False) -> list[str]:
    """Return passages (P0, P1) and pictures (a, b) as they are read; ``P0.2`` is what follows a cut before line 2."""
    positions = place_pictures(pictures, passages, right_to_left=right_to_left)
    read = [((number, 0), 1, f"P{number}") for number in range(len(passages))]
    for letter, position in zip("abcdefgh", positions, strict=False):
        read.append((position.at, 0, letter))
        if position.at[1]:
            read.append((position.at, 1, f"P{position.at[0]}.{position.at[1]}"))
    return [name for _, _, name in sorted(read, key=lambda entry: entry[:2])]


STEPS = [
    _passage(f"{number + 1}. Press the button until", "the lamp lights up.", y0=100 + 60.0 * number) for number in range(3)
]


def _beside(step: int, x0: float) -> BBox:
    return BBox(x0, 98 + 60.0 * step, x0 + 50, 130 + 60.0 * step)


@pytest.mark.parametrize("drawn", [(0, 1, 2), (2, 0, 1)])
def test_a_picture_right_of_a_step_follows_the_whole_step(drawn: tuple[int, ...]) -> None:
    positions = place_pictures([_beside(step, 400) for step in drawn], STEPS)
    assert [position.at for position in positions] == [(step + 1, 0) for step in drawn]
    assert {passage for passage, _ in positions[0].step} == {drawn[0]}


def test_a_picture_left_of_a_step_comes_before_it() -> None:
    assert _order([_beside(step, 10) for step in range(3)], STEPS) == ["a", "P0", "b", "P1", "c", "P2"]


def test_sides_are_mirrored_where_text_runs_from_right_to_left() -> None:
    pictures = [_beside(step, 400) for step in range(3)]
    assert _order(pictures, STEPS, right_to_left=True) == ["a", "P0", "b", "P1", "c", "P2"]


def test_a_picture_at_several_steps_comes_before_the_first_of_them() -> None:
    assert _order([BBox(400, 100, 480, 250)], STEPS) == ["a", "P0", "P1", "P2"]


def test_items_of_one_block_are_steps_of_their_own() -> None:
    block = _passage(
        "1. Open the cover of the pump and", "take it off.", "2. Take out the old filter and", "throw it away.", y0=100
    )
    assert _order([BBox(400, 100, 440, 124), BBox(400, 130, 440, 152)], [block]) == ["P0", "a", "P0.2", "b"]


def test_text_over_a_row_says_nothing_of_the_pictures_in_it() -> None:
    intro = _passage("The buttons of the remote control have the following use:", y0=85, width=460)
    note = _passage("All buttons light up when they are pressed.", y0=290, width=460)
    assert _order([_beside(step, 400) for step in range(3)], [intro, *STEPS, note]) == [
        "P0",
        "P1",
        "a",
        "P2",
        "b",
        "P3",
        "c",
        "P4",
    ]


def test_a_chart_with_a_title_stays_under_it_though_a_paragraph_is_level() -> None:
    paragraph = _passage(*["The share of people who say so has grown"] * 12, y0=100, width=200)
    title, source = _passage("Few say so", x0=320, y0=110, width=150), _passage("Source: survey", x0=320, y0=232, width=150)
    assert _order([BBox(320, 130, 470, 225)], [paragraph, title, source]) == ["P0", "P1", "a", "P2"]


def test_a_picture_between_two_paragraphs_of_its_column_is_read_between_them() -> None:
    column = [_passage(*["Words of the first column of the page"] * 4, y0=y0, width=200) for y0 in (100, 300)]
    second_column = [_passage(*["Words of the second column of the page"] * 18, x0=300, y0=100, width=200)]
    assert _order([BBox(80, 170, 250, 290)], [*column, *second_column]) == ["P0", "a", "P1", "P2"]


def test_a_picture_amid_a_row_is_between_its_words() -> None:
    name, use = _passage("Power", y0=100, width=60), _passage("Turns the device on and off", x0=260, y0=100, width=200)
    assert _order([BBox(160, 92, 220, 122)], [name, use]) == ["P0", "a", "P1"]


def test_pictures_side_by_side_are_in_one_gap_though_their_neighbours_differ() -> None:
    above, below = (
        _passage("Two ways lead there, and both are right:", y0=80, width=460),
        _passage("The first one", y0=215, width=120),
    )
    left_box, right = BBox(72, 104, 240, 206), BBox(260, 102, 450, 200)
    positions = place_pictures([left_box, right], [above, below])
    assert {position.at for position in positions} == {(1, 0)}


def test_a_number_alone_is_no_text_to_be_read_with() -> None:
    number, text = _passage("3", y0=92, width=10), _passage("Clean the sensor with compressed air.", y0=210)
    assert _order([BBox(72, 110, 300, 200)], [number, text]) == ["P0", "a", "P1"]
    position = place_pictures([BBox(72, 110, 300, 200)], [number, text])[0]
    assert {passage for passage, _ in position.step} == {1}


def test_a_short_line_over_an_indented_picture_heads_it() -> None:
    bullets = [_passage("Input format:", y0=100, width=60), _passage("Wrong input:", y0=130, width=60)]
    assert _order([BBox(200, 150, 400, 300)], bullets) == ["P0", "P1", "a"]


def test_what_is_never_cut_is_not_cut() -> None:
    table = TextBlock(BBox(72, 100, 500, 300))
    assert _order([BBox(510, 150, 560, 200), BBox(10, 150, 60, 200)], [table]) == ["b", "P0", "a"]


def test_pictures_of_a_page_without_text_are_at_its_end() -> None:
    assert place_pictures([BBox(0, 0, 10, 10)], []) == [PicturePlace((0, 0))]


def test_a_picture_in_the_second_column_stays_by_its_step_though_the_first_column_is_nearer_to_its_left() -> None:
    first = _passage(*["Words of the first column of the page"] * 12, y0=100, width=230)
    over = _passage(*["Words of the second column of the page"] * 4, x0=326, y0=100, width=230)
    step = _passage("Press the button until", "the lamp lights up.", x0=410, y0=190, width=140)
    assert _order([BBox(326, 185, 390, 225)], [first, over, step]) == ["P0", "P1", "a", "P2"]


def test_pictures_between_paragraphs_are_no_column_of_steps_because_one_beside_a_step_is_below_them() -> None:
    first = _passage(*["Words of the first column of the page"] * 20, y0=100, width=230)
    above, below = (_passage("Words of the second column.", x0=326, y0=y0, width=300) for y0 in (100, 200))
    step = _passage("Press the button until", "the lamp lights up.", x0=410, y0=320, width=140)
    pictures = [BBox(326, 120, 410, 190), BBox(326, 310, 390, 350)]
    assert _order(pictures, [first, above, below, step]) == ["P0", "P1", "a", "P2", "b", "P3"]


def test_of_two_pictures_between_the_same_words_each_goes_to_its_step() -> None:
    steps = [
        _passage("Press the button until", "the lamp lights up.", x0=72, y0=300, width=100),
        _passage("Turn the wheel until", "it stops by itself.", x0=410, y0=100, width=100),
    ]
    behind, before = place_pictures([BBox(190, 295, 250, 330), BBox(330, 95, 400, 130)], steps)
    assert behind.at == before.at == (1, 0)
    assert (behind.is_behind, before.is_behind) == (True, False)


def test_a_line_that_begins_with_a_quantity_continues_its_sentence() -> None:
    step = _passage("Tighten the screw with a torque of", "80 Nm. Never use oil for that.", y0=100)
    assert _order([_beside(0, 360)], [step]) == ["P0", "a"]
    items = _passage("1 Tighten the screw.", "2 Close the lid.", y0=100)
    assert _order([BBox(360, 112, 400, 130)], [items]) == ["P0", "a"]


def test_of_two_pictures_in_a_row_each_is_read_with_the_text_under_it_though_the_texts_begin_at_two_heights() -> None:
    left_passage = _passage("1. Queen takes", "2. Rook takes", "3. Check", x0=72, y0=230, width=180)
    right = _passage("1. Knight takes", "2. Pawn takes", "3. Castle", "4. Mate", x0=310, y0=216, width=180)
    pictures = [BBox(110, 100, 215, 205), BBox(350, 100, 455, 205)]
    assert _order(pictures, [left_passage, right]) == ["a", "P0", "b", "P1"]


def test_a_short_heading_over_the_first_of_two_pictures_heads_both() -> None:
    passages = [
        _passage("The pump is stopped before it is", "opened.", y0=60),
        _passage("The parts", y0=100, width=90, is_heading=True),
        _passage("Both parts are", "cleaned.", y0=250),
    ]
    assert _order([BBox(80, 120, 200, 220), BBox(250, 120, 330, 220)], passages) == ["P0", "P1", "a", "b", "P2"]


def test_a_picture_comes_before_the_words_on_it_though_text_under_it_is_near() -> None:
    title, first = _passage("Contents", y0=140, width=80), _passage("1 What is in the box", y0=180, width=140)
    under = _passage("2 Before you begin", y0=204, width=140)
    assert _order([BBox(0, 0, 500, 200)], [title, first, under]) == ["a", "P0", "P1", "P2"]
    assert _order([BBox(0, 0, 500, 130)], [title, first, under]) == ["a", "P0", "P1", "P2"]


def _read_with(picture: BBox, passages: list[TextBlock]) -> set[int]:
    [position] = place_pictures([picture], passages)
    return {passage for passage, _ in position.step}


def test_the_symbol_of_a_note_is_read_with_the_note_and_not_with_its_title_alone() -> None:
    before, title = STEPS[0], _passage("Warning", y0=180, width=60)
    text, after = (_passage("Keep the cover closed while the", "pump runs.", x0=140, y0=y0, width=300) for y0 in (204, 260))
    symbol = BBox(76, 205, 104, 233)
    assert _read_with(symbol, [before, title, text, after]) == {1, 2}
    assert _order([symbol], [before, title, text, after]) == ["P0", "P1", "a", "P2", "P3"]
    indented = _passage("Warning", x0=140, y0=190, width=60)
    assert _read_with(BBox(76, 186, 104, 205), [before, indented, text, after]) == {1}
    assert _read_with(BBox(76, 186, 104, 214), [before, indented, text, after]) == {1, 2}
    shouted, sentence = _passage("Warning !", y0=180, width=60), _passage("It runs on.", y0=180, width=60)
    assert _read_with(symbol, [before, shouted, text, after]) == {1, 2}
    assert _read_with(symbol, [before, sentence, text, after]) == {1}
