"""Find drawings and images that are no pictures: backgrounds, boxes and shadows of words, and what bleeds off the page."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import Line
from schemas.drawings import RULE_PT, Mark
from schemas.geometry import BBox, distance, gap, overlap, union
from tasks.figures.parts import BORDER_PT, TOUCH_PT, PageText, Part, Region, clusters, is_rounded_box, mostly_within

FULL_WIDTH_SHARE = 0.9
SYMBOL_PT = 26.0
SYMBOL_INSET_PT = 2 * SYMBOL_PT
BLEED_SHARE = 0.5
COVERED_SHARE = 0.5
SCATTERED_PT = 36.0
MOST_PARAGRAPH_LINES = 6
MOST_LABEL_CHARACTERS = 200
MOST_HEADING_LINES = 3
HEADING_SHARE = 0.35
SHADOW_WORDS_SHARE = 0.25
SHADOW_SHARE = 0.25


def is_note_background(part: Part, lines: Sequence[Line], pictures: Sequence[Region]) -> bool:
    """Return whether a drawing is the background of a listing or a note: shaded from edge to edge, with a border at most.

    A symbol at its side, as of a warning, is left aside.
    """
    if not any(mark.filled for mark in part.marks):
        return False
    box = part.bbox
    marks = _without_symbol(part.marks, box)
    if any(mark.strokes for mark in marks):
        return False
    core = box.grown(-BORDER_PT)
    inner = [mark for mark in marks if overlap(mark.bbox, core)]
    if not inner or not all(mark.filled and mark.bbox.width >= FULL_WIDTH_SHARE * box.width for mark in inner):
        return False
    if any(mostly_within(picture.bbox, box) for picture in pictures):
        return False
    return any(box.has_middle_of(line.bbox) for line in lines)


def _without_symbol(marks: Sequence[Mark], panel: BBox) -> Sequence[Mark]:
    """Leave out the small marks of a note where together they make a symbol at its left or its right."""
    small = [mark for mark in marks if max(mark.bbox.width, mark.bbox.height) <= SYMBOL_PT]
    if not small:
        return marks
    box = union(mark.bbox for mark in small)
    at_side = box.x1 <= panel.x0 + SYMBOL_INSET_PT or box.x0 >= panel.x1 - SYMBOL_INSET_PT
    if max(box.width, box.height) > SYMBOL_PT or not at_side:
        return marks
    return [mark for mark in marks if mark not in small]


def is_box_round_words(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether all that is drawn is round words: rules along their sides, as an address has, or a box with round corners.

    Rules over and under words alone may be those of a small table, whose look shows more than its words one by one.
    """
    box = part.bbox
    if part.images or not any(box.has_middle_of(line.bbox) for line in lines):
        return False
    if all(is_rounded_box(mark, box) for mark in part.marks):
        return True
    core = box.grown(-BORDER_PT)
    beside = [mark for mark in part.marks if mark.is_rule and not overlap(mark.bbox, core)]
    return len(beside) == len(part.marks) and any(mark.bbox.height > RULE_PT for mark in beside)


def without_bleed(part: Part, page: BBox, images: Sequence[Region]) -> list[Part]:
    """Leave out a drawing that goes on over the page's edge, as a page's background does; the pictures in it stay.

    A figure ends within the page; of a pattern or a bow that bleeds most pieces are cut off at the edge. One that lies over
    an image of the page may be what there is to be seen of that image, and stays.

    Args:
        part: A drawing.
        page: The page as drawn.
        images: All of the page's images, pieced together.
    """
    own = [picture.bbox for picture in part.images]
    covered = COVERED_SHARE * part.bbox.area
    if any((image.bbox & part.bbox).area >= covered for image in images if image.bbox not in own):
        return [part]
    inside = page.grown(-TOUCH_PT)
    cut = sum(not inside.contains(mark.bbox) for mark in part.marks)
    if not part.marks or cut < BLEED_SHARE * len(part.marks):
        return [part]
    groups = clusters(part.images, lambda one, other: distance(one.bbox, other.bbox) <= SCATTERED_PT)
    return [Part(union(picture.bbox for picture in group), (), tuple(group)) for group in groups]


def without_paragraphs(part: Part, text: PageText) -> list[Part]:
    """Leave out the background that paragraphs stand on where one clip holds it; the pictures on it beside them stay."""
    if not part.framed or part.marks or len(text.body_within(part.bbox)) <= MOST_PARAGRAPH_LINES:
        return [part]
    kept: list[Part] = []
    for picture in part.images:
        inner = text.within(picture.bbox)
        if sum(len(line.text) for line in inner) < MOST_LABEL_CHARACTERS and text.running.isdisjoint(inner):
            kept.append(Part(picture.bbox, (), (picture,)))
    return kept


def is_heading_background(parts: Sequence[Part], lines: Sequence[Line]) -> bool:
    """Return whether images are what a line or two are written on, as the band of a heading or a button: words fill them."""
    if any(not part.images or part.strokes for part in parts):
        return False
    box = union(part.bbox for part in parts)
    words = [line.bbox for line in lines if _runs_through(line.bbox, box)]
    return 0 < len(words) <= MOST_HEADING_LINES and _worded_share(words, box) >= HEADING_SHARE


def _runs_through(line: BBox, box: BBox) -> bool:
    """Return whether a line stands on a box, or goes on beyond its sides."""
    return gap(line.x0, line.x1, box.x0, box.x1) < 0 and box.y0 <= (line.y0 + line.y1) / 2 <= box.y1


def _worded_share(words: Sequence[BBox], box: BBox) -> float:
    return sum((word & box).area for word in words) / box.area


def with_shadows(figures: Sequence[Region], lines: Sequence[Line]) -> list[Region]:
    """Take the other pieces of a shadow for backgrounds too: presentations cut that of a line into images that overlap."""
    words = [line.bbox for line in lines]
    backgrounds = [figure.bbox for figure in figures if figure.background]

    def is_shadow(figure: Region) -> bool:
        if figure.image is None or figure.captioned or _worded_share(words, figure.bbox) < SHADOW_WORDS_SHARE:
            return False
        return any((figure.bbox & box).area >= SHADOW_SHARE * figure.bbox.area for box in backgrounds)

    return [replace(figure, background=True) if is_shadow(figure) else figure for figure in figures]
