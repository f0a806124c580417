"""Find the tables whose rows rules separate, and whose columns only words show, such as tables of faults and remedies."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from schemas.documents import FoundBy, Line
from schemas.drawings import Ruling, Side
from schemas.geometry import BBox, is_level, overlap, union
from tasks.figures.parts import Part, near, same_sides
from tasks.tables.align import gutters_of, levels_of
from tasks.tables.rows import first_word_width
from tasks.tables.tabulate import SAME_EDGE_PT

FEWEST_ROWS = 3
"""Minimum rows, and minimum rules: the outer ones may be missing."""
MOST_LEVELS = 12
"""Maximum lines of text, one below the other, in a row: articles between rules have more."""
SPLIT_SHARE = 0.8
"""Minimum share of the rows with words in two columns."""
CROSSED_SHARE = 0.1
"""Maximum share of the lines that cross a gutter."""
FLUSH_SHARE = 0.8
"""Minimum share of a column's lines that begin, or end, at one of two places: of a list, items and their ends."""
WRAPPED_SHARE = 0.8
"""Minimum share of the rows of several lines with a wrapped cell; others are several rows, as above a sum."""
UNEVEN_SHARE = 0.3
"""Minimum share of those rows whose cells have different numbers of lines; groups of rows have as many in each column."""
LEAST_CHARACTERS = 8
"""Minimum length of a line that wraps; shorter ones are headers over values."""
OUTER_EM = 1.5
"""Maximum gap between the outermost rule and a row beyond it that no rule closes, in ems."""
LINE_EM = 0.5
"""Maximum gap between two lines of such a row, in ems."""
Row = list[list[Line]]
"""The lines of each cell of a row."""
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")


def tables_between_rules(parts: Sequence[Part], lines: Sequence[Line]) -> list[Ruling]:
    """Return the tables that horizontal rules of one width show, and whose words don't: a cell has two lines or more.

    Args:
        parts: The drawings of a page that are no tables.
        lines: The page's visible text.
    """
    drawn = [part.bbox for part in parts if part.strokes]
    found: list[Ruling] = []
    for box, edges in _stacks(parts):
        for run in _runs(box, edges, lines):
            table = _table(box, run, lines)
            if table is not None and not any(overlap(table.bbox, other) for other in drawn):
                found.append(table)
    return found


def _stacks(parts: Sequence[Part]) -> Iterator[tuple[BBox, list[float]]]:
    """Yield the rules from one side to another, by their box and their heights."""
    stacks: dict[tuple[int, int], list[BBox]] = defaultdict(list)
    for rule in (rule for part in parts if not part.strokes and not part.images for rule in _rules_of(part)):
        stacks[round(rule.x0 / SAME_EDGE_PT), round(rule.x1 / SAME_EDGE_PT)].append(rule)
    for rules in stacks.values():
        if len(rules) >= FEWEST_ROWS:
            yield union(rules), sorted((rule.y0 + rule.y1) / 2 for rule in rules)


def _rules_of(part: Part) -> list[BBox]:
    """Return the horizontal rules of a drawing, each in one piece; [] if anything but a border is drawn besides."""
    box = part.bbox
    levels: dict[int, list[BBox]] = defaultdict(list)
    for mark in part.marks:
        x0, y0, x1, y1 = mark.bbox
        if mark.is_rule and x1 - x0 > y1 - y0:
            levels[round(y0 / SAME_EDGE_PT)].append(mark.bbox)
        elif not mark.filled and same_sides(mark.bbox, box):
            for y in (y0, y1):
                levels[round(y / SAME_EDGE_PT)].append(BBox(x0, y, x1, y))
        elif not mark.is_rule or not (near(x0, box.x0) or near(x1, box.x1)):
            return []
    return [union(pieces) for pieces in levels.values()]


def _runs(box: BBox, edges: Sequence[float], lines: Sequence[Line]) -> Iterator[list[float]]:
    """Yield the edges of rows that follow each other, each with few lines of text."""
    run: list[float] = []
    own = [line for line in lines if box.has_middle_of(line.bbox)]
    for (top, bottom), row in zip(pairwise(edges), _between(edges, own), strict=True):
        if 0 < len(levels_of(row)) <= MOST_LEVELS:
            run = [*run, bottom] if run else [top, bottom]
        else:
            yield run
            run = []
    yield run


