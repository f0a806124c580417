"""Find the pictures that have no caption: drawings that are not rules, boxes around text, or decoration."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import Line
from schemas.geometry import BBox
from tasks.figures.backgrounds import (
    MOST_PARAGRAPH_LINES,
    is_box_around_words,
    is_heading_background,
    without_bleed,
    without_paragraphs,
)
from tasks.figures.charts import has_bars
from tasks.figures.drawing_labels import with_labels
from tasks.figures.legends import legend_key, with_legend
from tasks.figures.overlays import one_picture
from tasks.figures.panels import join_panels
from tasks.figures.parts import PageText, Part, PictureRegion
from tasks.figures.ruled_tables import has_stripes

LEAST_SIDE_PT = 20.0
"""Minimum side of a drawing without a caption. Of 2,191 pages 43 change at 13.4 (ornaments become pictures), 42 at 30 (symbols
of warnings are lost).
"""
MOST_PARAGRAPHS = 1
"""Maximum lines of paragraphs in a drawing. Of 2,191 pages 5 change at 0 (a chart with its source is lost), 5 at 2 (a map
includes the list beside it).
"""
FEWEST_STROKES = 4
"""Minimum curves and slanted lines of a picture."""
SAME_CENTRE_PT, SAME_SIZE, FEWEST_ALIKE = 4.0, 1.8, 2
"""Maximum distance of the centres of symbols in a column, maximum ratio of their sides, and minimum symbols that are pictures."""
FEWEST_FILLED = 8
"""Minimum filled shapes of a picture without strokes."""


def without_decoration(parts: Sequence[Part], page: BBox, images: Sequence[PictureRegion], text: PageText) -> list[Part]:
    """Remove boxes around words, drawings that bleed off the page, and the backgrounds of paragraphs."""
    unboxed = (part for part in parts if not is_box_around_words(part, text.lines))
    inside = (kept_part for part in unboxed for kept_part in without_bleed(part, page, images))
    return [kept_part for part in inside for kept_part in without_paragraphs(part, text)]


def uncaptioned_pictures(parts: Sequence[Part], page: BBox, frames: Sequence[BBox], text: PageText) -> list[PictureRegion]:
    """Return the pictures among drawings without a caption, with their legends and labels."""
    pictures = [part for part in parts if _is_picture(part, text)]
    pictures += [part for part in parts if part not in pictures and _is_of_column(part, pictures)]
    groups = join_panels(pictures, page, frames, text.body)
    if not groups:
        return []
    keys = [key for part in parts if (key := legend_key(part, text.lines, text.running)) is not None]
    return [_picture(group, keys, text) for group in groups]


def _picture(panels: Sequence[Part], keys: Sequence[BBox], text: PageText) -> PictureRegion:
    figure = with_legend(one_picture(panels, text.lines), keys)
    labelled_figure = with_labels(figure, text.labels, has_bars=any(has_bars(part, text.lines) for part in panels))
    return replace(labelled_figure, background=is_heading_background(panels, text.lines))


def _is_picture(part: Part, text: PageText) -> bool:
    """Return whether a drawing without caption is a picture, not a rule, a box around text, or decoration."""
    if part.images and not part.framed:
        return True
    if min(part.bbox.width, part.bbox.height) < LEAST_SIDE_PT:
        return False
    inner = text.within(part.bbox)
    paragraphs = sum(line in text.running for line in inner)
    if part.framed:
        return paragraphs <= MOST_PARAGRAPH_LINES
    if paragraphs > MOST_PARAGRAPHS:
        return False
    return part.strokes >= FEWEST_STROKES or has_bars(part, text.lines) or _has_shapes(part, inner)


def _is_of_column(part: Part, pictures: Sequence[Part]) -> bool:
    """Return whether a drawing stands in a column of pictures of its size, as the symbols of a page of meanings do."""
    alike = [
        picture
        for picture in pictures
        if abs(sum(picture.bbox[::2]) - sum(part.bbox[::2])) <= 2 * SAME_CENTRE_PT
        and 1 / SAME_SIZE <= max(part.bbox.height, 1.0) / picture.bbox.height <= SAME_SIZE
        and 1 / SAME_SIZE <= max(part.bbox.width, 1.0) / picture.bbox.width <= SAME_SIZE
    ]
    return len(alike) >= FEWEST_ALIKE


def _has_shapes(part: Part, inner: Sequence[Line]) -> bool:
    """Return whether there are enough filled shapes for a picture, and they are not a table's rows."""
    filled = sum(mark.filled and not mark.is_rule for mark in part.marks)
    return filled >= FEWEST_FILLED and not has_stripes(part, inner)
