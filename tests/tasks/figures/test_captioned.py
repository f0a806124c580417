"""Which parts belong to a captioned picture."""

from schemas.geometry import BBox
from tests.tasks.figures.pages import boxes_of, circles, line_at, rule_at, search


def test_a_logo_at_the_foot_of_the_page_belongs_to_no_caption_that_has_a_figure() -> None:
    figure, logo = BBox(100, 560, 300, 690), BBox(100, 735, 130, 765)
    caption = line_at(100, 700, "Figure 1: The pump")
    captioned_by_box = {
        region.bbox: region.captioned for region in search([*circles(figure), *circles(logo)], [caption]).regions
    }
    assert captioned_by_box == {figure: True, logo: False}
    assert search(circles(logo), [caption]).regions[0].captioned


def test_the_rule_of_a_running_header_is_no_part_of_the_figure_under_it() -> None:
    figure = BBox(100, 80, 300, 200)
    hits = search([*circles(figure), rule_at(72, 540, 60)], [line_at(100, 210, "Figure 1: The pump")])
    assert boxes_of(hits) == [figure]


def test_running_text_between_a_drawing_and_a_caption_parts_them() -> None:
    figure = BBox(100, 80, 300, 200)
    text = line_at(100, 220, "A paragraph that is long enough to be one of running text.")
    (region,) = search(circles(figure), [text, line_at(100, 250, "Figure 1: The pump")]).regions
    assert not region.captioned
