"""Recognise drawings and images that aren't pictures: backgrounds, boxes and shadows of words, and decoration."""

from collections.abc import Sequence

from schemas.documents import Line, lines_in
from schemas.drawings import Mark
from schemas.geometry import BBox, distance, overlap, union
from tasks.figures.parts import (
    BORDER_PT,
    MOST_LABEL_CHARACTERS,
    PANEL_GAP_PT,
    SYMBOL_PT,
    TOUCH_PT,
    PageText,
    Part,
    PictureRegion,
    clusters,
    mostly_within,
)

FULL_WIDTH_SHARE = 0.9
"""Minimum share of a note's width that its shades have."""
BLEED_SHARE = 0.5
"""Share of a drawing's marks cut by the page's edge from which on it bleeds. Of 2,191 pages none change at 0.335, 5 at 0.75
(diagrams cut by a slide's edge are found, and so are pieces of ornaments).
"""
COVERED_SHARE = 0.5
"""Share of a bleeding drawing on an image of the page from which on it is kept."""
MOST_PARAGRAPH_LINES = 6
"""Maximum lines of paragraphs in a placed graphic: with more it is a background. Of 2,191 pages 2 change at 5 (clipped tables
of notes are lost), 4 at 7 (text boxes become pictures).
"""
MOST_HEADING_LINES = 3
"""Maximum lines on the background of a heading."""
HEADING_SHARE = 0.35
"""Minimum share of a background that the words of a heading cover. Of 2,191 pages 9 change at 0.234 (small images with a name
on them are lost), 18 at 0.525 (bands of headings become pictures).
"""


def is_note_background(part: Part, lines: Sequence[Line], pictures: Sequence[PictureRegion]) -> bool:
    """Return whether a drawing is the background of a listing or a note: shaded from edge to edge, with a border at most.

    A symbol at its side, as of a warning, is ignored.
    """
    box = part.bbox
    marks = _without_symbol(part.marks, box)
    if any(mark.strokes for mark in marks):
        return False
    core = box.grown(-BORDER_PT)
    # What stays at the edge is the border, which need not be a shade.
    inner = [mark for mark in marks if overlap(mark.bbox, core)]
    if not inner or not all(mark.filled and mark.bbox.width >= FULL_WIDTH_SHARE * box.width for mark in inner):
        return False
    if any(mostly_within(picture.bbox, box) for picture in pictures):
        return False
    return any(box.has_middle_of(line.bbox) for line in lines)


def _without_symbol(marks: Sequence[Mark], panel: BBox) -> Sequence[Mark]:
    """Remove the small marks of a note that together make a symbol at its left or its right."""
    small = [mark for mark in marks if max(mark.bbox.width, mark.bbox.height) <= SYMBOL_PT]
    if not small:
        return marks
    box = union(mark.bbox for mark in small)
    at_side = box.x1 <= panel.x0 + 2 * SYMBOL_PT or box.x0 >= panel.x1 - 2 * SYMBOL_PT
    if max(box.width, box.height) > SYMBOL_PT or not at_side:
        return marks
    return [mark for mark in marks if mark not in small]


def without_bleed(part: Part, page: BBox, images: Sequence[PictureRegion]) -> list[Part]:
    """Remove a drawing that bleeds off the page, as a page's background does; the pictures in it are kept.

    A figure ends within the page; most pieces of a pattern that bleeds are cut off at the edge. A drawing over an image of the
    page may be the visible part of that image, and is kept.
    """
    picture_boxes = [picture.bbox for picture in part.images]
    covered = COVERED_SHARE * part.bbox.area
    # Images that the drawing holds don't count: the one that it may show must be another.
    if any((image.bbox & part.bbox).area >= covered for image in images if image.bbox not in picture_boxes):
        return [part]
    inside = page.grown(-TOUCH_PT)
    cut = sum(not inside.contains(mark.bbox) for mark in part.marks)
    if not part.marks or cut < BLEED_SHARE * len(part.marks):
        return [part]
    groups = clusters(part.images, lambda first, second: distance(first.bbox, second.bbox) <= PANEL_GAP_PT)
    return [Part(union(picture.bbox for picture in group), (), tuple(group)) for group in groups]


def without_paragraphs(part: Part, text: PageText) -> list[Part]:
    """Remove a clipped background of paragraphs; the pictures on it beside them are kept."""
    if not part.framed or part.marks or len(lines_in(part.bbox, text.body)) <= MOST_PARAGRAPH_LINES:
        return [part]
    pictures: list[Part] = []
    for picture in part.images:
        inner = lines_in(picture.bbox, text.lines)
        if sum(len(line.text) for line in inner) < MOST_LABEL_CHARACTERS and text.running.isdisjoint(inner):
            pictures.append(Part(picture.bbox, (), (picture,)))
    return pictures


def is_heading_background(parts: Sequence[Part], lines: Sequence[Line]) -> bool:
    """Return whether images are filled by a line or two, as the band of a heading or a button."""
    if any(not part.images or part.strokes for part in parts):
        return False
    box = union(part.bbox for part in parts)
    # A line may extend beyond the sides of its background.
    words = [line.bbox for line in lines if line.bbox.gap_x(box) < 0 and box.y0 <= line.bbox.centre_y <= box.y1]
    worded = sum((word & box).area for word in words)
    return 0 < len(words) <= MOST_HEADING_LINES and worded >= HEADING_SHARE * box.area
