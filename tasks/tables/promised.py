"""Take the tables that a layout model sees on a page, with the grid of their cells."""

import os
from collections.abc import Sequence

from schemas.documents import FoundBy, Label, Line, PageRegion
from schemas.drawings import Mark, Ruling, Side

V = os.environ.get("V_", "A")
SAME_SHARE = 0.5
"""Minimum share of the smaller of two boxes that they have in common, if they are one table."""
MONO_SHARE = 0.8
ACROSS_SHARE = 0.7


def promised_tables(
    regions: Sequence[PageRegion], tables: Sequence[Ruling], lines: Sequence[Line], marks: Sequence[Mark]
) -> list[Ruling]:
    """Return the grids of the tables that a layout model sees, without those that rules show."""
    return [
        _ruling(region, marks)
        for region in regions
        if region.label is Label.TABLE
        and (region.rows or region.columns)
        and not _is_code(region, lines)
        and not any(
            (region.bbox & table.bbox).area > SAME_SHARE * min(region.bbox.area, table.bbox.area) for table in tables
        )
    ]


def _is_code(region: PageRegion, lines: Sequence[Line]) -> bool:
    inner = [line for line in lines if region.bbox.has_middle_of(line.bbox)]
    return sum(len(line.text) for line in inner if line.mono) >= MONO_SHARE * sum(len(line.text) for line in inner)


def _ruling(region: PageRegion, marks: Sequence[Mark]) -> Ruling:
    x0, y0, x1, y1 = region.bbox
    rules = rules_across(region, marks)
    ys = sorted({y0, *region.rows, y1})
    found = FoundBy.LAYOUT
    if V == "B" or (V == "D" and len(rules) >= 2):
        ys = [y0, *rules, y1]
        found = FoundBy.TINTED
    return Ruling(
        region.bbox,
        tuple(Side(x, y0, y1) for x in (x0, *region.columns, x1)),
        tuple(Side(y, x0, x1) for y in ys),
        found,
    )


def rules_across(region: PageRegion, marks: Sequence[Mark]) -> list[float]:
    x0, y0, x1, y1 = region.bbox
    levels: dict[int, list[Mark]] = {}
    for mark in marks:
        if mark.is_rule and mark.bbox.width > mark.bbox.height and y0 + 4 < mark.bbox.y0 < y1 - 4:
            if mark.bbox.x0 < x1 and mark.bbox.x1 > x0:
                levels.setdefault(round(mark.bbox.y0 / 3), []).append(mark)
    return sorted(
        ms[0].bbox.y0 for ms in levels.values() if sum(min(m.bbox.x1, x1) - max(m.bbox.x0, x0) for m in ms) >= ACROSS_SHARE * (x1 - x0)
    )
