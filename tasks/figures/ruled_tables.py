"""Find the tables that rules or shaded cells draw, and the bar charts that look like them."""

import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from schemas.documents import FoundBy, LayoutLabel, Line, lines_in
from schemas.drawings import RulePiece, Ruling
from schemas.geometry import BBox, distance, overlap, union
from tasks.figures.parts import BORDER_PT, LABEL_GAP_PT, TOUCH_PT, Part, clusters, same_sides
from tasks.tables.tabulate import SAME_EDGE_PT, covered_length

FEWEST_WORDS = 4
"""Minimum lines of text in a table. Of 2,191 pages none change at 3, 8 at 5 (tables of two by two cells are lost)."""
FEWEST_SIDES = 3
"""Minimum rules of a table in each direction, its borders included. Of 2,191 pages 53 change at 2 (boxes of examples become
tables), 120 at 4 (tables of two rows are lost).
"""
FEWEST_CELLS = 6
"""Minimum boxes that are cells if rules are missing in one direction."""
FEWEST_SIDES_OF_CELLS = 4
"""Minimum rules in both directions together, if cells are drawn as boxes. Of 2,191 pages none change at 3, 10 at 5 (tables
of boxes are lost).
"""
FEWEST_BOXES = 4
"""Boxes from which on their edges replace missing rules; without it text boxes become tables (3 of 225 pages)."""
LEAST_RULE_PT = 6.0
"""Minimum length of the rules at one position together; the ticks of an axis are shorter."""
WHITE_ROW_PT = 8.0
"""Length of a vertical rule over white from which on it rules white rows, too."""
STRIPE_SHARE = 0.9
"""Minimum share of a table's width that a shaded row has."""
STRIPED_ROWS_SHARE = 0.8
"""Minimum share of the shaded rows that go from edge to edge; without it pages of shaded panels become tables."""
WHITE_LINES_SHARE = 0.2
"""Minimum share of the lines on white rows. Of 2,191 pages 3 change at 0.134 (tables with shaded cells are read by their
words), 6 at 0.3 (pages of shaded panels become tables).
"""


def ruled_table(part: Part, lines: Sequence[Line], pictures: Sequence[BBox] = ()) -> Ruling | None:
    """Return the rules of the table that a drawing is; None if it is none, or its words show its cells better."""
    if is_table(part, lines, pictures):
        return None if _is_striped(part, lines) else ruling_of(part)
    return None


def is_table(part: Part, lines: Sequence[Line], pictures: Sequence[BBox] = ()) -> bool:
    """Return whether a drawing is the rules and shaded cells of a table, whose cells hold ``lines`` and ``pictures``."""
    core = part.bbox.grown(-BORDER_PT)
    if part.strokes or not any(overlap(mark.bbox, core) for mark in part.marks):
        return False  # a box, however often its border was drawn
    inner = lines_in(part.bbox, lines)
    pictured_cells = sum(part.bbox.has_middle_of(box) for box in pictures) if inner else 0
    if len(inner) + pictured_cells < FEWEST_WORDS and not any(line.label is LayoutLabel.TABLE for line in inner):
        return False
    across, down = _sides(part)
    if (
        has_bars(part, lines)
        and min(_sides(Part(part.bbox, tuple(mark for mark in part.marks if mark.is_rule)))) < FEWEST_SIDES
    ):
        return False  # cells in a grid may look like bars
    if across >= FEWEST_SIDES and down >= FEWEST_SIDES:
        return True
    cells = len({mark.bbox for mark in part.marks if not mark.is_rule})
    return cells >= FEWEST_CELLS and across + down >= FEWEST_SIDES_OF_CELLS


def _sides(part: Part) -> tuple[int, int]:
    """Return how many rules a drawing has in each direction."""
    ruling = ruling_of(part, filled=False)
    return _distinct(ruling.across), _distinct(ruling.down)


def _distinct(sides: Sequence[RulePiece]) -> int:
    """Count the positions at which there are rules."""
    lengths: dict[int, float] = defaultdict(float)
    for side in sides:
        lengths[round(side.at / SAME_EDGE_PT)] += side.end - side.start
    return sum(length >= LEAST_RULE_PT for length in lengths.values())


def ruling_of(part: Part, *, filled: bool = True) -> Ruling:
    """Return the rules of a table; the edges of its cells' boxes replace them in a direction with too few.

    Args:
        part: The table as it is drawn.
        filled: Filled boxes may be cells, too.
    """
    rules = [mark.bbox for mark in part.marks if mark.is_rule]
    boxes = [mark.bbox for mark in part.marks if not mark.is_rule and (filled or not mark.filled)]
    # One box alone may be the background of a cell or a border; around the whole, it is the outer rules of a table.
    boxes = boxes if len(boxes) >= FEWEST_BOXES else [box for box in boxes if rules and same_sides(box, part.bbox)]
    across = [RulePiece((y0 + y1) / 2, x0, x1) for x0, y0, x1, y1 in rules if x1 - x0 >= y1 - y0]
    down = [RulePiece((x0 + x1) / 2, y0, y1) for x0, y0, x1, y1 in rules if x1 - x0 < y1 - y0]
    if _distinct(across) < FEWEST_SIDES:
        across += [RulePiece(y, box.x0, box.x1) for box in boxes for y in (box.y0, box.y1)]
    if _distinct(down) < FEWEST_SIDES:
        down += [RulePiece(x, box.y0, box.y1) for box in boxes for x in (box.x0, box.x1)]
    return Ruling(part.bbox, tuple(down), tuple(across), FoundBy.RULED)


def _is_striped(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether a table has shaded rows from edge to edge, and white ones with text and without rules beside their cells.

    Its few rules, below headings and sums, would join many rows into one. A row may be shaded cell by cell; a single shaded row
    needs no white ones.
    """
    shaded = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    if not shaded:
        return False
    rows: dict[int, list[BBox]] = defaultdict(list)
    for box in shaded:
        rows[round(box.y0 / TOUCH_PT)].append(box)
    # What of a vertical rule is outside the shaded rows is beside white ones.
    down = [mark.bbox for mark in part.marks if mark.is_rule and mark.bbox.height > mark.bbox.width]
    if any(rule.height - sum(max(0.0, -rule.gap_y(row[0])) for row in rows.values()) > WHITE_ROW_PT for rule in down):
        return False
    across = sum(covered_length((box.x0, box.x1) for box in row) >= STRIPE_SHARE * part.bbox.width for row in rows.values())
    inner = lines_in(part.bbox, lines)
    if across < STRIPED_ROWS_SHARE * len(rows) or len(inner) <= len(rows):
        return False
    between = sum(not any(box.has_middle_of(line.bbox) for box in shaded) for line in inner)
    return len(rows) == 1 or between >= WHITE_LINES_SHARE * len(inner)


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
    return median(min(mark.bbox.width, mark.bbox.height) for mark in part.marks)


def has_bars(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether the boxes of a drawing are the bars of a chart: with a common base, and with values.

    The shaded cells of a table have the same sides in each of its rows; bars end where their values do.
    """
    boxes = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    # Vertical bars are horizontal ones with x and y exchanged.
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
        rows.setdefault(round(bar.centre_y / BASE_PT), []).append(bar)
    if len(rows) < FEWEST_ROWS_OF_BARS:
        return False
    # The pieces of a stacked bar are one row, so only its outermost ends tell of a base.
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
