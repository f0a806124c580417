"""Read the cells of a table."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from schemas.documents import Line
from schemas.drawings import LettersOf, Ruling, Side
from schemas.geometry import BBox, union
from tasks.tables.rows import Cell, Piece, Row, split_rows

SAME_EDGE_PT = 3.0
WALL_SHARE = 0.6
HELD_PT = 1.0
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it stands on a page; ``boxes`` has None where a cell is part of its neighbour."""

    bbox: BBox
    rows: tuple[tuple[str, ...], ...]
    boxes: tuple[tuple[BBox | None, ...], ...]


def tabulate(
    ruling: Ruling,
    lines: Sequence[Line],
    letters_of: LettersOf,
    rotation: int = 0,
    *,
    right_to_left: bool = False,
    pictures: Sequence[BBox] = (),
) -> Grid | None:
    """Read the table that rules draw; where they part its head and its end only, its lines show its rows.

    Args:
        ruling: The rules.
        lines: What is written on the page.
        letters_of: Is asked only of lines that cross an edge of a cell.
        rotation: How the page is turned for its reader, who sees rows where the unturned page has columns.
        right_to_left: The page is read from right to left, and so are the columns of its tables.
        pictures: Where pictures stand on the page: a cell that holds one isn't empty.

    Returns:
        A table of two rows and two columns at least; None where the rules draw none.
    """
    cells = _turned(cells_of(ruling), rotation)
    if len(cells) < 2 or max(sum(cell is not None for cell in row) for row in cells) < 2:
        return None
    box = union(cell for row in cells for cell in row if cell is not None).rounded()
    written = iter(_set_into([cell for row in cells for cell in row if cell is not None], box, lines, letters_of))
    ruled = [tuple(None if cell is None else Cell(cell, next(written)) for cell in row) for row in cells]
    half = sum(map(_lines_in, ruled)) / 2
    table = [
        row
        for band in ruled
        for row in split_rows(band[::-1] if right_to_left else band, rotation, by_words=_lines_in(band) > half)
    ]
    rows = tuple(tuple("" if cell is None else cell.text for cell in row) for row in table)
    boxes = tuple(tuple(None if cell is None else cell.bbox for cell in row) for row in table)
    worded = max(sum(map(bool, row)) for row in rows) >= 2
    pictured = sum(sum(map(_is_filled, row, repeat(pictures))) >= 2 for row in table) >= 2
    return Grid(box, rows, boxes) if worded or pictured else None


def _is_filled(cell: Cell | None, pictures: Sequence[BBox]) -> bool:
    return cell is not None and (bool(cell.text) or any(cell.bbox.has_middle_of(picture) for picture in pictures))


def cells_of(ruling: Ruling) -> tuple[tuple[BBox | None, ...], ...]:
    """Return the cells between rules, row by row; None where a cell is part of one above it or left of it."""
    if not ruling.across:
        return ()
    # A table may be open at its sides: it ends where its rules do.
    xs = _merged([*(side.at for side in ruling.down), *(end for side in ruling.across for end in side[1:])])
    ys = _merged([*(side.at for side in ruling.across), *(end for side in ruling.down for end in side[1:])])
    taken = np.zeros((len(ys) - 1, len(xs) - 1), dtype=bool)
    walls = np.array([_standing(ruling.down, x, ys) for x in xs], dtype=bool).T
    floors = np.array([_standing(ruling.across, y, xs) for y in ys], dtype=bool)
    cells: list[list[BBox | None]] = [[None] * taken.shape[1] for _ in range(taken.shape[0])]
    for row, column in np.ndindex(taken.shape):
        if taken[row, column]:
            continue
        right = column + 1
        while right < taken.shape[1] and not walls[row, right] and not taken[row, right]:
            right += 1
        low = row + 1
        while (
            low < taken.shape[0]
            and not floors[low, column:right].any()
            and not walls[low, column + 1 : right].any()
            and not taken[low, column:right].any()
        ):
            low += 1
        taken[row:low, column:right] = True
        cells[row][column] = BBox(xs[column], ys[row], xs[right], ys[low])
    return tuple(map(tuple, cells))


