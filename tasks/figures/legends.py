"""Find the legends of charts: small filled boxes, each with a name beside it."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import Kind, Line
from schemas.geometry import BBox, distance, union
from tasks.figures.parts import CHART_GAP_PT, LABEL_GAP_PT, TOUCH_PT, Part, PictureRegion, clusters

MOST_KEY_PT = 12.0
"""Maximum side of a key."""
FEWEST_KEYS_ALONE = 3
"""Minimum keys of a legend without a chart."""
FEWEST_KEYS_OF_CHART = 2
"""Minimum keys of a chart's legend."""


def legend_key(part: Part, lines: Sequence[Line], running: frozenset[Line]) -> BBox | None:
    """Return the box of a legend's key and its name: a small filled box, and a line that begins right beside it."""
    box = part.bbox
    is_key = not (part.images or part.strokes) and any(mark.filled for mark in part.marks)
    if not is_key or max(box.width, box.height) > MOST_KEY_PT:
        return None
    names = (
        line.bbox
        for line in lines
        if -TOUCH_PT <= line.bbox.x0 - box.x1 <= LABEL_GAP_PT
        and line.bbox.y0 <= (box.y0 + box.y1) / 2 <= line.bbox.y1
        and line not in running
    )
    name = next(names, None)
    return None if name is None else box | name


def lone_legends(parts: Sequence[Part], lines: Sequence[Line]) -> list[PictureRegion]:
    """Return legends without a chart, such as one for two charts: a few keys, no two of one colour.

    They are kept as pictures, since text loses the colours. The squares of a list have one colour.
    """
    keys = [(key, part) for part in parts if (key := legend_key(part, lines, frozenset())) is not None]
    return [
        PictureRegion(union(key for key, _ in group), Kind.VECTOR)
        for group in clusters(keys, _are_of_one_legend)
        if len(group) >= FEWEST_KEYS_ALONE and len({part.marks[0].colour for _, part in group}) == len(group)
    ]


def _are_of_one_legend(first_key: tuple[BBox, Part], second_key: tuple[BBox, Part]) -> bool:
    return distance(first_key[0], second_key[0]) <= LABEL_GAP_PT


def with_legend(figure: PictureRegion, keys: Sequence[BBox]) -> PictureRegion:
    """Extend a drawing by the keys of a legend above, below or beside it."""
    if figure.image is not None or figure.framed:
        return figure
    figure_keys = [key for key in keys if distance(key, figure.bbox) <= CHART_GAP_PT]
    return replace(figure, bbox=union([figure.bbox, *figure_keys])) if len(figure_keys) >= FEWEST_KEYS_OF_CHART else figure
