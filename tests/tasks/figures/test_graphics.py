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


def test_a_clipped_table_with_pictures_in_its_cells_is_a_table_and_its_pictures() -> None:
    frame, ys, xs = BBox(60, 90, 500, 320), [100, 170, 240, 310], [72, 232, 492]
    rules = [rule_at(xs[0], xs[-1], y, frame) for y in ys]
    rules += [box_at(x, ys[0], x + 0.5, ys[-1] + 0.5, frame=frame) for x in xs]
    icons = [Image(n, n, BBox(100, y + 10, 150, y + 60), 200, 200, (50, 0, 0, 50)) for n, y in enumerate(ys[:-1])]
    head_and_foot = [line_at(60, 20, "Toolbar"), line_at(60, 770, "Page 23")]
    for words in (ys[:-1], ys[1:2]):
        lines = [line_at(240, y + 10, "Print") for y in words]
        located = search(rules, [*head_and_foot, *lines], [frame], icons)
        assert {region.bbox for region in located.regions} == {icon.bbox for icon in icons}
        assert [table.bbox for table in located.tables] == [BBox(72, 100, 492.5, 310.5)]
    across = Image(9, 9, BBox(100, 110, 400, 160), 200, 200, (300, 0, 0, 50))
    (region,) = search(rules, [*head_and_foot, line_at(240, 260, "Print")], [frame], [*icons[1:], across]).regions
    assert region.bbox.height > 200, "a picture over a rule makes one picture of all"
