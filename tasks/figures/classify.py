"""Classify a picture by its role on the page: content, icon, decoration, background, or scan of the page.

Counts below are of 90 documents: 2,758 pages with 1,845 pictures.
"""

from collections.abc import Sequence

from schemas.documents import Kind, Line, Page, Role
from schemas.drawings import Image
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
    behind = sum((box & line.bbox).area for line in hidden if box.y0 <= (line.bbox.y0 + line.bbox.y1) / 2 <= box.y1)
    return behind >= _SPELLED_SHARE * box.area
