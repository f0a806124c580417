"""Find the rows of a table that no rules part: by how the lines of its cells stand beside and under each other."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from schemas.geometry import BBox, turned, union
from schemas.tags import escape

MIDDLE_PT = 3.0
"""How far off the middle of its rows a name stands that is theirs together. Of 1,732 ruled tables none changes at 2.01
or 4.5.
"""
_LETTER = re.compile(r"[^\W\d_]")
# What begins so goes on with its cell: a tolerance, an alternative, an item of a list.
_FURTHER = re.compile(r"[±/]|[•‣◦·●○■□▪▫\uf0a7\uf0b7]\s*\w|[*∙–—-]\s+[^\W\d_]")
_LEADER = re.compile(r"(?:\s*\.){3}\s*$")
_CUT = re.compile(r"\S[-–—−/,]$")
LEVEL_LINES = 0.25
"""How far two lines on one height are apart, by the height of a line. Of 1,732 ruled tables none changes at 0.168 or 0.375."""
APART_LINES = 0.7
"""How far two lines of two rows are apart at least, by the height of a line. Of 1,732 ruled tables 4 change at 0.35, 2
at 0.85.
"""
FEWEST_ROWS = 3
"""Rows between two rules. Of 1,732 ruled tables 4 change at 2, 6 at 4."""
FEWEST_ROWS_OF_TWO = 4
"""Rows between two rules where there are two columns and no numbers. Of 1,732 ruled tables none changes at 3 or 5."""
VERTICAL_LINES = 1.5
"""Height from which on a piece is vertical text, in lines. Of 1,732 ruled tables 5 change at 1, none at
2.25.
"""
LEVEL_CHARACTERS = 2
"""Longest text that may be higher than wide and yet be level: "1", "°C". Of 409 pages none changes at 1 or 4."""
VERTICAL_TIMES_WIDTH = 2.0
"""How much higher than wide such a piece is. Of 1,732 ruled tables none changes at 1.34 or 3."""
WRITTEN = {0: (1, 0), 90: (0, -1), 180: (-1, 0), 270: (0, 1)}


def upright(box: BBox, rotation: int) -> BBox:
    """Return a box of an unrotated page as the reader of a page turned by ``rotation`` degrees sees it."""
    return turned(box, WRITTEN[rotation % 360]) if rotation else box


class Piece(NamedTuple):
    """What a line has in one cell."""

    text: str
    bbox: BBox


class Cell(NamedTuple):
    """A cell and what is written in it."""

    bbox: BBox
    pieces: Sequence[Piece]

    @property
    def text(self) -> str:
        """What is written in the cell, line by line."""
        return escape("\n".join(piece.text for piece in self.pieces))

    def turned(self, direction: tuple[int, int]) -> "Cell":
        """Return the cell as it stands when what is written in a direction is turned level."""
        return Cell(turned(self.bbox, direction), [Piece(text, turned(box, direction)) for text, box in self.pieces])


Row = tuple[Cell | None, ...]
_Level = dict[int, list[Piece]]
"""What stands side by side in a row of cells, by column."""


def split_rows(band: Row, rotation: int, *, by_words: bool) -> list[Row]:
    """Return the rows that stand between two rules: one, unless the lines of its cells show more.

    Args:
        band: The cells between the rules, in the order that they are read.
        rotation: How the page is turned for its reader.
        by_words: Rows may show where there are no numbers. A grid that rules its rows has no more of them: there, words on
            one height are the lists and lines of an address that its cells hold.
    """
    across, down = WRITTEN[rotation % 360]
    seen = {column: cell.turned((across, down)) for column, cell in enumerate(band) if cell is not None}
    # A cell that reaches over another rule stands beside all rows.
    high = max((cell.bbox.y0 for cell in seen.values()), default=0.0)
    low = min((cell.bbox.y1 for cell in seen.values()), default=0.0)
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
    if len(columns[first].pieces) == 1 and abs(_down(columns[first].pieces[0], line) - middle) <= MIDDLE_PT:
        beside_all.add(first)
    rows: list[Row] = []
    for top, end in pairwise([-math.inf, *cuts, math.inf]):
        row: list[Cell | None] = []
        for column, cell in enumerate(band):
            if cell is None or column in beside_all:
                row.append(None if rows else cell)
                continue
            box = seen[column].bbox
            box = turned(box._replace(y0=max(top, box.y0), y1=min(end, box.y1)), (across, -down))
            pieces = zip(cell.pieces, seen[column].pieces, strict=True)
            row.append(Cell(box, [piece for piece, there in pieces if top <= _down(there, line) < end]))
        rows.append(tuple(row))
    return rows


def _down(piece: Piece, line: float) -> float:
    """Return how low on the page a piece stands; one that is written upwards stands where it is highest."""
    return piece.bbox.y0 + min(piece.bbox.height, line) / 2


def _is_vertical(piece: Piece, line: float) -> bool:
    """Return whether a piece is vertical text, or else is as high as two lines."""
    return piece.bbox.height > (
        VERTICAL_LINES * line
        if len(piece.text) <= LEVEL_CHARACTERS
        else min(VERTICAL_LINES * line, VERTICAL_TIMES_WIDTH * piece.bbox.width)
    )


def _levels_of(columns: Mapping[int, Cell], line: float) -> list[_Level]:
    """Return what stands side by side, from above; [] where lines of a height ``line`` don't align as those of rows do.

    In the first column, the names of groups may stand between rows, or be written upwards: they are no level's then.
    """
    first = min(columns)
    levels: list[tuple[float, _Level]] = []
    between = 0
    for column in sorted(columns, key=lambda column: column == first):
        for piece in columns[column].pieces:
            height = _down(piece, line)
            if _is_vertical(piece, line):
                if column != first:
                    return []
                continue
            near = min(levels, key=lambda level: abs(level[0] - height), default=None)
            apart = math.inf if near is None else abs(near[0] - height)
            if near is not None and apart <= LEVEL_LINES * line:
                near[1].setdefault(column, []).append(piece)
            elif apart >= APART_LINES * line:
                levels.append((height, {column: [piece]}))
            elif column == first:
                between += 1
            else:
                return []
    if between > 1 and 2 * len(columns[first].pieces) > len(levels):
        return []
    return [level for _, level in sorted(levels, key=itemgetter(0))]


def _starts(levels: Sequence[_Level], columns: Mapping[int, Cell], *, by_words: bool) -> list[int]:
    """Return the levels that begin a row, the first left aside; [] where the lines are no rows.

    A number under a number is another row's. A word under words may be the same cell's: it is, if it had no room behind the
    line above. So a row begins where two columns have a number under a number, or the only column of numbers has; where the
    first column begins anew; and where most columns have a line, and none of those goes on or most begin anew what the row
    above has. All else goes on with the row above.

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
    fewest = FEWEST_ROWS if numbered or len(columns) > 2 else FEWEST_ROWS_OF_TWO
    return starts if (paired or sure >= fewest) and (numbered or by_words) and sure > wrapped else []


