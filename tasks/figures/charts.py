"""Recognise bar charts that have no caption: boxes with a common base, and their values."""

import re
from collections.abc import Sequence
from statistics import median

from schemas.documents import Line
from schemas.geometry import BBox, distance, union
from tasks.figures.parts import BORDER_PT, LABEL_GAP_PT, Part, clusters

BAR_GAP_THICKNESSES = 1.2
"""Maximum gap between two bars, relative to their thickness."""
MOST_BARS = 100
"""Maximum boxes that are compared pair by pair."""
FEWEST_ROWS_OF_BARS = 2
"""Minimum rows of bars of a chart; with one, shaded rows of annual reports become charts (3 of 2,707 pages)."""
FEWEST_VALUES = 2
"""Minimum numbers at or near the bars; without it 13 of 37 pages with bars change."""
LEAST_BAR_PT = 2 * BORDER_PT
"""Minimum longer side of a bar: smaller boxes are keys of the legend."""
BASE_PT = 2.0
"""Tolerated distance of bars from their common base."""
BASED_SHARE = 0.75
"""Minimum share of the rows that begin at the base; without it 13 of 37 pages with bars change."""
ALIKE_SHARE = 0.5
"""Share of bars with the same two ends from which on they are cells of a table."""
_VALUE = re.compile(r"[<>≈~±+−–-]?[$€£¥]?\d[\d.,]*[%kKMB]?")


def join_bars(parts: Sequence[Part], lines: Sequence[Line]) -> list[Part]:
    """Join boxes no further apart than they are thick if together they are the bars of a chart."""
    lone = [part for part in parts if not part.strokes and not part.rules and part.shapes > 0]
    if not 2 <= len(lone) <= MOST_BARS:
        return list(parts)
    joined = [part for part in parts if part not in lone]
    for group in clusters(lone, _are_side_by_side):
        marks = tuple(mark for part in group for mark in part.marks)
        chart = Part(union(mark.bbox for mark in marks), marks)
        joined.extend([chart] if len(group) > 1 and has_bars(chart, lines) else group)
    return joined


def _are_side_by_side(first: Part, second: Part) -> bool:
    return distance(first.bbox, second.bbox) <= BAR_GAP_THICKNESSES * min(_thickness(first), _thickness(second))


def _thickness(part: Part) -> float:
    return median(min(mark.bbox.width, mark.bbox.height) for mark in part.marks if not mark.is_rule and not mark.white)


def has_bars(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether the boxes of a drawing are the bars of a chart: with a common base, and with values.

    The shaded cells of a table have the same sides in each of its rows; bars end where their values do.
    """
    boxes = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    if not (_are_bars(boxes) or _are_bars([BBox(box.y0, box.x0, box.y1, box.x1) for box in boxes])):
        return False
    around = part.bbox.grown(LABEL_GAP_PT)
    values = sum(around.has_middle_of(line.bbox) and _VALUE.fullmatch(line.text.strip()) is not None for line in lines)
    return values >= FEWEST_VALUES


def _are_bars(boxes: Sequence[BBox]) -> bool:
    """Return whether boxes are horizontal bars: in rows with a common base at one end. Keys of a legend are ignored."""
    bars = [box for box in boxes if max(box.width, box.height) > LEAST_BAR_PT]
    rows: dict[int, list[BBox]] = {}
    for bar in bars:
        rows.setdefault(round((bar.y0 + bar.y1) / 2 / BASE_PT), []).append(bar)
    if len(rows) < FEWEST_ROWS_OF_BARS:
        return False
    lefts, rights = (
        [min(bar.x0 for bar in row) for row in rows.values()],
        [max(bar.x1 for bar in row) for row in rows.values()],
    )
    if not (_have_base(lefts) or _have_base(rights)):
        return False
    alike = sum(any(_ends_as(bar, other_bar) for other_bar in bars if other_bar is not bar) for bar in bars)
    return alike < ALIKE_SHARE * len(bars)


def _have_base(ends: Sequence[float]) -> bool:
    base = median(ends)
    return sum(abs(end - base) <= BASE_PT for end in ends) >= BASED_SHARE * len(ends)


def _ends_as(first: BBox, second: BBox) -> bool:
    return abs(first.x0 - second.x0) <= BASE_PT and abs(first.x1 - second.x1) <= BASE_PT
