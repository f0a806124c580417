"""What a page holds as a whole: the order in which things are looked for."""

from schemas.documents import Kind
from schemas.drawings import Image
from schemas.geometry import BBox
from tests.tasks.figures.pages import PAGE, boxes_of, circles, line_at, rule_at, search


def _image(number: int, box: BBox) -> Image:
    return Image(number, number, box, 400, 400, (box.width, 0, 0, box.height))


def test_nothing_drawn_is_nothing_found() -> None:
    assert search([], [line_at(72, 100, "Text alone")]) == search([], [])
    assert search([rule_at(72, 540, 60), rule_at(72, 540, 740)], []).regions == ()


def test_an_image_of_the_whole_page_is_a_scan_and_does_not_swallow_the_pictures_on_it() -> None:
    photo = BBox(100, 100, 200, 200)
    regions = search([], [], images=[_image(0, PAGE), _image(1, photo)]).regions
    assert [(region.kind, region.bbox) for region in regions] == [(Kind.SCAN, PAGE), (Kind.RASTER, photo)]


def test_a_drawing_above_a_caption_is_captioned_and_the_other_drawing_is_found_without() -> None:
    figure, uncaptioned = BBox(100, 100, 200, 200), BBox(100, 500, 200, 600)
    caption = line_at(100, 210, "Figure 1: The pump")
    regions = search([*circles(figure), *circles(uncaptioned)], [caption]).regions
    assert {region.bbox: region.captioned for region in regions} == {figure: True, uncaptioned: False}


def test_a_table_among_pictures_is_no_picture() -> None:
    rules = [rule_at(100, 400, 400 + 20 * row) for row in range(4)]
    sides = [rule_at(x, x + 0.5, 400)._replace(bbox=BBox(x, 400, x + 0.5, 460)) for x in (100, 250, 400)]
    words = [line_at(x, 403 + 20 * row, "cell") for row in range(3) for x in (110, 260)]
    figure = BBox(100, 100, 200, 200)
    located = search([*rules, *sides, *circles(figure)], words)
    assert (boxes_of(located), len(located.tables)) == ([figure], 1)
