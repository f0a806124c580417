"""Pictures that the rest of their document shows to be page furniture, ornaments or logos."""

from collections.abc import Sequence

import pytest

from schemas.documents import Kind, Line, Page, Placement, Role
from schemas.geometry import BBox
from tasks.figures.classify import CAPTIONED, without_logos, without_repeats

BOX = BBox(150, 200, 350, 300)
LOGO = BBox(450, 30, 510, 70)


def _pages(count: int) -> list[Page]:
    return [Page(number, 595, 842, 0, 100) for number in range(1, count + 1)]


def _placed(page: int, bbox: BBox, figure: str | None = "logo", reason: str = "stands by itself") -> Placement:
    return Placement(page, page, bbox, figure, Kind.RASTER, Role.CONTENT, reason)


def _moved(box: BBox, across: float, down: float) -> BBox:
    return BBox(box.x0 + across, box.y0 + down, box.x1 + across, box.y1 + down)


def _roles(placements: Sequence[Placement]) -> list[Role]:
    return [placement.role for placement in placements]


@pytest.mark.parametrize(("pages", "role"), [(3, Role.CONTENT), (4, Role.DECORATIVE)])
def test_a_picture_at_the_same_position_on_many_pages_is_decorative(pages: int, role: Role) -> None:
    logos = [_placed(number, _moved(LOGO, 0.4 * number, 0)) for number in range(1, pages + 1)]
    page_figures = [_placed(number, BOX, f"figure {number}") for number in range(1, pages + 1)]
    assert _roles(without_repeats([*logos, *page_figures], _pages(pages))) == [role] * pages + [Role.CONTENT] * pages


def test_the_figure_of_a_manual_in_several_languages_keeps_its_captions() -> None:
    figures = [_placed(number, BOX, reason=CAPTIONED) for number in range(1, 7)]
    assert _roles(without_repeats(figures, _pages(6))) == [Role.CONTENT] * 6


def test_the_same_picture_in_the_text_of_pages_in_several_languages_is_content_without_a_caption() -> None:
    assert _roles(without_repeats([_placed(number, BOX) for number in range(1, 7)], _pages(6))) == [Role.CONTENT] * 6


def test_a_longer_document_may_repeat_a_picture_more_often() -> None:
    logos = [_placed(number, LOGO) for number in range(1, 6)]
    assert _roles(without_repeats(logos, _pages(99))) == [Role.DECORATIVE] * 5
    assert _roles(without_repeats(logos, _pages(100))) == [Role.CONTENT] * 5


def test_a_scan_at_the_same_position_on_many_pages_is_a_background() -> None:
    scans = [
        Placement(number, number, BBox(0, 0, 595, 842), "paper", Kind.SCAN, Role.PAGE_SCAN, "") for number in range(1, 5)
    ]
    decided = without_repeats(scans, _pages(4))
    assert [(placement.role, placement.figure_id) for placement in decided] == [(Role.BACKGROUND, None)] * 4


def test_a_picture_at_different_positions_on_many_pages_is_content() -> None:
    pictures = [_placed(number, _moved(BOX, 0, 60 * number)) for number in range(1, 6)]
    assert _roles(without_repeats(pictures, _pages(5))) == [Role.CONTENT] * 5


def test_a_band_at_the_edge_of_many_pages_is_decorative_whatever_is_written_on_it() -> None:
    bands = [_placed(number, BBox(0, 11, 576, 31), f"band {number}") for number in range(1, 6)]
    captioned = _placed(6, BBox(0, 11, 576, 31), "figure", CAPTIONED)
    decided = _roles(without_repeats([*bands, captioned], _pages(6)))
    assert decided == [Role.DECORATIVE] * 5 + [Role.CONTENT]


def test_pictures_without_pixels_are_compared_by_nothing() -> None:
    pictures = [_placed(number, BOX, None) for number in range(1, 6)]
    assert _roles(without_repeats(pictures, _pages(5))) == [Role.CONTENT] * 5


def _line(text: str, bbox: BBox, size: float) -> Line:
    return Line(1, 0, bbox, text, size, bold=False)


def test_a_logo_over_the_title_of_the_first_page_is_decorative_and_a_picture_under_it_is_not() -> None:
    title = _line("The pump and its valves", BBox(72, 108, 350, 136), 24)
    over, under = BBox(400, 90, 540, 105), BBox(172, 140, 312, 168)
    placements = [_placed(1, over), _placed(1, under), _placed(1, over, reason=CAPTIONED), _placed(2, over)]
    assert _roles(without_logos(placements, _pages(2), [title])) == [Role.DECORATIVE, *[Role.CONTENT] * 3]
    assert without_logos(placements, _pages(1), [title]) == placements, "a document of one page has no letterhead"
    assert without_logos(placements, _pages(2), []) == placements


def test_a_picture_too_large_for_a_logo_stays_content_over_a_title() -> None:
    title = _line("The pump and its valves", BBox(72, 300, 350, 330), 24)
    assert _roles(without_logos([_placed(1, BBox(72, 90, 520, 160))], _pages(2), [title])) == [Role.CONTENT]


def test_a_logo_in_the_margin_of_the_first_page_is_decorative_whatever_was_stamped_over_it() -> None:
    stamp = _line("EFiled: Jan 14", BBox(300, 18, 390, 34), 14)
    margin, text = BBox(75, 40, 130, 65), BBox(75, 90, 130, 115)
    assert _roles(without_logos([_placed(1, margin), _placed(1, text)], _pages(2), [stamp])) == [
        Role.DECORATIVE,
        Role.CONTENT,
    ]


def test_a_logo_at_the_edge_of_a_page_of_another_size_is_decorative_too_and_one_in_its_text_is_not() -> None:
    pages = [*_pages(5), Page(6, 842, 595, 0, 100)]
    logos = [_placed(number, LOGO) for number in range(1, 6)]
    last_page_images = [_placed(6, BBox(760, 20, 800, 50)), _placed(6, BBox(200, 200, 420, 340))]
    assert _roles(without_repeats([*logos, *last_page_images], pages)) == [Role.DECORATIVE] * 6 + [Role.CONTENT]
