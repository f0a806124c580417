"""Read tables whose rows rules separate, and whose columns only words or a layout model show."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from schemas.documents import FoundBy, Line
from schemas.drawings import RulePiece, Ruling
from schemas.geometry import BBox, is_level
from tasks.tables.align import levels_of
from tasks.tables.rows import first_word_width

WRAPPED_SHARE = 0.8
"""Minimum share of the rows of several lines with a wrapped cell; others are several rows, as above a sum."""
UNEVEN_SHARE = 0.3
"""Minimum share of those rows whose cells have different numbers of lines; groups of rows have as many in each column."""
LEAST_CHARACTERS = 8
"""Minimum length of a line that wraps; shorter ones are headers over values."""
Row = list[list[Line]]
"""The lines of each cell of a row."""
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")


def _between(edges: Sequence[float], lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines between each two edges."""
    rows: list[list[Line]] = [[] for _ in pairwise(edges)]
    for line in lines:
        at = bisect_right(edges, (line.bbox.y0 + line.bbox.y1) / 2) - 1
        if 0 <= at < len(rows):
            rows[at].append(line)
    return rows


def ruling_between(box: BBox, edges: Sequence[float], gutters: Sequence[float], found_by: FoundBy) -> Ruling:
    """Return the rules of a table whose rows are between horizontal edges, and whose columns are between gutters."""
    return Ruling(
        box,
        tuple(RulePiece(x, edges[0], edges[-1]) for x in (box.x0, *gutters, box.x1)),
        tuple(RulePiece(y, box.x0, box.x1) for y in edges),
        found_by,
    )


def rows_between(edges: Sequence[float], gutters: Sequence[float], lines: Sequence[Line]) -> list[Row]:
    """Return the lines of each cell between horizontal edges, in columns between gutters."""
    return [_columns(row, gutters) for row in _between(edges, lines)]


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
