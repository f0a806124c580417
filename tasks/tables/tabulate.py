"""Read the cells of a table between rules; assign a page's lines and figures to its tables."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.documents import TAGGED, CellSpan, FoundBy, Line, Placement, TableRegion, lines_in
from schemas.drawings import LettersOf, RulePiece, Ruling
from schemas.geometry import BBox, is_level, union
from schemas.tags import placeholder
from tasks.tables.align import CELL_GAP_EM, levels_of
from tasks.tables.rows import CellLine, Row, TableCell, View, split_rows

Boxes = tuple[tuple[BBox | None, ...], ...]
"""The cells of a table, row by row; None if a cell is part of its neighbour."""

INSIDE_PT = 1.0
"""Minimum length of a cell beyond the start of another row or column that it covers."""

SAME_EDGE_PT = 3.0
"""Tolerated distance of two edges that are one. Of 1,732 ruled tables 73 change at 2.01 (double rules make empty cells), 121 at
4.5 (narrow columns are lost).
"""
WALL_SHARE = 0.6
"""Share of a cell's side that rules cover, from which on it is ruled. Of 1,732 ruled tables 2 change at 0.402, 44 at 0.9 (cells
with rules in pieces join).
"""
HELD_PT = 1.0
"""Tolerated distance outside a table or a picture of a box that is in it."""
_WORD = re.compile(r"\S+")


def _merged_cells(rows: Sequence[Row]) -> tuple[CellSpan, ...]:
    """Return the cells of a table that cover others.

    A cell covers a place without a cell of its own if it extends beyond where that place's row or column starts.
    """
    boxes = [[None if cell is None else cell.bbox for cell in row] for row in rows]
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


@dataclass(frozen=True, slots=True)
class Grid:
    """A table on a page; ``boxes`` has None if a cell is part of its neighbour."""

    bbox: BBox
    rows: tuple[tuple[str, ...], ...]
    boxes: Boxes
    found_by: FoundBy
    spans: tuple[CellSpan, ...] = ()


def tabulate(
    ruling: Ruling,
    lines: Sequence[Line],
    letters_of: LettersOf,
    rotation: int = 0,
    *,
    right_to_left: bool = False,
    pictures: Sequence[BBox] = (),
) -> Grid | None:
    """Read the table that rules draw; without rules between rows, its lines show them.

    Args:
        ruling: The rules.
        lines: The page's text.
        letters_of: Called only for lines that cross an edge of a cell.
        rotation: How the page is rotated for its reader, who may see rows where the unrotated page has columns.
        right_to_left: The columns of the page's tables run from right to left.
        pictures: Boxes of the page's pictures: a cell with one isn't empty.

    Returns:
        A table of at least two rows and two columns, one row if a layout model sees it; None if the rules draw none.
    """
    view = View(rotation, right_to_left)
    cells = _filled(cells_of(view.ruling(ruling, view.seen)))
    fewest = 1 if ruling.found_by is FoundBy.LAYOUT else 2  # a head may be alone at the foot of a page
    if len(cells) < fewest or max(sum(cell is not None for cell in row) for row in cells) < 2:
        return None
    seen_lines, letters_of = view.lines(lines), view.letters(letters_of)
    # The grid of a layout model has no cells over several columns that could be split.
    if ruling.found_by is not FoundBy.LAYOUT:
        cells = split_columns(cells, seen_lines, letters_of)
    cell_boxes = [cell for row in cells for cell in row if cell is not None]
    box = union(cell_boxes).rounded()
    lines_of_cells = iter(_lines_by_cell(cell_boxes, box, seen_lines, letters_of))
    bands = [
        tuple(None if cell is None else TableCell(cell, _unbroken(next(lines_of_cells))) for cell in row) for row in cells
    ]
    table = bands if ruling.found_by is FoundBy.LAYOUT else [row for band in bands for row in split_rows(band)]
    rows = tuple(tuple("" if cell is None else cell.text for cell in row) for row in table)
    boxes = tuple(tuple(None if cell is None else view.stored(cell.bbox) for cell in row) for row in table)
    # Words in a single column aren't a table, but two rows are that have a picture beside words or another picture.
    worded = max(sum(map(bool, row)) for row in rows) >= 2
    seen_pictures = [view.seen(picture) for picture in pictures]
    pictured = sum(sum(_is_filled(cell, seen_pictures) for cell in row) >= 2 for row in table) >= 2
    if not (worded or pictured):
        return None
    return Grid(view.stored(box), rows, boxes, ruling.found_by, _merged_cells(table))


def _is_filled(cell: TableCell | None, pictures: Sequence[BBox]) -> bool:
    return cell is not None and (bool(cell.text) or any(cell.bbox.has_middle_of(picture) for picture in pictures))


def cells_of(ruling: Ruling) -> Boxes:
    """Return the cells between rules, row by row; None if a cell is part of one above it or left of it."""
    if not ruling.across:
        return ()
    # A table may have no rules at its sides: it ends where the others do.
    xs = _merged([*(side.at for side in ruling.down), *(end for side in ruling.across for end in side[1:])])
    ys = _merged([*(side.at for side in ruling.across), *(end for side in ruling.down for end in side[1:])])
    covered = np.zeros((len(ys) - 1, len(xs) - 1), dtype=bool)
    # `walls` tells of each place whether a rule is at its left, `floors` whether one is above it.
    walls = np.array([_are_walls(ruling.down, x, ys) for x in xs], dtype=bool).T
    floors = np.array([_are_walls(ruling.across, y, xs) for y in ys], dtype=bool)
    cells: list[list[BBox | None]] = [[None] * covered.shape[1] for _ in range(covered.shape[0])]
    for row, column in np.ndindex(covered.shape):
        if covered[row, column]:
            continue
        # From its upper left place, a cell grows to the right and then down, until a rule or another cell ends it.
        right = column + 1
        while right < covered.shape[1] and not walls[row, right] and not covered[row, right]:
            right += 1
        low = row + 1
        while (
            low < covered.shape[0]
            and not floors[low, column:right].any()
            and not walls[low, column + 1 : right].any()
            and not covered[low, column:right].any()
        ):
            low += 1
        covered[row:low, column:right] = True
        cells[row][column] = BBox(xs[column], ys[row], xs[right], ys[low])
    return tuple(map(tuple, cells))


def _filled(cells: Boxes) -> Boxes:
    """Return the cells without rows and columns in which none begins: a piece of a rule ends there, nothing else."""
    rows = [row for row in cells if any(cell is not None for cell in row)]
    columns = [column for column in zip(*rows, strict=True) if any(cell is not None for cell in column)]
    return tuple(zip(*columns, strict=True))


def _merged(coordinates: Iterable[float]) -> list[float]:
    """Return sorted coordinates, with those a few points apart merged."""
    groups: list[list[float]] = []
    for at in sorted(coordinates):
        if groups and at - groups[-1][-1] <= SAME_EDGE_PT:
            groups[-1].append(at)
        else:
            groups.append([at])
    return [sum(group) / len(group) for group in groups]


def _are_walls(sides: Iterable[RulePiece], at: float, levels: Sequence[float]) -> list[bool]:
    """Return between which levels the rules at a coordinate separate two cells."""
    near = [(side.start, side.end) for side in sides if abs(side.at - at) <= SAME_EDGE_PT]
    return [covered_length(near, start, end) >= WALL_SHARE * (end - start) for start, end in pairwise(levels)]


def covered_length(pieces: Iterable[tuple[float, float]], start: float = -math.inf, end: float = math.inf) -> float:
    """Return how much of a line pieces of it cover; they may overlap."""
    covered, reached = 0.0, start
    for piece_start, piece_end in sorted(pieces):
        covered += max(0.0, min(piece_end, end) - max(piece_start, reached))
        reached = max(reached, piece_end)
    return covered


def _lines_by_cell(
    cells: Sequence[BBox], table: BBox, lines: Sequence[Line], letters_of: LettersOf
) -> list[list[CellLine]]:
    """Return the lines of each cell.

    A word goes as a whole to the cell with most of its letters. A word in no cell goes to the nearest one if its line is in the
    table, since that line is removed from the page's text.
    """
    lines_of_cells: list[list[CellLine]] = [[] for _ in cells]
    edges = np.array(cells)
    near = [line for line in lines if _meets(line.bbox, table.grown(HELD_PT))]
    boxes = np.array([line.bbox for line in near]).reshape(-1, 4)
    # Most lines are in one cell as a whole; only the others need the positions of their letters, which take long to read.
    for line, holder in zip(near, _holders(boxes[:, :2], boxes[:, 2:], edges), strict=True):
        if holder >= 0:
            lines_of_cells[holder].append(CellLine(" ".join(line.text.split()), line.bbox))
            continue
        by_cell: dict[int, list[CellLine]] = {}
        for word, number in _words(*letters_of(line), edges, stays=holds(table, line.bbox)):
            by_cell.setdefault(number, []).append(word)
        for number, words in by_cell.items():
            lines_of_cells[number].append(
                CellLine(" ".join(word.text for word in words), union(word.bbox for word in words))
            )
    return lines_of_cells


def _unbroken(lines: Sequence[CellLine]) -> list[CellLine]:
    """Return the lines of a cell, those that are one line of text joined: a PDF may set "$" and "506" apart."""
    joined: list[CellLine] = []
    for line in lines:
        before = joined[-1].bbox if joined else None
        if before is not None and line.bbox.x0 >= before.x1 - HELD_PT and is_level(before, line.bbox):
            joined[-1] = CellLine(f"{joined[-1].text} {line.text}", before | line.bbox)
        else:
            joined.append(line)
    return joined


def _words(
    text: str, boxes: Sequence[Sequence[float]], cells: NDArray[np.float64], *, stays: bool
) -> Iterator[tuple[CellLine, int]]:
    """Yield each word of a line with its cell's index; with ``stays``, words in no cell get the nearest."""
    sides = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    centres = (sides[:, None, :2] + sides[:, None, 2:]) / 2
    apart = np.maximum(np.maximum(cells[:, :2] - centres, centres - cells[:, 2:]), 0.0).sum(axis=2)
    nearest, is_inside = apart.argmin(axis=1), apart.min(axis=1) == 0
    for word in _WORD.finditer(text):
        letters = slice(*word.span())
        inside = nearest[letters][is_inside[letters]]
        if inside.size or stays:
            part = CellLine(word[0], union(BBox(*box) for box in boxes[letters]))
            yield part, int(np.bincount(inside if inside.size else nearest[letters]).argmax())


