"""Read the cells of a table."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.documents import Line
from schemas.geometry import BBox, union
from schemas.tags import escape

LettersOf = Callable[[Line], tuple[str, Sequence[Sequence[float]]]]
"""Gives a line's letters, as the page has them, and the box of each."""

_SAME_PT = 3.0
_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
_BULLET = re.compile(r"[±/]|[•‣◦·●○■□▪▫\uf0a7\uf0b7]\s*\w|[*∙–—-]\s+[^\W\d_]")
_LEADER = re.compile(r"(?:\s*\.){3}\s*$")
_CUT = re.compile(r"\S[-–—−/,]$")
_LEVEL_SHARE = 0.25
_APART_SHARE = 0.7
_FEWEST_ROWS = 3
_FEWEST_ROWS_OF_TWO = 4


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it stands on a page; ``boxes`` has None where a cell is part of its neighbour."""

    bbox: BBox
    rows: tuple[tuple[str, ...], ...]
    boxes: tuple[tuple[BBox | None, ...], ...]


class Side(NamedTuple):
    """A straight piece of a rule or of a box's edge: how far along the other axis it stands, and from where to where it goes."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rules of a table: ``down`` are vertical pieces, ``across`` horizontal ones."""

    bbox: BBox
    down: tuple[Side, ...]
    across: tuple[Side, ...]


class _Piece(NamedTuple):
    """What a line has in one cell."""

    text: str
    bbox: BBox


class _Cell(NamedTuple):
    """A cell and what is written in it."""

    bbox: BBox
    pieces: Sequence[_Piece]

    @property
    def text(self) -> str:
        """What the cell says, line by line."""
        return escape("\n".join(piece.text for piece in self.pieces))

    def turned(self, rotation: int) -> "_Cell":
        """Return the cell as the page's reader sees it."""
        return _Cell(
            _box_turned(self.bbox, rotation), [_Piece(text, _box_turned(box, rotation)) for text, box in self.pieces]
        )


_Row = tuple[_Cell | None, ...]
_Level = dict[int, list[_Piece]]
"""What stands side by side in a row of cells, by column."""


def tabulate(
    ruling: Ruling, lines: Sequence[Line], letters_of: LettersOf, rotation: int = 0, *, leftward: bool = False
) -> Grid | None:
    """Read the table that rules draw; where they part its head and its end only, its lines show its rows.

    Args:
        ruling: The rules.
        lines: What is written on the page.
        letters_of: Is asked only of lines that cross an edge of a cell.
        rotation: How the page is turned for its reader, who sees rows where the unturned page has columns.
        leftward: The page is read from right to left, and so are the columns of its tables.

    Returns:
        A table of two rows and two columns at least; None where the rules draw none.
    """
    cells = _cells_turned(_cells(ruling), rotation)
    if len(cells) < 2 or max(sum(cell is not None for cell in row) for row in cells) < 2:
        return None
    box = union(cell for row in cells for cell in row if cell is not None).rounded()
    written = iter(_set_into([cell for row in cells for cell in row if cell is not None], box, lines, letters_of))
    ruled = [tuple(None if cell is None else _Cell(cell, next(written)) for cell in row) for row in cells]
    half = sum(map(_lines_in, ruled)) / 2
    table = [
        row for band in ruled for row in _split(band[::-1] if leftward else band, rotation, by_words=_lines_in(band) > half)
    ]
    rows = tuple(tuple("" if cell is None else cell.text for cell in row) for row in table)
    boxes = tuple(tuple(None if cell is None else cell.bbox for cell in row) for row in table)
    return Grid(box, rows, boxes) if max(sum(map(bool, row)) for row in rows) >= 2 else None


def _cells(ruling: Ruling) -> tuple[tuple[BBox | None, ...], ...]:
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