def _are_numbers(pieces: Sequence[Piece]) -> bool:
    """Return whether there is no letter: numbers, and what stands for none. In brackets it may be the same in another unit."""
    text = _text_of(pieces)
    return not (text.startswith("(") or _LETTER.search(text) or _FURTHER.match(text) or _CUT.search(text))


def _goes_on(above: Sequence[Piece], pieces: Sequence[Piece], room: float) -> bool:
    """Return whether a cell's line is wrapped from the one above, or is an item of a list that the cell holds."""
    if _FURTHER.match(_text_of(pieces)):
        return True
    if not above or _are_numbers(above) or _are_numbers(pieces) or _LEADER.search(_text_of(above)):
        return False
    text, box = pieces[0]
    word = box.width * (1 + len(text.split()[0])) / len(text)
    return bool(_CUT.search(_text_of(above))) or union(piece.bbox for piece in above).width + word > room


def _text_of(pieces: Sequence[Piece]) -> str:
    return " ".join(piece.text for piece in pieces)


def _room(cell: Cell) -> float:
    """Return how wide a line of a cell may be, given how near to its sides its lines come."""
    margin = min(min(piece.bbox.x0 - cell.bbox.x0, cell.bbox.x1 - piece.bbox.x1) for piece in cell.pieces)
    return cell.bbox.width - 2 * max(0.0, margin)