def _holders(low: NDArray[np.float64], high: NDArray[np.float64], cells: NDArray[np.float64]) -> list[int]:
    """Return the first cell around each box, given by upper left and lower right corners; -1 for none."""
    inside = np.all(low[:, None] >= cells[:, :2], axis=2) & np.all(high[:, None] <= cells[:, 2:], axis=2)
    holders: list[int] = np.where(np.any(inside, axis=1), np.argmax(inside, axis=1), -1).tolist()
    return holders


def _meets(first: BBox, second: BBox) -> bool:
    return first.x0 <= second.x1 and second.x0 <= first.x1 and first.y0 <= second.y1 and second.y0 <= first.y1


def holds(outer: BBox, inner: BBox) -> bool:
    """Return whether a box is in a table or a picture.

    Reading a table's words and removing its lines from the text must use the same test, or words are lost or repeated.
    """
    return outer.grown(HELD_PT).has_middle_of(inner)


FEWEST_LEVELS = 2
"""Minimum rows of words with cells side by side, over all cells that cover the same columns."""
WITHIN_PT = 1.0
"""Tolerated distance of a word outside its column."""


class _Span(NamedTuple):
    """A cell over several columns: its row, its first column, and the sides of its columns."""

    row: int
    column: int
    box: BBox
    sides: tuple[float, ...]


