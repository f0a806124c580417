"""Find bar charts that have no caption: boxes with a common base, and their values."""

import re
from collections.abc import Sequence
from statistics import median

from schemas.documents import Line
from schemas.geometry import BBox, distance, union
from tasks.figures.parts import BORDER_PT, LABEL_GAP_PT, Part, clusters

BAR_GAP_THICKNESSES = 1.2
"""Widest gap between two bars, by their thickness. Of the 37 pages at hand with bars none changes at 0.804 or 1.8; 2 do
without it.
"""
MOST_BARS = 100
"""Bounds the comparing of each with all. No page of 2,191 has more that are bars: none changes at 67 or 150."""
FEWEST_BARS = 3
"""Bars of a chart. Of the 37 pages at hand with bars none change at 2, 1 at 4."""
FEWEST_ROWS_OF_BARS = 2
"""Rows of bars of a chart. Of 2,707 pages of 50 PDFs 3 change without it (shaded rows of annual reports are charts)."""
FEWEST_VALUES = 2
"""Numbers at or near the bars. Of the 37 pages at hand with bars none changes at 1 or 3; 13 do without it."""
LEAST_BAR_PT = 2 * BORDER_PT
"""Longer side of a bar: smaller boxes are keys of the legend. Of the 37 pages at hand with bars none changes at 6.7, 1
at 15 (a small bar's chart falls apart).
"""
BASE_PT = 2.0
"""How far bars are off the base that they share. Of the 37 pages at hand with bars 2 change at 1.34 (bars of two
colours fall apart), none at 3.
"""
BASED_SHARE = 0.75
"""Share of the rows that begin at the base. Of the 37 pages at hand with bars none changes at 0.45 or 0.875; 13 do
without it.
"""
ALIKE_SHARE = 0.5
"""Share of bars with the same two ends, from which on they are cells of a table. Of the 37 pages at hand with bars 1
changes at 0.335, 1 at 0.75 (a stacked chart takes in its header).
"""
WORDED_SHARE = 0.5
"""Share of boxes that words fill, from which on they are backgrounds of words. Of the 37 pages at hand with bars none
changes at 0.335 or 0.75, nor without it.
"""
WORD_FILLS_SHARE = 0.7
"""Share of a box's width that words have which fill it. Of the 37 pages at hand with bars none changes at 0.35 or 0.85;
11 do without it.
"""
_VALUE = re.compile(r"[<>≈~±+−–-]?[$€£¥]?\d[\d.,]*[%kKMB]?")


def join_bars(parts: Sequence[Part], lines: Sequence[Line]) -> list[Part]:
    """Join boxes that stand no farther apart than they are thick where they turn out to be the bars of a chart."""
    lone = [part for part in parts if _may_be_bars(part)]
    if not 2 <= len(lone) <= MOST_BARS:
        return list(parts)
    joined = [part for part in parts if part not in lone]
    for group in clusters(lone, _are_side_by_side):
        marks = tuple(mark for part in group for mark in part.marks)
        whole = Part(union(mark.bbox for mark in marks), marks)
        joined.extend([whole] if len(group) > 1 and has_bars(whole, lines) else group)
    return joined


def _may_be_bars(part: Part) -> bool:
    return not part.strokes and not part.rules and part.shapes > 0


def _are_side_by_side(one: Part, other: Part) -> bool:
    return distance(one.bbox, other.bbox) <= BAR_GAP_THICKNESSES * min(_thickness(one), _thickness(other))


def _thickness(part: Part) -> float:
    return median(min(mark.bbox.width, mark.bbox.height) for mark in part.marks if not mark.is_rule and not mark.white)


def has_bars(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether the boxes of a drawing are the bars of a chart: with a common base, and with values.

    The shaded cells of a table have the same sides in each of its rows; bars end where their values do. A box that its words
    fill is their background.
    """
    boxes = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    if not (_are_bars(boxes) or _are_bars([BBox(box.y0, box.x0, box.y1, box.x1) for box in boxes])):
        return False
    around = part.bbox.grown(LABEL_GAP_PT)
    close = [line for line in lines if around.has_middle_of(line.bbox)]
    values = sum(_VALUE.fullmatch(line.text.strip()) is not None for line in close)
    worded = sum(any(_fills(line.bbox, box) for line in close) for box in boxes)
    return values >= FEWEST_VALUES and worded <= WORDED_SHARE * len(boxes)


def _fills(text: BBox, box: BBox) -> bool:
    return box.has_middle_of(text) and text.width >= WORD_FILLS_SHARE * box.width


def _are_bars(boxes: Sequence[BBox]) -> bool:
    """Return whether boxes, keys of a legend left aside, are bars that lie: in rows, one of their ends below the other."""
    bars = [box for box in boxes if max(box.width, box.height) > LEAST_BAR_PT]
    if len(bars) < FEWEST_BARS:
        return False
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
    alike = sum(any(_ends_as(bar, other) for other in bars if other is not bar) for bar in bars)
    return alike < ALIKE_SHARE * len(bars)


def _have_base(ends: Sequence[float]) -> bool:
    base = median(ends)
    return sum(abs(end - base) <= BASE_PT for end in ends) >= BASED_SHARE * len(ends)


def _ends_as(one: BBox, other: BBox) -> bool:
    return abs(one.x0 - other.x0) <= BASE_PT and abs(one.x1 - other.x1) <= BASE_PT