def _between(edges: Sequence[float], lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines between each two edges."""
    rows: list[list[Line]] = [[] for _ in pairwise(edges)]
    for line in lines:
        at = bisect_right(edges, (line.bbox.y0 + line.bbox.y1) / 2) - 1
        if 0 <= at < len(rows):
            rows[at].append(line)
    return rows


def _table(box: BBox, edges: Sequence[float], lines: Sequence[Line]) -> Ruling | None:
    if len(edges) < FEWEST_ROWS:
        return None
    within = box._replace(y0=edges[0], y1=edges[-1])
    inner = [line for line in lines if within.has_middle_of(line.bbox)]
    gutters = gutters_of(inner)
    if not gutters:
        return None
    edges = _with_outer_rows(within, edges, gutters, lines)
    within = box._replace(y0=edges[0], y1=edges[-1])
    own = [line for line in lines if within.has_middle_of(line.bbox)]
    rows = rows_between(edges, gutters, own)
    crossed = sum(line.bbox.x0 < gutter < line.bbox.x1 for line in inner for gutter in gutters)
    if crossed > CROSSED_SHARE * len(inner) or not _has_columns(rows) or not has_wrapped_rows(rows):
        return None
    return ruling_between(within, edges, gutters, FoundBy.RULED)


def ruling_between(box: BBox, edges: Sequence[float], gutters: Sequence[float], found_by: FoundBy) -> Ruling:
    """Return the rules of a table whose rows are between horizontal edges, and whose columns are between gutters."""
    return Ruling(
        box,
        tuple(Side(x, edges[0], edges[-1]) for x in (box.x0, *gutters, box.x1)),
        tuple(Side(y, box.x0, box.x1) for y in edges),
        found_by,
    )


def rows_between(edges: Sequence[float], gutters: Sequence[float], lines: Sequence[Line]) -> list[Row]:
    """Return the lines of each cell between horizontal edges, in columns between gutters."""
    return [_columns(row, gutters) for row in _between(edges, lines)]


def _has_columns(rows: Sequence[Row]) -> bool:
    """Return whether most rows have words in two columns, whose lines are flush."""
    split = sum(sum(map(bool, row)) > 1 for row in rows)
    return len(rows) >= FEWEST_ROWS and split >= SPLIT_SHARE * len(rows) and all(map(_is_flush, _joined(rows)[1:]))


def has_wrapped_rows(rows: Sequence[Row]) -> bool:
    """Return whether rows of several lines are single rows with wrapped cells, not groups of rows or rows above a sum."""
    tall = [row for row in rows if any(len(levels_of(cell)) > 1 for cell in row)]
    if not tall or any(_has_values(cell) for row in tall for cell in row):
        return False
    room = [max((line.bbox.x1 for line in column), default=0.0) for column in _joined(rows)]
    wrapped = sum(any(_is_wrapped(cell, right) for cell, right in zip(row, room, strict=True)) for row in tall)
    uneven = sum(len({len(levels_of(cell)) for cell in row if cell}) > 1 for row in tall)
    return wrapped >= WRAPPED_SHARE * len(tall) and uneven >= UNEVEN_SHARE * len(tall)


def _joined(rows: Sequence[Row]) -> list[list[Line]]:
    """Return the lines of each column."""
    return [[line for cell in column for line in cell] for column in zip(*rows, strict=True)]


def _columns(row: Sequence[Line], gutters: Sequence[float]) -> Row:
    cells: Row = [[] for _ in range(len(gutters) + 1)]
    for line in row:
        cells[bisect_right(gutters, (line.bbox.x0 + line.bbox.x1) / 2)].append(line)
    return cells


def _is_flush(column: Sequence[Line]) -> bool:
    """Return whether most lines of a column begin, or end, at one of two places; the pieces of justified lines do neither."""
    sides = (Counter(round(line.bbox[at] / SAME_EDGE_PT) for line in column) for at in (0, 2))
    return any(sum(count for _, count in side.most_common(2)) >= FLUSH_SHARE * len(column) for side in sides)


def _has_values(cell: Sequence[Line]) -> bool:
    """Return whether a cell has a number below a number: those of two rows."""
    return len(levels_of([line for line in cell if not _LETTER.search(line.text) and _DIGIT.search(line.text)])) > 1


def _is_wrapped(cell: Sequence[Line], right: float) -> bool:
    """Return whether a line of a cell goes on the one above, which had no room for its first word."""
    levels = sorted(cell, key=lambda line: line.bbox.y0)
    return any(_goes_on(above, line, right) for above, line in pairwise(levels) if not is_level(above.bbox, line.bbox))


def _goes_on(above: Line, line: Line, right: float) -> bool:
    words = line.text.split()
    if (
        not words
        or len(above.text.strip()) < LEAST_CHARACTERS
        or not (_LETTER.search(above.text) and _LETTER.search(words[0]))
    ):
        return False
    return above.bbox.x1 + first_word_width(line.text, line.bbox) > right


def _with_outer_rows(box: BBox, edges: Sequence[float], gutters: Sequence[float], lines: Sequence[Line]) -> list[float]:
    """Return edges with those of a row above the first rule, and of one below the last, which no rule closes.

    Such a row is words in two columns, close to the rule and to each other.
    """
    rows = list(edges)
    beside = [
        line for line in lines if box.x0 <= line.bbox.x0 and line.bbox.x1 <= box.x1 and not box.has_middle_of(line.bbox)
    ]
    for at in (0, -1):
        row = BBox(box.x0, edges[at], box.x1, edges[at])
        own: list[Line] = []
        for line in sorted(beside, key=lambda line: abs(line.bbox.y0 - edges[at])):
            away = row.y0 - line.bbox.y1 if at == 0 else line.bbox.y0 - row.y1
            if -1.1 * line.bbox.height < away <= (LINE_EM if own else OUTER_EM) * line.size:
                own.append(line)
                row |= line.bbox
        crossed = any(line.bbox.x0 < gutter < line.bbox.x1 for line in own for gutter in gutters)
        if not crossed and sum(map(bool, _columns(own, gutters))) > 1:
            rows = [row.y0, *rows] if at == 0 else [*rows, row.y1]
    return rows
