"""Which clips hold a placed graphic."""

from schemas.documents import Kind
from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from tests.tasks.figures.pages import box_at, line_at, rule_at, search, text_box


def test_pictures_in_a_text_box_are_one_without_its_title_and_source() -> None:
    frame, lines = text_box()
    images = [Image(n, n, BBox(x, 200, x + 180, 380), 360, 360, (180, 0, 0, 180)) for n, x in enumerate((110, 305))]
    rules = [rule_at(100, 500, 150, frame), rule_at(100, 500, 419, frame)]
    (region,) = search(rules, lines, [frame], images).regions
    assert (region.bbox, region.kind) == (BBox(110, 200, 485, 380), Kind.COMPOSITE)


def test_the_clip_of_a_printed_page_is_no_picture() -> None:
    frame = BBox(18, 18, 594, 700)
    columns = [
        line_at(x, 60 + 14 * row, text) for row in range(30) for x, text in ((40, "Cash"), (300, "120"), (400, "130"))
    ]
    shaded = [box_at(36, 59 + 14 * row, 560, 71 + 14 * row, frame=frame) for row in range(0, 30, 2)]
    assert search(shaded, columns, [frame]).regions == ()
    bevelled = Mark(BBox(18, 122, 594, 122.7), strokes=2, filled=True, white=False, frame=frame)
    links = [rule_at(36, 80, y, frame) for y in (31, 72, 90)]
    assert search([bevelled, *links], columns[:3], [frame]).regions == ()


def test_two_logos_in_a_clip_around_the_page_are_no_picture_of_all_between_them() -> None:
    frame = BBox(18, 18, 594, 700)
    lines = [line_at(40, 60 + 14 * row, "Cash") for row in range(30)]
    logos = [Image(n, n, BBox(x, 20, x + 30, 50), 120, 120, (30, 0, 0, 30)) for n, x in enumerate((20, 560))]
    assert all(region.bbox.height <= 30 for region in search([], lines, [frame], logos).regions)
    panels = [Image(n, n, BBox(x, 200, x + 180, 380), 360, 360, (180, 0, 0, 180)) for n, x in enumerate((110, 305))]
    (region,) = search([], [line_at(120, 400, "Cash")], [frame], panels).regions
    assert region.bbox.y1 > 400, "labels of a placed graphic belong to it"
