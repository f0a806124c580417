"""Find graphics that were placed on a page as one: everything drawn inside one clip."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.drawings import RULE_PT, Mark
from schemas.geometry import BBox, union
from tasks.figures.panels import TEXT_BOX_SHARE
from tasks.figures.parts import PageText, Part, PictureRegion, mostly_within

LEAST_CLIP_PT = 25.0
"""Minimum side of a clip of a graphic. Of 2,191 pages 4 change at 16.8 (icons of a menu join), 59 at 37.5 (symbols of warnings
fall into pieces).
"""
FEWEST_MARKS = 4
"""Minimum rules and shapes of a graphic without a curve or slanted line."""
TEXT_BOX_RULE_SHARE = 0.8
"""Minimum share of a text box's width that the rules above and below its content have."""
PRINT_AREA_SHARE = 0.9
"""Minimum share of the page's lines inside its print area, if it is smaller than this share of the page:"""
BACKDROP_SHARE = 0.9
"""Share of a clip from which on an image in it is its background."""
PRINT_PAGE_SHARE = 0.5
"""Minimum share of the page that a print area has on a page with few lines."""

LEAST_IMAGES_SHARE = 0.02
"""Minimum share of a clip that images have if it holds nothing else but text. Two logos in a clip around a page have 0.003.
Of 285 pages of nine PDFs none changes.
"""


@dataclass(frozen=True, slots=True)
class Placed:
    """Placed graphics, and the page's other pictures and marks."""

    parts: list[Part]
    pictures: list[PictureRegion]
    marks: list[Mark]


def placed_graphics(
    page: BBox, frames: Sequence[BBox], marks: Sequence[Mark], pictures: Sequence[PictureRegion], text: PageText
) -> Placed:
    """Join everything drawn inside one clip, the largest clips first.

    A clip around one image is that image; one with a caption, or with only boxes and text, is a piece of the page's
    layout. The pictures in a text box are joined without its rules.
    """
    parts: list[Part] = []
    used_frames: set[BBox] = set()
    free = list(pictures)
    inked: dict[BBox, list[Mark]] = {}
    for mark in marks:
        if mark.frame is not None and not mark.white:
            inked.setdefault(mark.frame, []).append(mark)
    for frame in sorted(frames, key=lambda frame: -frame.area):
        if min(frame.width, frame.height) < LEAST_CLIP_PT or any(frame.has_middle_of(line.bbox) for line in text.captions):
            continue
        inner = [region for region in free if mostly_within(region.bbox, frame)]
        part = _graphic(frame, inked.get(frame, []), inner, page, text)
        if part is None:
            continue
        parts.append(part)
        free = [region for region in free if region not in inner]
        if part.framed:
            used_frames.add(frame)
    return Placed(parts, free, [mark for mark in marks if mark.frame not in used_frames])


def _graphic(frame: BBox, inked: Sequence[Mark], inner: Sequence[PictureRegion], page: BBox, text: PageText) -> Part | None:
    """Return everything drawn inside a clip as one part; None if it is a piece of the layout, or one image."""
    if not inked and (len(inner) < 2 or sum(region.bbox.area for region in inner) < LEAST_IMAGES_SHARE * frame.area):
        return None
    texts = [line.bbox & frame for line in text.within(frame)]
    has_backdrop = any(region.bbox.area >= BACKDROP_SHARE * frame.area for region in inner)
    if not text.captions and not has_backdrop and _is_print_area(frame, page, inked, len(texts), text):
        return None
    if len(inner) > 1 and _is_text_box(inked, frame, page):
        # Between its rules there are also the title of the pictures, their source and notes.
        return Part(union(region.bbox for region in inner), (), tuple(inner))
    boxes = [*(mark.bbox for mark in inked), *(region.bbox & frame for region in inner), *texts]
    part = Part(union(boxes), tuple(inked), tuple(inner), framed=True)
    drawn = part.strokes or len(inner) > 1 or part.shapes + part.rules >= FEWEST_MARKS or _is_outline(part, texts)
    return part if drawn else None


def _is_print_area(frame: BBox, page: BBox, marks: Sequence[Mark], inner_lines: int, text: PageText) -> bool:
    """Return whether a clip is that of the page's whole text, as of a browser that prints: its text is no drawing's."""
    has_all = 0 < inner_lines >= PRINT_AREA_SHARE * len(text.lines)
    thick = [mark for mark in marks if min(mark.bbox.width, mark.bbox.height) > RULE_PT]
    if has_all and marks and not any(mark.strokes for mark in thick):
        return True  # only rules and boxes, as those of tables: a diagram has slanted lines or curves
    return (has_all or frame.area >= PRINT_PAGE_SHARE * page.area) and bool(text.body_within(frame))


def _is_text_box(marks: Sequence[Mark], frame: BBox, page: BBox) -> bool:
    """Return whether a clip is a box of the page's layout: it has only rules, above and below its content."""
    ruled = marks and all(mark.is_rule and mark.bbox.width >= TEXT_BOX_RULE_SHARE * frame.width for mark in marks)
    return bool(ruled) and frame.area <= TEXT_BOX_SHARE * page.area


def _is_outline(part: Part, texts: Sequence[BBox]) -> bool:
    """Return whether a part is a bare outline, such as a square that a manual shows how to draw."""
    return not texts and part.shapes > 0 and not any(mark.filled for mark in part.marks)