def split_columns(cells: Boxes, lines: Sequence[Line], letters_of: LettersOf) -> Boxes:
    """Return the cells with those over several columns split where the words show it.

    A shaded head may be the only row whose cells are drawn, as in a table with rules between rows alone. Below it, a row of
    words is split at the head's edges. A cell stays whole if one of its words crosses an edge, and if none of those with the
    same columns has words side by side in two rows: it is a header over several columns.

    Args:
        cells: The cells as rules and boxes draw them, in the reader's order; one begins in each column.
        lines: The page's text.
        letters_of: Called for lines that cross an edge.
    """
    groups: dict[tuple[float, ...], list[tuple[_Span, int]]] = defaultdict(list)
    for span in _spans(cells):
        pieces = [piece for line in lines_in(span.box, lines) for piece in pieces_of(line, span.sides, letters_of)]
        columns_of_rows = [{_column_of(piece.bbox, span.sides) for piece in row} for row in levels_of(pieces)]
        if pieces and None not in set().union(*columns_of_rows):
            groups[span.sides].append((span, sum(len(columns) > 1 for columns in columns_of_rows)))
    split = [list(row) for row in cells]
    for group in groups.values():
        for span, _ in group if sum(levels for _, levels in group) >= FEWEST_LEVELS else ():
            for at, (cell_x0, cell_x1) in enumerate(pairwise(span.sides), span.column):
                split[span.row][at] = span.box._replace(x0=cell_x0, x1=cell_x1)
    return tuple(map(tuple, split))


def _spans(cells: Boxes) -> Iterator[_Span]:
    """Yield the cells over several columns whose inner edges other rows show."""
    starts = [min(cell.x0 for cell in column if cell is not None) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        for column, box in enumerate(row):
            edges = [] if box is None else [edge for edge in starts[column + 1 :] if edge < box.x1 - WITHIN_PT]
            if box is not None and edges:
                yield _Span(number, column, box, (box.x0, *edges, box.x1))


def pieces_of(line: Line, edges: Sequence[float], letters_of: LettersOf) -> list[Line]:
    """Return a line cut where its words stand apart if it crosses an edge: "256.5" and the next cell's "$"."""
    if not any(line.bbox.x0 < edge < line.bbox.x1 for edge in edges):
        return [line]
    text, letters = letters_of(line)
    pieces: list[Line] = []
    for word in _WORD.finditer(text):
        box = union(BBox(*letter) for letter in letters[slice(*word.span())])
        if pieces and box.x0 - pieces[-1].bbox.x1 < CELL_GAP_EM * line.size:
            pieces[-1] = pieces[-1]._replace(text=f"{pieces[-1].text} {word[0]}", bbox=pieces[-1].bbox | box)
        else:
            pieces.append(line._replace(text=word[0], bbox=box))
    return pieces


def _column_of(box: BBox, sides: Sequence[float]) -> int | None:
    """Return the column that a box is in; None if it crosses an edge."""
    inside = (
        side - WITHIN_PT <= box.x0 and box.x1 <= following_side + WITHIN_PT for side, following_side in pairwise(sides)
    )
    return next((column for column, is_inside in enumerate(inside) if is_inside), None)


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
