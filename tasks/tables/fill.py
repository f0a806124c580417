"""Assign a page's lines and figures to its tables."""

from collections import Counter
from collections.abc import Sequence

from schemas.documents import TAGGED, Line, Placement, TableRegion
from schemas.drawings import Ruling
from schemas.tags import placeholder
from tasks.tables.tabulate import Grid, holds

_LABEL_CHARACTERS = 100
"""Characters up to which the words inside a picture are its labels; more of them are text on a background. Of 409 pages none
changes at 50 or 200.
"""


def lines_of_tables(tables: Sequence[Ruling], lines: Sequence[Line], placed: Sequence[Placement]) -> list[list[Line]]:
    """Return the lines that may belong to each table: all but the labels of a picture in one of its cells.

    Too many words to be labels are the cell's text, on a background that was taken for a picture.
    """
    lengths: Counter[int | None] = Counter()
    for line in lines:
        lengths[line.inside] += len(line.text)
    labelled = [placement for placement in placed if lengths[placement.order] <= _LABEL_CHARACTERS]
    lines_by_table: list[list[Line]] = []
    for table in tables:
        inner = {
            placement.order
            for placement in labelled
            if holds(table.bbox, placement.bbox) and not holds(placement.bbox, table.bbox)
        }
        lines_by_table.append([line for line in lines if line.inside not in inner])
    return lines_by_table


def with_placeholders(page: int, grid: Grid, placements: Sequence[Placement]) -> TableRegion:
    """Return a page's table with placeholders in the cells that contain a tagged figure."""
    rows = [list(row) for row in grid.rows]
    for placement in placements:
        if placement.page != page or placement.role not in TAGGED or placement.figure_id is None:
            continue
        holders = (
            (row, column)
            for row, boxes in zip(rows, grid.boxes, strict=True)
            for column, box in enumerate(boxes)
            if box is not None and box.has_middle_of(placement.bbox)
        )
        holder = next(holders, None)  # a picture may be in the middle of two
        if holder is not None:
            row, column = holder
            row[column] = f"{row[column]} {placeholder(placement.figure_id)}".strip()
    return TableRegion(page, grid.bbox, tuple(map(tuple, rows)), grid.found_by, grid.spans)