def _cells_turned(cells: tuple[tuple[BBox | None, ...], ...], rotation: int) -> tuple[tuple[BBox | None, ...], ...]:
    """Return the cells as the page's reader sees them; turned by a quarter, the first column becomes the first row."""
    for _ in range(rotation % 360 // 90):
        cells = tuple(zip(*reversed(cells), strict=True))
    return cells


def _box_turned(box: BBox, rotation: int) -> BBox:
    """Return a box as the page's reader sees it; turned by the negative, it is where it was."""
    for _ in range(rotation % 360 // 90):
        box = BBox(-box.y1, box.x0, -box.y0, box.x1)
    return box


def _merged(places: Iterable[float]) -> list[float]:
    """Return places that are a few points apart as one, sorted."""
    groups: list[list[float]] = []
    for place in sorted(places):
        if groups and place - groups[-1][-1] <= _SAME_PT:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [sum(group) / len(group) for group in groups]


def _standing(sides: Iterable[Side], at: float, levels: Sequence[float]) -> list[bool]:
    """Say between which levels pieces of rules together part two cells."""
    near = sorted(side for side in sides if abs(side.at - at) <= _SAME_PT)
    return [_covered(near, start, end) >= 0.6 * (end - start) for start, end in pairwise(levels)]


def _covered(sides: Sequence[Side], start: float, end: float) -> float:
    covered, reached = 0.0, start
    for side in sides:
        if side.end > start and side.start < end:
            covered += max(0.0, min(side.end, end) - max(side.start, reached))
            reached = max(reached, side.end)
    return covered


def _lines_in(row: _Row) -> int:
    return sum(len(cell.pieces) for cell in row if cell is not None)


def _split(band: _Row, rotation: int, *, by_words: bool) -> list[_Row]:
    """Return the rows that stand between two rules: one, unless the lines of its cells show more.

    Args:
        band: The cells between the rules, in the order that they are read.
        rotation: How the page is turned for its reader.
        by_words: Rows may show where there are no numbers. A grid that rules its rows has no more of them: there, words on
            one height are the lists and lines of an address that its cells hold.
    """
    seen = {column: cell.turned(rotation) for column, cell in enumerate(band) if cell is not None}
    # A cell that reaches over another rule stands beside all rows.
    high, low = (
        max((cell.bbox.y0 for cell in seen.values()), default=0.0),
        min((cell.bbox.y1 for cell in seen.values()), default=0.0),
    )
    beside_all = {column for column, cell in seen.items() if cell.bbox.y0 < high or cell.bbox.y1 > low}
    columns = {column: cell for column, cell in seen.items() if cell.pieces and column not in beside_all}
    if sum(len(cell.pieces) > 1 for cell in columns.values()) < 2:
        return [band]
    line = median(piece.bbox.height for cell in columns.values() for piece in cell.pieces)
    levels = _levels_of(columns, line)
    starts = _starts(levels, columns, by_words=by_words)
    if not starts:
        return [band]
    extents = [union(piece.bbox for pieces in level.values() for piece in pieces) for level in levels]
    cuts = [(max(extent.y1 for extent in extents[:start]) + extents[start].y0) / 2 for start in starts]
    first = min(columns)  # so does a name that is set in the middle of them
    middle = (extents[0].y0 + extents[-1].y1) / 2
    if len(columns[first].pieces) == 1 and abs(_down(columns[first].pieces[0], line) - middle) <= _SAME_PT:
        beside_all.add(first)
    rows: list[_Row] = []
    for top, end in pairwise([-math.inf, *cuts, math.inf]):
        row: list[_Cell | None] = []
        for column, cell in enumerate(band):
            if cell is None or column in beside_all:
                row.append(None if rows else cell)
                continue
            box = seen[column].bbox
            box = _box_turned(box._replace(y0=max(top, box.y0), y1=min(end, box.y1)), -rotation)
            pieces = zip(cell.pieces, seen[column].pieces, strict=True)
            row.append(_Cell(box, [piece for piece, there in pieces if top <= _down(there, line) < end]))
        rows.append(tuple(row))
    return rows


def _down(piece: _Piece, line: float) -> float:
    """Return how low on the page a piece stands; one that is written upwards stands where it is highest."""
    return piece.bbox.y0 + min(piece.bbox.height, line) / 2


def _runs_sideways(piece: _Piece, line: float) -> bool:
    """Say whether a piece is written upwards or downwards, or else is as high as two lines."""
    return piece.bbox.height > (1.5 * line if len(piece.text) <= 2 else min(1.5 * line, 2 * piece.bbox.width))


def _levels_of(columns: Mapping[int, _Cell], line: float) -> list[_Level]:
    """Return what stands side by side, from above; [] where lines of a height ``line`` don't align as those of rows do.

    In the first column, the names of groups may stand between rows, or be written upwards: they are no level's then.
    """
    first = min(columns)
    levels: list[tuple[float, _Level]] = []
    between = 0
    for column in sorted(columns, key=lambda column: column == first):
        for piece in columns[column].pieces:
            height = _down(piece, line)
            if _runs_sideways(piece, line):
                if column != first:
                    return []
                continue
            near = min(levels, key=lambda level: abs(level[0] - height), default=None)
            apart = math.inf if near is None else abs(near[0] - height)
            if near is not None and apart <= _LEVEL_SHARE * line:
                near[1].setdefault(column, []).append(piece)
            elif apart >= _APART_SHARE * line:
                levels.append((height, {column: [piece]}))
            elif column == first:
                between += 1
            else:
                return []
    if between > 1 and 2 * len(columns[first].pieces) > len(levels):
        return []
    return [level for _, level in sorted(levels, key=itemgetter(0))]


def _starts(levels: Sequence[_Level], columns: Mapping[int, _Cell], *, by_words: bool) -> list[int]:
    """Return the levels that begin a row, the first left aside; [] where the lines are no rows.

    A number under a number is another row's. A word under words may be the same cell's: it is, if it had no room behind the
    line above. So a row begins where two numbers say so, or the only column of them; where the first column begins anew; and
    where most columns have a line, and none of those goes on or most begin anew what the row above has. All else goes on
    with the row above.

    Paragraphs side by side begin anew in concert now and then, and so do lists: there must be three rows that most columns
    share, four where there are two columns and no numbers, and more of them than lines that most columns wrap.
    """
    first = min(columns)
    rooms = {column: _room(cell) for column, cell in columns.items()}
    starts: list[int] = []
    numbered = worded = wrapped = 0
    filled: set[int] = set()
    held: set[int] = set()
    for place, (above, level) in enumerate(pairwise(levels), start=1):
        filled |= above.keys()
        held |= {column for column, pieces in above.items() if _are_numbers(pieces)}
        under = {column for column in held & level.keys() if _are_numbers(level[column])}
        fresh = {column for column in level if not _goes_on(above.get(column, []), level[column], rooms[column])}
        broad = 2 * len(level) > len(columns)
        anew = len(fresh) == len(level) or 2 * len(fresh & filled) > len(level)
        shown = len(under) + (first in fresh - under)
        if under and (shown >= 2 or (first in level and len(under) == len(columns) - 1)):
            numbered += broad
        elif first in fresh or (broad and anew):
            worded += broad and first in level and 2 * len(fresh) > len(level)
        else:
            wrapped += broad
            continue
        starts.append(place)
        filled.clear()
        held.clear()
    sure = 1 + numbered + worded
    paired = numbered and len(columns) > len(levels) == 2 and len(levels[0]) == len(levels[1]) >= len(columns) - 1
    fewest = _FEWEST_ROWS if numbered or len(columns) > 2 else _FEWEST_ROWS_OF_TWO
    return starts if (paired or sure >= fewest) and (numbered or by_words) and sure > wrapped else []


def _are_numbers(pieces: Sequence[_Piece]) -> bool:
    """Say whether there is no letter: numbers, and what stands for none. In brackets it may be the same in another unit."""
    text = _said(pieces)
    return not (text.startswith("(") or _LETTER.search(text) or _BULLET.match(text) or _CUT.search(text))


def _goes_on(above: Sequence[_Piece], pieces: Sequence[_Piece], room: float) -> bool:
    """Say whether a cell's line is wrapped from the one above, or is an item of a list that the cell holds."""
    if _BULLET.match(_said(pieces)):
        return True
    if not above or _are_numbers(above) or _are_numbers(pieces) or _LEADER.search(_said(above)):
        return False
    text, box = pieces[0]
    word = box.width * (1 + len(text.split()[0])) / len(text)
    return bool(_CUT.search(_said(above))) or union(piece.bbox for piece in above).width + word > room


def _said(pieces: Sequence[_Piece]) -> str:
    return " ".join(piece.text for piece in pieces)


def _room(cell: _Cell) -> float:
    """Return how wide a line of a cell may be, given how near to its sides its lines come."""
    margin = min(min(piece.bbox.x0 - cell.bbox.x0, cell.bbox.x1 - piece.bbox.x1) for piece in cell.pieces)
    return cell.bbox.width - 2 * max(0.0, margin)


def _set_into(cells: Sequence[BBox], table: BBox, lines: Sequence[Line], letters_of: LettersOf) -> list[list[_Piece]]:
    """Return what is written in each cell of a table.

    A word is not torn: it goes to the cell that holds most of its letters. A word in no cell goes to the nearest one if its
    line stands in the table: that line is the table's, and nothing of it may be lost.
    """
    written: list[list[_Piece]] = [[] for _ in cells]
    edges = np.array(cells)
    near = [line for line in lines if _meets(line.bbox, table.grown(1))]
    boxes = np.array([line.bbox for line in near]).reshape(-1, 4)
    for line, number in zip(near, _holders(boxes[:, :2], boxes[:, 2:], edges), strict=True):
        if number >= 0:
            written[number].append(_Piece(" ".join(line.text.split()), line.bbox))
            continue
        parted: dict[int, list[_Piece]] = {}
        for word, place in _words(*letters_of(line), edges, stays=holds(table, line.bbox)):
            parted.setdefault(place, []).append(word)
        for place, words in parted.items():
            written[place].append(_Piece(" ".join(word.text for word in words), union(word.bbox for word in words)))
    return written


def _words(
    text: str, boxes: Sequence[Sequence[float]], cells: NDArray[np.float64], *, stays: bool
) -> Iterator[tuple[_Piece, int]]:
    """Yield each word of a line that crosses cells with its cell's number; ``stays`` says that those in no cell have one too."""
    sides = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    centres = (sides[:, :2] + sides[:, 2:]) / 2
    holders = np.array(_holders(centres, centres, cells))
    for word in _WORD.finditer(text):
        held = holders[word.start() : word.end()]
        piece = _Piece(word[0], union(BBox(*box) for box in boxes[word.start() : word.end()]))
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
    """Say whether something stands in a table or a picture, give or take a point.

    What reads a table's words and what takes its lines out of the text must agree on this, or words are lost or said twice.
    """
    return outer.grown(1).has_middle_of(inner)