def _turned(cells: tuple[tuple[BBox | None, ...], ...], rotation: int) -> tuple[tuple[BBox | None, ...], ...]:
    """Return the cells as the page's reader sees them; turned by a quarter, the first column becomes the first row."""
    for _ in range(rotation % 360 // 90):
        cells = tuple(zip(*reversed(cells), strict=True))
    return cells


def _merged(places: Iterable[float]) -> list[float]:
    """Return places that are a few points apart as one, sorted."""
    groups: list[list[float]] = []
    for place in sorted(places):
        if groups and place - groups[-1][-1] <= SAME_EDGE_PT:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [sum(group) / len(group) for group in groups]


def _standing(sides: Iterable[Side], at: float, levels: Sequence[float]) -> list[bool]:
    """Return between which levels pieces of rules together part two cells."""
    near = sorted(side for side in sides if abs(side.at - at) <= SAME_EDGE_PT)
    return [_covered(near, start, end) >= WALL_SHARE * (end - start) for start, end in pairwise(levels)]


def _covered(sides: Sequence[Side], start: float, end: float) -> float:
    covered, reached = 0.0, start
    for side in sides:
        if side.end > start and side.start < end:
            covered += max(0.0, min(side.end, end) - max(side.start, reached))
            reached = max(reached, side.end)
    return covered


def _lines_in(row: Row) -> int:
    return sum(len(cell.pieces) for cell in row if cell is not None)


def _set_into(cells: Sequence[BBox], table: BBox, lines: Sequence[Line], letters_of: LettersOf) -> list[list[Piece]]:
    """Return what is written in each cell of a table.

    A word is not torn: it goes to the cell that holds most of its letters. A word in no cell goes to the nearest one if its
    line stands in the table: that line is the table's, and nothing of it may be lost.
    """
    written: list[list[Piece]] = [[] for _ in cells]
    edges = np.array(cells)
    near = [line for line in lines if _meets(line.bbox, table.grown(HELD_PT))]
    boxes = np.array([line.bbox for line in near]).reshape(-1, 4)
    for line, number in zip(near, _holders(boxes[:, :2], boxes[:, 2:], edges), strict=True):
        if number >= 0:
            written[number].append(Piece(" ".join(line.text.split()), line.bbox))
            continue
        parted: dict[int, list[Piece]] = {}
        for word, place in _words(*letters_of(line), edges, stays=holds(table, line.bbox)):
            parted.setdefault(place, []).append(word)
        for place, words in parted.items():
            written[place].append(Piece(" ".join(word.text for word in words), union(word.bbox for word in words)))
    return written


def _words(
    text: str, boxes: Sequence[Sequence[float]], cells: NDArray[np.float64], *, stays: bool
) -> Iterator[tuple[Piece, int]]:
    """Yield each word of a line that crosses cells with its cell's number; with ``stays``, those in no cell have one too."""
    sides = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    centres = (sides[:, :2] + sides[:, 2:]) / 2
    holders = np.array(_holders(centres, centres, cells))
    for word in _WORD.finditer(text):
        held = holders[word.start() : word.end()]
        piece = Piece(word[0], union(BBox(*box) for box in boxes[word.start() : word.end()]))
        if (held >= 0).any():
            yield piece, int(np.bincount(held[held >= 0]).argmax())
        elif stays:
            middle = centres[word.start() : word.end()].mean(axis=0)
            apart = np.maximum(np.maximum(cells[:, :2] - middle, middle - cells[:, 2:]), 0.0)
            yield piece, int(apart.sum(axis=1).argmin())


def _holders(low: NDArray[np.float64], high: NDArray[np.float64], cells: NDArray[np.float64]) -> list[int]:
    """Return the first cell that each thing lies in, by its upper left and lower right corners; -1 for one in none."""
    inside = np.all(low[:, None] >= cells[:, :2], axis=2) & np.all(high[:, None] <= cells[:, 2:], axis=2)
    holders: list[int] = np.where(np.any(inside, axis=1), np.argmax(inside, axis=1), -1).tolist()
    return holders


def _meets(one: BBox, other: BBox) -> bool:
    return one.x0 <= other.x1 and other.x0 <= one.x1 and one.y0 <= other.y1 and other.y0 <= one.y1


def holds(outer: BBox, inner: BBox) -> bool:
    """Return whether something stands in a table or a picture, give or take a point.

    What reads a table's words and what takes its lines out of the text must agree on this, or words are lost or repeated.
    """
    return outer.grown(HELD_PT).has_middle_of(inner)
