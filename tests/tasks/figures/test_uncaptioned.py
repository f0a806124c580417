"""Which drawings without a caption are pictures."""

from schemas.geometry import BBox
from tests.tasks.figures.pages import boxes_of, circles, search


def test_a_drawing_of_20_points_is_a_picture_and_a_lower_one_is_none() -> None:
    symbol, letters = BBox(72, 100, 94, 122), BBox(72, 200, 280, 218)
    assert boxes_of(search([*circles(symbol), *circles(letters)], [])) == [symbol]
