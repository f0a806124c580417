"""The numbers that point into a figure, and the list that explains them."""

from schemas.documents import Line
from schemas.geometry import BBox
from tasks.figures.anchor import callouts, find_keys, match_keys


def _line(text: str, x0: float, y0: float, *, block: int = 0) -> Line:
    return Line(1, block, BBox(x0, y0, x0 + 6 * len(text), y0 + 12), text, 11, False)


def _key(*texts: str, y0: float = 300) -> list[Line]:
    return [_line(text, 72, y0 + 16 * number, block=int(y0)) for number, text in enumerate(texts)]


PARTS = ("1. Paper width adjustment", "2. Roll holder pin", "3. Low paper sensor", "4. Status LED")


def test_numbers_alone_on_a_line_are_callouts() -> None:
    assert callouts(["1", "(2)", "3.", "Power"]) == {"1", "2", "3"}


def test_an_axis_and_page_numbers_are_none() -> None:
    assert not callouts(["0", "1", "2", "3"])
    assert not callouts(["1", "2"])


def test_a_list_in_turn_is_a_key_with_its_wrapped_lines() -> None:
    lines = [
        *_key("1. Paper width adjustment,", "which is a wheel", "2. Roll holder pin", "3. Sensor"),
        _line("Other words.", 72, 500, block=9),
    ]
    (key,) = find_keys(lines)
    assert key.names == {"1", "2", "3"}
    assert [line.text for line in key.lines] == [line.text for line in lines[:4]]


def test_numbers_and_words_may_be_lines_of_their_own() -> None:
    lines = [
        line
        for number in (1, 2, 3)
        for line in (
            _line(f"{number}", 72, 300 + 16.0 * number, block=number),
            _line("Valve of the pump", 100, 300 + 16.0 * number, block=number),
        )
    ]
    (key,) = find_keys(lines)
    assert len(key.lines) == 6


def test_a_key_goes_to_the_figure_whose_callouts_it_names() -> None:
    keys = find_keys([*_key(*PARTS)])
    figures = {7: (BBox(0, 0, 300, 250), frozenset("1234")), 8: (BBox(0, 600, 300, 700), frozenset("ABCD"))}
    assert {number: key.names for number, key in match_keys(figures, keys).items()} == {7: frozenset("1234")}
