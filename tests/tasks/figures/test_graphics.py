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
