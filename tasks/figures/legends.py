"""Find the legends of charts: small filled boxes, each with a name beside it."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import Kind, Line
from schemas.geometry import BBox, distance, union
from tasks.figures.parts import TOUCH_PT, Part, Region, clusters

MOST_KEY_PT = 12.0
MOST_KEY_MARKS = 2
SQUARE_SHARE = 0.5
NAME_GAP_PT = 8.0
KEYS_GAP_PT = 8.0
FEWEST_KEYS_ALONE = 3
LEGEND_GAP_PT = 24.0
FEWEST_KEYS_OF_CHART = 2


def legend_key(part: Part, lines: Sequence[Line], running: frozenset[Line]) -> BBox | None:
    """Return where a key of a legend stands with its name: a small filled box, and a line that begins right beside it.

    Args:
        part: What may be a key.
        lines: Of the page.
        running: Those of its paragraphs, which are no names.
    """
    box = part.bbox
    if part.images or part.strokes or len(part.marks) > MOST_KEY_MARKS or not any(mark.filled for mark in part.marks):
        return None
    longest = max(box.width, box.height)
    if longest > MOST_KEY_PT or min(box.width, box.height) < SQUARE_SHARE * longest:
        return None
    names = (
        line.bbox
        for line in lines
        if -TOUCH_PT <= line.bbox.x0 - box.x1 <= NAME_GAP_PT
        and line.bbox.y0 <= (box.y0 + box.y1) / 2 <= line.bbox.y1
        and line not in running
    )
    name = next(names, None)
    return None if name is None else box | name


def lone_legends(parts: Sequence[Part], lines: Sequence[Line]) -> list[Region]:
    """Return the legends that stand by themselves, as one for two charts does: a few keys, no two of one colour.

    What the colours mean is lost in text. The squares of a list have one colour.
    """
    keys = [(key, part) for part in parts if (key := legend_key(part, lines, frozenset())) is not None]
    return [
        Region(union(key for key, _ in group), Kind.VECTOR)
        for group in clusters(keys, _are_of_one_legend)
        if len(group) >= FEWEST_KEYS_ALONE and len({part.marks[0].colour for _, part in group}) == len(group)
    ]


def _are_of_one_legend(one: tuple[BBox, Part], other: tuple[BBox, Part]) -> bool:
    return distance(one[0], other[0]) <= KEYS_GAP_PT


def with_legend(figure: Region, keys: Sequence[BBox]) -> Region:
    """Grow a drawing by the keys of a legend that stands over it, under it or beside it."""
    if figure.image is not None or figure.framed:
        return figure
    own = [key for key in keys if distance(key, figure.bbox) <= LEGEND_GAP_PT]
    return replace(figure, bbox=union([figure.bbox, *own])) if len(own) >= FEWEST_KEYS_OF_CHART else figure
