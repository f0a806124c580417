"""Split the cells of a ruled table at the columns that other rows have, where words stand apart at each of them."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from schemas.documents import Line
from schemas.drawings import LettersOf
from schemas.geometry import BBox, turned, union
from tasks.tables.rows import LEVEL_LINES, WRITTEN, upright

Boxes = tuple[tuple[BBox | None, ...], ...]
"""The cells of a table, row by row; None if a cell is part of its neighbour."""

WORD_GAP_EM = 0.8
"""Minimum gap at a column's edge between two words of one line, in ems: those of a sentence are closer."""
FEWEST_LEVELS = 2
"""Minimum rows of words with cells side by side, over all cells that cover the same columns."""
INSIDE_PT = 1.0
"""Tolerated distance of a word outside its column."""
_WORD = re.compile(r"\S+")


class _Span(NamedTuple):
    """A cell over several columns, upright: its row, its first column, and the sides of its columns."""

    row: int
    column: int
    box: BBox
    sides: tuple[float, ...]


def split_columns(cells: Boxes, lines: Sequence[Line], letters_of: LettersOf, rotation: int = 0) -> Boxes:
    """Return the cells with those over several columns split where the words show it.

    A shaded head may be the only row whose cells are drawn, as in a table with rules between rows alone. Below it, a row of
    words is split at the head's edges. A cell stays whole if one of its words crosses an edge, and if none of those with the
    same columns has words side by side in two rows: it is a header over several columns.

    Args:
        cells: The cells as rules and boxes draw them, in the reader's order; one begins in each column.
        lines: The page's text.
        letters_of: Called for lines that cross an edge.
        rotation: How the page is rotated for its reader.
    """
    groups: dict[tuple[float, ...], dict[_Span, list[BBox]]] = {}
    for span in _spans(cells, rotation):
        inner = [line for line in lines if span.box.has_middle_of(upright(line.bbox, rotation))]
        pieces = _pieces(span, inner, letters_of, rotation)
        if pieces:
            groups.setdefault(span.sides, {})[span] = pieces
    split = [list(row) for row in cells]
    across, down = WRITTEN[rotation % 360]
    for group in groups.values():
        if sum(_levels(span, pieces) for span, pieces in group.items()) < FEWEST_LEVELS:
            continue
        for span in group:
            for at, (cell_x0, cell_x1) in enumerate(pairwise(span.sides), span.column):
                split[span.row][at] = turned(span.box._replace(x0=cell_x0, x1=cell_x1), (across, -down))
    return tuple(map(tuple, split))


def _spans(cells: Boxes, rotation: int) -> Iterator[_Span]:
    """Yield the cells over several columns whose inner edges other rows show."""
    upright_cells = [[None if cell is None else upright(cell, rotation) for cell in row] for row in cells]
    starts = [min(cell.x0 for cell in column if cell is not None) for column in zip(*upright_cells, strict=True)]
    for number, row in enumerate(upright_cells):
        for column, box in enumerate(row):
            edges = [] if box is None else [edge for edge in starts[column + 1 :] if edge < box.x1 - INSIDE_PT]
            if box is not None and edges:
                yield _Span(number, column, box, (box.x0, *edges, box.x1))


def _pieces(span: _Span, lines: Sequence[Line], letters_of: LettersOf, rotation: int) -> list[BBox]:
    """Return the words of a cell, those of one line and column as one; [] if one crosses an edge."""
    pieces: list[BBox] = []
    for line in lines:
        line_box = upright(line.bbox, rotation)
        if _column_of(line_box, span.sides) is not None:
            pieces.append(line_box)
            continue
        text, letters = letters_of(line)
        boxes = [upright(box, rotation) for _, box in words_with_boxes(text, letters)]
        columns = [_column_of(box, span.sides) for box in boxes]
        apart = all(
            before == after or following_word.x0 - word.x1 >= WORD_GAP_EM * line.size
            for (before, word), (after, following_word) in pairwise(zip(columns, boxes, strict=True))
        )
        if None in columns or not apart:
            return []
        pieces += [union(box for box, at in zip(boxes, columns, strict=True) if at == column) for column in {*columns}]
    return pieces


def words_with_boxes(text: str, letters: Sequence[Sequence[float]]) -> Iterator[tuple[str, BBox]]:
    """Yield the words of a line, each with the box around its letters."""
    for word in _WORD.finditer(text):
        yield word[0], union(BBox(*letter) for letter in letters[slice(*word.span())])


def _column_of(box: BBox, sides: Sequence[float]) -> int | None:
    """Return the column that a box is in; None if it crosses an edge."""
    inside = (
        side - INSIDE_PT <= box.x0 and box.x1 <= following_side + INSIDE_PT for side, following_side in pairwise(sides)
    )
    return next((column for column, is_inside in enumerate(inside) if is_inside), None)


def _levels(span: _Span, pieces: Sequence[BBox]) -> int:
    """Return how many rows of words have words in two columns."""
    levels: list[tuple[float, set[int | None]]] = []
    for box in sorted(pieces, key=lambda box: box.y0 + box.y1):
        middle = (box.y0 + box.y1) / 2
        if not levels or middle - levels[-1][0] > LEVEL_LINES * box.height:
            levels.append((middle, set()))
        levels[-1][1].add(_column_of(box, span.sides))
    return sum(len(columns) > 1 for _, columns in levels)
