"""Find the pictures of a page: images, strips of images, drawings, and drawings over images.

By geometry only; no pixels are read. Points, top left origin, rotation 0. For the order of the search see docs/decisions/0006.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from schemas.documents import Kind, LayoutLabel, Line
from schemas.drawings import PAGE_SHARE, Image, Mark, Ruling
from schemas.geometry import BBox
from tasks.figures.backgrounds import is_note_background, with_shadows
from tasks.figures.captioned import captioned_parts, without_stray_rules
from tasks.figures.charts import join_bars
from tasks.figures.drawing_labels import with_labels
from tasks.figures.drawings import join_marks
from tasks.figures.graphics import Placed, placed_graphics
from tasks.figures.join_images import join_images, mark_inline
from tasks.figures.legends import lone_legends
from tasks.figures.overlays import join_overlays, merge_overlapping, one_picture
from tasks.figures.parts import TOUCH_PT, PageText, Part, PictureRegion
from tasks.figures.ruled_tables import ruled_table
from tasks.figures.uncaptioned import uncaptioned_pictures, without_decoration

SHEET_SHARE = 0.5
"""Minimum share of the page that a slide printed on it has. Without slides, 23 of 10,544 pages change (the background and all
text on it become one picture).
"""


LABELLED_SHARE = 0.8
"""Minimum share of the letters over rules and boxes that a layout model gives to a table, a list or a heading."""
_OF_LAYOUT = frozenset(
    {LayoutLabel.TABLE, LayoutLabel.ITEM, LayoutLabel.HEADING, LayoutLabel.TITLE, LayoutLabel.HEAD, LayoutLabel.FOOT}
)


@dataclass(frozen=True, slots=True)
class Located:
    """The pictures found on a page, in no particular order, and the rules of its tables."""

    regions: tuple[PictureRegion, ...]
    tables: tuple[Ruling, ...]


def locate(
    page: BBox, images: Sequence[Image], marks: Sequence[Mark], frames: Sequence[BBox], lines: Sequence[Line]
) -> Located:
    """Find the pictures of a page, given its visible lines. ``frames`` are clips smaller than the page, often placed graphics."""
    if not (images or marks):
        return Located((), ())
    text = PageText.of(lines)
    joined_images = join_images(images)
    covering = PAGE_SHARE * _sheet(page, images, marks, lines).area
    scans = [replace(region, kind=Kind.SCAN) for region in joined_images if region.bbox.area >= covering]
    pictures = [mark_inline(region, lines) for region in joined_images if region.bbox.area < covering]
    paths = [mark for mark in marks if mark.bbox.area < PAGE_SHARE * page.area]
    placed = placed_graphics(page, frames, paths, pictures, text)
    drawings, tables = _drawings_and_tables(page, placed, text)
    laid = join_overlays(placed.pictures, drawings)
    parts = [*placed.parts, *(part for part in laid if not part.is_inline_image)]
    if not images and not any(part.is_visible for part in parts):
        return Located(tuple(lone_legends(parts, lines)), tables)
    groups = captioned_parts(parts, placed.parts, text, page)
    captioned = [_captioned_picture(group, text) for group in groups]
    loose_parts = [
        part for part in parts if not any(part in group for group in groups) and not _is_behind_text(part, lines)
    ]
    free = without_decoration(loose_parts, page, joined_images, text)
    pictured = with_shadows([*captioned, *uncaptioned_pictures(free, page, frames, text)])
    inline = [region for part in laid for region in part.images if region.inline and not part.marks]
    regions = [*pictured, *lone_legends(free, lines), *inline]
    return Located((*scans, *merge_overlapping(regions)), tables)


def _sheet(page: BBox, images: Sequence[Image], marks: Sequence[Mark], lines: Sequence[Line]) -> BBox:
    """Return the page, or the filled box around everything on it: a slide printed on a larger sheet."""
    largest = max(marks, key=lambda mark: mark.bbox.area, default=None)
    if largest is None or not images or not lines or not (largest.filled or largest.white) or largest.strokes:
        return page
    if largest.bbox.area < SHEET_SHARE * page.area:
        return page
    edge = largest.bbox.grown(TOUCH_PT)
    content_boxes = chain((line.bbox for line in lines), (image.bbox for image in images), (mark.bbox for mark in marks))
    return largest.bbox if all(edge.contains(box) for box in content_boxes) else page


def _drawings_and_tables(page: BBox, placed: Placed, text: PageText) -> tuple[list[Part], tuple[Ruling, ...]]:
    """Return the drawings outside placed graphics, and the rules of the tables among them."""
    joined = join_marks(page, placed.marks, text.body)
    visible_parts = [
        part for part in join_bars(joined, text.lines) if not is_note_background(part, text.lines, placed.pictures)
    ]
    tables = [ruled_table(part, text.lines) for part in visible_parts]
    drawings = [part for part, table in zip(visible_parts, tables, strict=True) if table is None]
    return drawings, tuple(table for table in tables if table is not None)


def _is_behind_text(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether rules and boxes without a curve are behind what a layout model calls text or a table."""
    inner = [line for line in lines if part.bbox.has_middle_of(line.bbox)]
    labelled_characters = sum(len(line.text) for line in inner if line.label in _OF_LAYOUT)
    return (
        not part.strokes
        and not part.images
        and 0 < labelled_characters >= LABELLED_SHARE * sum(len(line.text) for line in inner)
    )


def _captioned_picture(parts: Sequence[Part], text: PageText) -> PictureRegion:
    return replace(with_labels(one_picture(without_stray_rules(parts), text.lines), text.labels), captioned=True)
