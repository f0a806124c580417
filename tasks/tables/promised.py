"""Read the grids of the tables that a layout model sees on a page."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from schemas.documents import FoundBy, LayoutLabel, Line, PageRegion
from schemas.drawings import LettersOf, Mark, Ruling
from schemas.geometry import BBox
from tasks.tables.align import CELL_GAP_EM, gutters_of, levels_of
from tasks.tables.columns import words_with_boxes
from tasks.tables.contents_entries import contents_entries
from tasks.tables.row_rules import ruling_between

SAME_SHARE = 0.5
"""Minimum share of the smaller of two boxes that they have in common, if they are one table."""
MONO_SHARE = 0.95
"""Share of the letters of a region in monospace from which on it is code."""
ACROSS_SHARE = 0.7
"""Minimum share of a table's width that a rule between rows has."""
FEWEST_RULES = 2
"""Minimum rules inside a table from which on they separate its rows; one is below the head."""
INSIDE_PT = 4.0
"""Minimum distance of such a rule from the top and the bottom of the table."""
CROSSED_SHARE = 0.2
"""Maximum share of the rows with a line across an edge between two columns."""
NEAR_EM = 3.0
"""How far a crossed edge may be moved to a gutter between words, in ems."""


def layout_tables(
    regions: Sequence[PageRegion],
    tables: Sequence[Ruling],
    lines: Sequence[Line],
    marks: Sequence[Mark],
    letters_of: LettersOf,
) -> list[Ruling]:
    """Return the grids of the tables that a layout model sees, without code and the tables that rules show.

    Args:
        regions: What the model sees on the page.
        tables: The tables that rules show.
        lines: The page's text.
        marks: The page's drawings.
        letters_of: Called only for lines that cross an edge between two columns.
    """
    rulings: list[Ruling] = []
    for region in regions:
        if region.label is not LayoutLabel.TABLE or any(_is_same(region.bbox, table.bbox) for table in tables):
            continue
        inner = [line for line in lines if region.bbox.has_middle_of(line.bbox)]
        letters = sum(len(line.text) for line in inner)
        is_contents = 2 * len(contents_entries(inner)) > len(inner)
        if inner and not is_contents and sum(len(line.text) for line in inner if line.mono) < MONO_SHARE * letters:
            pieces = [piece for line in inner for piece in _pieces(line, region.columns, letters_of)]
            rulings.append(_ruling(region, pieces, marks))
    return rulings


def _is_same(box: BBox, table_box: BBox) -> bool:
    return (box & table_box).area > SAME_SHARE * min(box.area, table_box.area)


def _pieces(line: Line, edges: Sequence[float], letters_of: LettersOf) -> list[Line]:
    """Return a line that crosses an edge cut where its words stand apart: "256.5" and the next cell's "$"."""
    if not any(line.bbox.x0 < edge < line.bbox.x1 for edge in edges):
        return [line]
    pieces: list[Line] = []
    for word, box in words_with_boxes(*letters_of(line)):
        if pieces and box.x0 - pieces[-1].bbox.x1 < CELL_GAP_EM * line.size:
            pieces[-1] = pieces[-1]._replace(text=f"{pieces[-1].text} {word}", bbox=pieces[-1].bbox | box)
        else:
            pieces.append(line._replace(text=word, bbox=box))
    return pieces


def _ruling(region: PageRegion, lines: Sequence[Line], marks: Sequence[Mark]) -> Ruling:
    """Return the edges of a region's columns, and those of its rows: rules if there are enough, else the model's."""
    rules = _rules_across(region.bbox, marks)
    is_ruled = len(rules) >= FEWEST_RULES
    edges = (region.bbox.y0, *(rules if is_ruled else region.rows), region.bbox.y1)
    found_by = FoundBy.RULED_LAYOUT if is_ruled else FoundBy.LAYOUT
    return ruling_between(region.bbox, edges, _columns(region, lines), found_by)


def _columns(region: PageRegion, lines: Sequence[Line]) -> list[float]:
    """Return the edges between columns; those across words are moved to the next gutter, or left out."""
    levels = levels_of(lines)
    rows = len(levels)
    if rows == 1:
        return [(left_cell.bbox.x1 + right_cell.bbox.x0) / 2 for left_cell, right_cell in pairwise(levels[0])]
    gutters = gutters_of(lines)
    size = max(line.size for line in lines)
    edges: list[float] = []
    for edge in region.columns:
        crossed = sum(line.bbox.x0 + 1 < edge < line.bbox.x1 - 1 for line in lines)
        near = [gutter for gutter in gutters if abs(gutter - edge) <= NEAR_EM * size]
        if crossed <= CROSSED_SHARE * rows:
            edges.append(edge)
        elif near:
            edges.append(min(near, key=lambda gutter: abs(gutter - edge)))
    return sorted(set(edges))


def _rules_across(table: BBox, marks: Sequence[Mark]) -> list[float]:
    """Return the heights of the rules inside a table from side to side, which may be drawn cell by cell."""
    levels: dict[int, list[BBox]] = defaultdict(list)
    for mark in marks:
        box = mark.bbox & table
        if (
            mark.is_rule
            and mark.bbox.width > mark.bbox.height
            and table.y0 + INSIDE_PT < mark.bbox.y0 < table.y1 - INSIDE_PT
        ):
            levels[round(mark.bbox.y0 / INSIDE_PT)].append(box)
    return sorted(
        pieces[0].y0 for pieces in levels.values() if sum(piece.width for piece in pieces) >= ACROSS_SHARE * table.width
    )
