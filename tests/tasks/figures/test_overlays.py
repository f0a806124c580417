"""What becomes of images and drawings that lie over each other."""

from schemas.documents import Kind
from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from tests.tasks.figures.pages import box_at, circles, line_at, search

PHOTO = BBox(100, 100, 300, 250)


def _image(box: BBox = PHOTO, number: int = 0) -> Image:
    return Image(number, number, box, 400, 300, (box.width, 0, 0, box.height))


def test_an_image_with_a_border_stays_that_image() -> None:
    border = Mark(PHOTO.grown(1), strokes=0, filled=False, white=False)
    (region,) = search([border], [], images=[_image()]).regions
    assert (region.image, region.bbox) == (_image(), PHOTO)


def test_an_image_with_arrows_drawn_over_it_is_one_picture_with_them() -> None:
    arrow = Mark(BBox(200, 200, 310, 260), strokes=3, filled=False, white=False)
    (region,) = search([arrow], [], images=[_image()]).regions
    assert (region.image, region.kind, region.bbox) == (None, Kind.COMPOSITE, PHOTO | arrow.bbox)


def test_an_image_with_a_few_words_on_it_is_drawn_with_them_and_one_under_a_text_is_not() -> None:
    label = line_at(120, 120, "Pump")
    text = [line_at(102, 102 + 12 * row, "A line of the text on the image.") for row in range(11)]
    (labelled,) = search([], [label], images=[_image()]).regions
    (behind,) = search([], text, images=[_image()]).regions
    assert (labelled.image, labelled.kind) == (None, Kind.COMPOSITE)
    assert behind.image == _image()


def test_an_image_in_a_drawing_is_a_piece_of_it_and_one_on_a_panel_of_text_is_a_picture() -> None:
    outer, inner = BBox(80, 80, 420, 420), BBox(200, 200, 260, 260)
    (composite,) = search(circles(outer), [], images=[_image(inner)]).regions
    assert (composite.kind, composite.bbox) == (Kind.COMPOSITE, outer)
    text = [line_at(90, 100 + 12 * row, "A line of the text beside it, in a box with a border.") for row in range(24)]
    shapes = [box_at(*outer.grown(-by)) for by in (0, 1, 2, 3)]
    assert [region.bbox for region in search(shapes, text, images=[_image(inner)]).regions] == [inner]


def test_pictures_of_which_one_lies_in_the_other_are_one() -> None:
    inset = BBox(250, 200, 290, 240)
    (region,) = search([], [], images=[_image(), _image(inset, 1)]).regions
    assert (region.bbox, region.kind) == (PHOTO, Kind.COMPOSITE)
    apart = BBox(290, 200, 340, 240)
    assert len(search([], [], images=[_image(), _image(apart, 1)]).regions) == 2
