"""Which drawings without a caption are pictures."""

from schemas.geometry import BBox
from tests.tasks.figures.pages import boxes_of, circles, search


def test_small_symbols_of_many_strokes_are_pictures_and_a_line_of_letters_drawn_as_curves_is_none() -> None:
    symbol, letters = BBox(72, 100, 94, 122), BBox(72, 200, 280, 222)
    assert boxes_of(search([*circles(symbol), *circles(letters)], [])) == [symbol]
