"""Which drawings and images are backgrounds, boxes and shadows."""

from schemas.documents import Line
from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from tests.tasks.figures.pages import box_at, boxes_of, line_at, search


def _bows(frame: BBox) -> list[Mark]:
    """Draw lines one in another, all of them cut off at the left and at the foot of the page."""
    bows = (BBox(0, frame.y0 + 6 * step, frame.x1 - 6 * step, 792) for step in range(10))
    return [Mark(bow, strokes=8, filled=False, white=False, frame=frame) for bow in bows]


def test_a_photograph_on_the_background_of_a_page_is_a_picture_and_the_background_is_none() -> None:
    frame, photograph = BBox(0, 0, 560, 640), BBox(350, 300, 540, 480)
    images = [
        Image(0, 0, frame, 560, 640, (560, 0, 0, 640)),
        Image(1, 1, photograph, 380, 360, (190, 0, 0, 180)),
    ]
    text = "A paragraph of running text that stands on the background, and goes on."
    lines = [line_at(20, 40 + 12 * row, text, block=row // 4) for row in range(48)]
    assert boxes_of(search([], lines, [frame], images)) == [photograph]
    assert boxes_of(search([], [], [frame], images)) == [frame]


def test_the_band_that_a_heading_is_written_on_is_a_background_and_an_image_with_labels_is_not() -> None:
    image = Image(0, 0, BBox(40, 100, 340, 130), 600, 60, (300, 0, 0, 30))
    heading = Line(1, 1, BBox(60, 105, 320, 125), "How the pump is mounted", 20.0, bold=True)
    (band,) = search([], [heading], images=[image]).regions
    (labelled,) = search([], [line_at(60, 110, "A"), line_at(200, 110, "B")], images=[image]).regions
    assert (band.background, labelled.background) == (True, False)


def test_the_shadow_of_a_heading_is_a_background_whole_and_the_picture_under_it_is_not() -> None:
    def image(number: int, box: BBox) -> Image:
        return Image(number, number, box, 400, 100, (box.width, 0, 0, box.height))

    heading = Line(1, 1, BBox(60, 40, 420, 90), "How a pump is mounted", 44.0, bold=True)
    pieces = [BBox(40, 23, 300, 120), BBox(250, 23, 400, 120), BBox(370, 23, 440, 120)]
    picture = BBox(82, 118, 438, 391)
    regions = search([], [heading], images=[image(n, box) for n, box in enumerate([*pieces, picture])]).regions
    assert {region.bbox: region.background for region in regions if not region.background} == {picture: False}
    assert all(any(region.bbox & piece == piece for region in regions if region.background) for piece in pieces)


def test_a_drawing_that_bleeds_off_the_page_is_no_picture_but_the_image_in_it_is() -> None:
    frame = BBox(0, 500, 150, 792)
    box = BBox(60, 600, 140, 660)
    image = Image(0, 0, box, 160, 120, (80, 0, 0, 60))
    inside = [mark._replace(bbox=mark.bbox.grown(-20)) for mark in _bows(frame)]
    assert boxes_of(search(_bows(frame), [], [frame])) == []
    assert boxes_of(search(_bows(frame), [], [frame], [image])) == [box]
    assert len(boxes_of(search(inside, [], [frame]))) == 1


def test_a_drawing_that_bleeds_is_kept_where_it_shows_an_image_under_it() -> None:
    behind = Image(0, 0, BBox(0, 480, 612, 792), 1224, 624, (612, 0, 0, 312))
    lines = [line_at(300, 500 + 12 * row, "A line of the text that stands on the image.") for row in range(9)]
    frame = BBox(0, 500, 250, 792)
    assert any(boxes_of(search(_bows(frame), lines, [frame], [behind])))


def test_words_with_a_rule_at_their_side_are_no_picture() -> None:
    frame = BBox(77, 479, 555, 660)
    lines = [line_at(96, 490 + 20 * row, "Press officer 202.419") for row in range(8)]
    rules = [box_at(83, 489 + 20 * row, 83.5, 509 + 20 * row, frame=frame) for row in range(8)]
    assert boxes_of(search(rules, lines, [frame])) == []
