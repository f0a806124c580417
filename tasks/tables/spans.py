"""Find the cells of a ruled table that are over several columns or rows."""

from collections.abc import Sequence

from schemas.documents import CellSpan
from tasks.tables.rows import Row, TableCell, upright

INSIDE_PT = 1.0
"""Minimum length of a cell beyond the start of another row or column that it covers."""


def merged_cells(rows: Sequence[Row], rotation: int) -> tuple[CellSpan, ...]:
    """Return the cells of a table that cover others.

    A cell covers a place without a cell of its own if it extends beyond where that place's row or column starts.

    Args:
        rows: The cells, as the reader sees them from left to right; None where one is covered.
        rotation: How the page is rotated for its reader.
    """
    boxes = [[None if cell is None else upright(cell.bbox, rotation) for cell in row] for row in rows]
    lefts = [min((box.x0 for box in column if box is not None), default=0.0) for column in zip(*boxes, strict=True)]
    tops = [min((box.y0 for box in row if box is not None), default=0.0) for row in boxes]
    spans: list[CellSpan] = []
    for row, line in enumerate(boxes):
        for column, box in enumerate(line):
            if box is None:
                continue
            right, low = column + 1, row + 1
            while right < len(lefts) and line[right] is None and lefts[right] < box.x1 - INSIDE_PT:
                right += 1
            while low < len(tops) and not any(boxes[low][column:right]) and tops[low] < box.y1 - INSIDE_PT:
                low += 1
            if (right, low) != (column + 1, row + 1):
                spans.append(CellSpan(row, column, low - row, right - column))
    return tuple(spans)


def mirrored(rows: Sequence[Row], spans: Sequence[CellSpan]) -> tuple[list[Row], tuple[CellSpan, ...]]:
    """Return rows from right to left with each cell over several columns in the first of them, and the spans in that order."""
    moved: list[list[TableCell | None]] = [list(row) for row in rows]
    turned: list[CellSpan] = []
    for span in spans:
        last = len(rows[span.row]) - 1 - span.column
        first = last - span.colspan + 1
        moved[span.row][first], moved[span.row][last] = moved[span.row][last], moved[span.row][first]
        turned.append(CellSpan(span.row, first, span.rowspan, span.colspan))
    return list(map(tuple, moved)), tuple(turned)
