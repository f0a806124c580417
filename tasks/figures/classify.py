"""Classify a picture by its role: content, icon, decoration, background, or scan; by its page, then by the whole document.

Counts below are of 90 documents: 2,758 pages with 1,845 pictures.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import Kind, Line, Page, Placement, Role, largest
from schemas.drawings import EDGE_SHARE, Image
from schemas.geometry import BBox
from schemas.ports import PdfPage
from tasks.figures.parts import PictureRegion

CAPTIONED = "has a caption"
"""The reason of a picture that is content because of its caption; such a picture never loses its tag."""

ICON_PT = 20.0
"""Maximum side of a picture without a caption that is always an icon. 3 pictures are that small; 32 of up to 30 pt may be
content too, such as a button.
"""

_SPECK_PT = 4.0
"""Minimum side of a picture; thinner ones are rules or dots (15 pictures). 12 of 4 to 5 pt are decoration or content."""

_SCAN_WORDS = 30
"""Words of text on a page from which on the picture behind them is its background, not a scan. Of 93 backgrounds, 2 have fewer
than 40 words and 12 fewer than 100.
"""

_SPELLED_SHARE = 0.5
"""Minimum share of a picture with invisible words behind it that is those words: 96 pictures."""

_SMALL_SHARE = 0.02
"""Maximum share of its page that a small picture has: 321 of 952 pictures that are alone."""


def role_of(region: PictureRegion, lines: Sequence[Line], hidden: Sequence[Line]) -> tuple[Role, str]:
    """Return the role of a picture on its page, and the reason."""
    if region.kind is Kind.SCAN:
        words = sum(len(line.text.split()) for line in lines)
        if words >= _SCAN_WORDS:
            return Role.BACKGROUND, f"covers the page, which has {words} words of text"
        return Role.PAGE_SCAN, "covers the page, which has next to no text"
    box = region.bbox
    if min(box.width, box.height) < _SPECK_PT:
        return Role.DECORATIVE, "thinner than a letter"
    if region.background:
        return Role.DECORATIVE, "a background of words"
    if not region.captioned and _shows_words(box, hidden):
        return Role.DECORATIVE, "words set as a picture, which the page holds as text too"
    if region.inline:
        return Role.ICON, "stands in a line of text"
    if max(box.width, box.height) <= ICON_PT and not region.captioned:
        return Role.ICON, f"at most {ICON_PT:.0f} pt"
    return Role.CONTENT, CAPTIONED if region.captioned else "stands by itself"


def role_of_gradient(box: BBox, page: Page) -> tuple[Role, str]:
    """Return the role of an area filled with only a gradient, and the reason."""
    is_icon = is_small(box, page) and min(box.width, box.height) > ICON_PT
    return Role.ICON if is_icon else Role.DECORATIVE, "a gradient by itself"


def is_gradient(image: Image | None, page: PdfPage) -> bool:
    """Return whether a picture is only an area filled with a gradient: a rule, a band, an ornament, a letter.

    A page has those as images of a pixel per point without embedded bytes.
    """
    if image is None or image.matrix != (image.width, 0, 0, image.height):
        return False
    return page.embedded(image).stream() is None


def is_small(box: BBox, page: Page) -> bool:
    """Return whether a picture covers very little of its page."""
    return box.area <= _SMALL_SHARE * page.width_pt * page.height_pt


def _shows_words(box: BBox, hidden: Sequence[Line]) -> bool:
    """Return whether a picture shows the words behind it: a heading in a font that could not be embedded."""
    # A line may be one of several such pictures beside each other.
    behind = sum((box & line.bbox).area for line in hidden if box.y0 <= line.bbox.centre_y <= box.y1)
    return behind >= _SPELLED_SHARE * box.area


_REPEATED_PAGES = 3
"""Pages that may have a picture that is not furniture, in a document of any length ..."""

_REPEATED_SHARE = 0.05
"""... and the share of all pages. All 18 pictures that are furniture by their position are on 5 to 20 pages."""

_SAME_POSITION_PT = 4.0
"""Step to which sides are rounded before they are compared."""

_HEAD_SHARE = 0.2
"""Share of a first page, from the top, in which a logo may be if there is no title."""

_LOGO_SHARE = 0.03
"""Maximum share of its page that a logo covers; the largest of 11 covers 0.02."""


def without_repeats(placements: Sequence[Placement], pages: Sequence[Page]) -> list[Placement]:
    """Return placements with their final role: those on many pages are logos, bands, page furniture or ornaments.

    A picture at the same position isn't content unless it has a caption; nor is one at the edge of a rotated page, or one of
    another size. The band above or below the text may have another chapter's name on each page. A small picture of one size
    without a caption is an icon wherever it is: a quotation mark, a warning symbol.
    """
    by_number = {page.page: page for page in pages}
    most_pages = max(_REPEATED_PAGES, _REPEATED_SHARE * len(pages))
    at_position: dict[tuple[object, ...], set[int]] = defaultdict(set)
    bands: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for placement in placements:
        if placement.figure_id is not None:
            at_position[placement.figure_id, *_position(placement.bbox)].add(placement.page)
        if _is_band(placement, by_number[placement.page]):
            bands[_position(placement.bbox)].add(placement.page)
    # A figure's most frequent position tells of its placements at the edge of other pages, too.
    at_one_position: dict[object, int] = defaultdict(int)
    for (figure_id, *_), on_pages in at_position.items():
        at_one_position[figure_id] = max(at_one_position[figure_id], len(on_pages))

    def final(placement: Placement) -> Placement:
        page, name, box = by_number[placement.page], placement.figure_id, placement.bbox
        if placement.reason == CAPTIONED:  # a figure of a manual in several languages
            return placement
        is_in_text = _has_weak_claim(placement) and _is_within(box, page) and not is_small(box, page)
        if (count := len(at_position[name, *_position(box)])) > most_pages and not is_in_text:
            reason = f"at the same place of {count} pages"
            if placement.kind is Kind.SCAN:  # a template, which has no figure
                return replace(placement, figure_id=None, raw_sha1=None, role=Role.BACKGROUND, reason=reason)
            return replace(placement, role=Role.DECORATIVE, reason=reason)
        if (count := at_one_position[name]) > most_pages and _is_at_edge(box, page):
            return replace(placement, role=Role.DECORATIVE, reason=f"at the edge, as on {count} other pages")
        if _is_band(placement, page) and (count := len(bands[_position(box)])) > most_pages:
            return replace(placement, role=Role.DECORATIVE, reason=f"at the edge of {count} pages, one like the other")
        return placement

    return [final(placement) for placement in placements]


def without_logos(placements: Sequence[Placement], pages: Sequence[Page], lines: Sequence[Line]) -> list[Placement]:
    """Return placements, with small pictures above the title of a first page, as in a letterhead, as decoration.

    A stamp may be larger than the title, and above everything; nor are pictures in the margin figures of the text.
    """
    words = [line for line in lines if line.page == 1 and line.inside is None]
    if len(pages) < 2 or not words:
        return list(placements)
    title = min(line.bbox.y0 for line in largest(words))
    lowest, area = min(title, _HEAD_SHARE * pages[0].height_pt), _LOGO_SHARE * pages[0].width_pt * pages[0].height_pt
    return [
        replace(placement, role=Role.DECORATIVE, reason="over the title of the first page, or in its margin")
        if placement.page == 1
        and _has_weak_claim(placement)
        and (placement.bbox.y1 <= lowest or _is_at_edge(placement.bbox, pages[0]))
        and placement.bbox.area <= area
        else placement
        for placement in placements
    ]


def _has_weak_claim(placement: Placement) -> bool:
    """Return whether a placement is content only by default."""
    return placement.role is Role.CONTENT and placement.reason != CAPTIONED


def _is_band(placement: Placement, page: Page) -> bool:
    """Return whether a picture is where pages have their running head and foot."""
    box, margin = placement.bbox, EDGE_SHARE * page.height_pt
    return (box.y1 <= margin or box.y0 >= page.height_pt - margin) and _has_weak_claim(placement)


def _is_at_edge(box: BBox, page: Page) -> bool:
    return (box & _inside(page)).area == 0


def _is_within(box: BBox, page: Page) -> bool:
    return box & _inside(page) == box


def _inside(page: Page) -> BBox:
    across, down = EDGE_SHARE * page.width_pt, EDGE_SHARE * page.height_pt
    return BBox(across, down, page.width_pt - across, page.height_pt - down)


def _position(box: BBox) -> tuple[int, ...]:
    return tuple(round(side / _SAME_POSITION_PT) for side in box)
