"""Find the pictures that have no caption: what is drawn alone and is no rule, box round text, or decoration."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import Line
from schemas.drawings import Ruling
from schemas.geometry import BBox, union
from tasks.figures.backgrounds import (
    MOST_PARAGRAPH_LINES,
    is_box_round_words,
    is_heading_background,
    without_bleed,
    without_paragraphs,
)
from tasks.figures.charts import has_bars
from tasks.figures.labels import labels_of_cell, with_labels
from tasks.figures.legends import legend_key, with_legend
from tasks.figures.overlays import one_picture
from tasks.figures.panels import DIAGRAM_STROKES, join_panels
from tasks.figures.parts import PageText, Part, Region
from tasks.figures.ruled_tables import has_stripes
from tasks.tables.tabulate import cells_of

LEAST_SIDE_PT = 25.0
LEAST_DIAGRAM_PT = 20.0
"""Least side of a drawing of many strokes: of 168 that are lower than 25 pt, in 500 PDFs, 166 are symbols beside a note."""
MOST_LENGTH_SIDES = 4.0
"""How much longer than high such a drawing is at most: a line of letters that are drawn as curves is longer."""
GRAPHIC_CHARACTER_PT2 = 60.0
MOST_PARAGRAPHS = 1
DRAWING_CHARACTER_PT2 = 25.0
FEWEST_STROKES = 4
FEWEST_FILLED = 8
FEWEST_FILLED_RULED = 3
FEWEST_LABELS_RULED = 2
FEWEST_RULES = 2


def without_decoration(parts: Sequence[Part], page: BBox, images: Sequence[Region], text: PageText) -> list[Part]:
    """Leave out boxes round words, what bleeds off the page, and the backgrounds of paragraphs.

    Args:
        parts: What has no caption.
        page: The page as drawn.
        images: All of the page's images, pieced together.
        text: Of the page.
    """
    unboxed = (part for part in parts if not is_box_round_words(part, text.lines))
    inside = (kept for part in unboxed for kept in without_bleed(part, page, images))
    return [kept for part in inside for kept in without_paragraphs(part, text)]


def uncaptioned_pictures(
    parts: Sequence[Part], page: BBox, frames: Sequence[BBox], tables: Sequence[Ruling], text: PageText
) -> list[Region]:
    """Return the pictures among what has no caption, with their legends and labels.

    Args:
        parts: What has no caption and is no decoration.
        page: The page as drawn.
        frames: Its clips.
        tables: Rules of its tables: a picture in a cell takes its labels from there.
        text: Of the page.
    """
    groups = join_panels([part for part in parts if _is_picture(part, text)], page, frames, text.body)
    if not groups:
        return []
    keys = [key for part in parts if (key := legend_key(part, text.lines, text.running)) is not None]
    cells = [cell for ruling in tables for row in cells_of(ruling) for cell in row if cell is not None]
    return [_picture(group, keys, cells, text) for group in groups]


def _picture(panels: Sequence[Part], keys: Sequence[BBox], cells: Sequence[BBox], text: PageText) -> Region:
    labels = labels_of_cell(union(part.bbox for part in panels), cells, text.labels)
    figure = with_legend(one_picture(panels, text.lines), keys)
    whole = with_labels(figure, labels, has_bars=any(has_bars(part, text.lines) for part in panels))
    return replace(whole, background=is_heading_background(panels, text.lines))


def _is_picture(part: Part, text: PageText) -> bool:
    """Return whether a part without caption is a picture and not a rule, a box round text, or decoration."""
    if part.images and not part.framed:
        return True
    low, high = sorted((part.bbox.width, part.bbox.height))
    is_diagram = part.strokes >= DIAGRAM_STROKES and high <= MOST_LENGTH_SIDES * low
    if low < (LEAST_DIAGRAM_PT if is_diagram else LEAST_SIDE_PT):
        return False
    inner = text.within(part.bbox)
    written = sum(len(line.text) for line in inner)
    paragraphs = sum(line in text.running for line in inner)
    if part.framed:
        return paragraphs <= MOST_PARAGRAPH_LINES and written <= part.bbox.area / GRAPHIC_CHARACTER_PT2
    if paragraphs > MOST_PARAGRAPHS or written > part.bbox.area / DRAWING_CHARACTER_PT2:
        return False
    return part.strokes >= FEWEST_STROKES or has_bars(part, text.lines) or _has_shapes(part, inner)


def _has_shapes(part: Part, inner: Sequence[Line]) -> bool:
    """Return whether filled shapes make a picture: many of them, or a few with rules and labels; not a table's rows."""
    filled = sum(mark.filled and not mark.is_rule for mark in part.marks)
    ruled = filled >= FEWEST_FILLED_RULED and len(inner) >= FEWEST_LABELS_RULED and part.rules >= FEWEST_RULES
    return (filled >= FEWEST_FILLED or ruled) and not has_stripes(part, inner)
