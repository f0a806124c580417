"""Find what a reader sees as one picture: images, strips of images, drawings, and drawings over images.

Geometry alone; no pixels are read. Points, top left origin, rotation 0. What is looked for in which order, and why:
docs/decisions/0015.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from schemas.documents import Kind, Line
from schemas.drawings import PAGE_SHARE, Image, Mark, Ruling
from schemas.geometry import BBox
from tasks.figures.algorithms import ruled_algorithms
from tasks.figures.backgrounds import is_note_background, with_shadows
from tasks.figures.captioned import captioned_parts, without_stray_rules
from tasks.figures.charts import join_bars
from tasks.figures.drawings import are_lone_rules, join_marks
from tasks.figures.graphics import Placed, placed_graphics
from tasks.figures.labels import with_labels
from tasks.figures.legends import lone_legends
from tasks.figures.overlays import lay_over, merge_overlapping, one_picture
from tasks.figures.parts import TOUCH_PT, PageText, Part, Region
from tasks.figures.pieces import mark_inline, piece_together
from tasks.figures.ruled_tables import out_of_cells, promised_table
from tasks.figures.uncaptioned import uncaptioned_pictures, without_decoration

SHEET_SHARE = 0.5
"""Least share of the page that a slide printed on it has. Of 10,544 pages of 155 PDFs none changes at 0.335 or 0.75; without
slides 23 do (the background and all text on it are one picture).
"""


@dataclass(frozen=True, slots=True)
class Located:
    """What was found on a page: pictures in no particular order, and where rules promise a table."""

    regions: tuple[Region, ...]
    tables: tuple[Ruling, ...]


def locate(
    page: BBox, images: Sequence[Image], marks: Sequence[Mark], frames: Sequence[BBox], lines: Sequence[Line]
) -> Located:
    """Find the pictures of a page.

    Args:
        page: The page as drawn.
        images: Everything that the page draws as an image, cut to the page.
        marks: Everything that it draws as a path, cut to its clip.
        frames: Clips smaller than the page: placed graphics, often.
        lines: Its lines of text that are shown.
    """
    if not (images or marks):
        return Located((), ())
    if not (images or frames) and are_lone_rules(marks):
        return Located(tuple(ruled_algorithms(marks, lines)), ())
    text = PageText.of(lines)
    whole = piece_together(images, frames)
    covering = PAGE_SHARE * _sheet(page, images, marks, lines).area
    scans = [replace(region, kind=Kind.SCAN) for region in whole if region.bbox.area >= covering]
    pictures = [mark_inline(region, lines) for region in whole if region.bbox.area < covering]
    paths = [mark for mark in marks if mark.bbox.area < PAGE_SHARE * page.area]
    placed = placed_graphics(page, frames, paths, pictures, text)
    drawings, tables = _drawings_and_tables(page, placed, text)
    laid = lay_over(placed.pictures, drawings, lines)
    parts = [*placed.parts, *(part for part in laid if not part.is_inline_image)]
    if not images and not any(part.is_visible for part in parts):
        return Located((*ruled_algorithms(placed.marks, lines), *lone_legends(parts, lines)), tables)
    groups = captioned_parts(parts, placed.parts, text, page)
    captioned = [_captioned_picture(group, text) for group in groups]
    free = without_decoration([part for part in parts if not any(part in group for group in groups)], page, whole, text)
    pictured = with_shadows([*captioned, *uncaptioned_pictures(free, page, frames, tables, text)], lines)
    inline = [region for part in laid for region in part.images if region.inline and not part.marks]
    found = [*pictured, *ruled_algorithms(placed.marks, lines), *lone_legends(free, lines), *inline]
    return Located((*scans, *merge_overlapping(found)), tables)


def _sheet(page: BBox, images: Sequence[Image], marks: Sequence[Mark], lines: Sequence[Line]) -> BBox:
    """Return the page, or the filled box on it that holds all that it shows: a slide printed on a larger sheet."""
    largest = max(marks, key=lambda mark: mark.bbox.area, default=None)
    if largest is None or not images or not lines or not (largest.filled or largest.white) or largest.strokes:
        return page
    if largest.bbox.area < SHEET_SHARE * page.area:
        return page
    edge = largest.bbox.grown(TOUCH_PT)
    shown = chain((line.bbox for line in lines), (image.bbox for image in images), (mark.bbox for mark in marks))
    return largest.bbox if all(edge.contains(box) for box in shown) else page


def _drawings_and_tables(page: BBox, placed: Placed, text: PageText) -> tuple[list[Part], tuple[Ruling, ...]]:
    """Return what is drawn outside placed graphics, and the rules of the tables among it."""
    joined = join_marks(page, placed.marks, text.body)
    pieces = [piece for part in joined for piece in out_of_cells(part, text.lines, text.captions)]
    shown = [part for part in join_bars(pieces, text.lines) if not is_note_background(part, text.lines, placed.pictures)]
    promised = [promised_table(part, text.lines) for part in shown]
    drawings = [part for part, table in zip(shown, promised, strict=True) if table is None]
    return drawings, tuple(table for table in promised if table is not None)


def _captioned_picture(parts: Sequence[Part], text: PageText) -> Region:
    return replace(with_labels(one_picture(without_stray_rules(parts), text.lines), text.labels), captioned=True)
