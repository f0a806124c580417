"""Find the rows of a table between rules, by how the lines of its cells are beside and below each other."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from schemas.documents import Line
from schemas.drawings import LettersOf, RulePiece, Ruling
from schemas.geometry import BBox, turned, union
from schemas.tags import escape

SOFT_HYPHEN = "\u00ad"
_BROKEN = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]\n(?=[^\W\d_A-Z])")
"""A hyphen at the end of a line inside a word."""
_LETTER = re.compile(r"[^\W\d_]")
LEVEL_LINES = 0.25
"""Maximum distance of two level lines, relative to the height of a line."""
APART_LINES = 0.7
"""Minimum distance of two lines of two rows, relative to the height of a line."""
FEWEST_ROWS = 3
"""Minimum rows between two rules."""
LONG_CHARACTERS = 4
"""Minimum length of a line that is higher than wide only if it is written up or down."""
WRITTEN = {0: (1, 0), 90: (0, -1), 180: (-1, 0), 270: (0, 1)}
"""The direction of text by the rotation of its page."""


def upright(box: BBox, rotation: int) -> BBox:
    """Return a box of an unrotated page as the reader of a page rotated by ``rotation`` degrees sees it."""
    return turned(box, WRITTEN[rotation % 360]) if rotation else box


@dataclass(frozen=True, slots=True)
class View:
    """How the reader of a page sees it: upright, and mirrored if its columns run from right to left."""

    rotation: int = 0
    right_to_left: bool = False

    def seen(self, box: BBox) -> BBox:
        """Return where a box of the unrotated page is seen."""
        box = upright(box, self.rotation)
        return _mirrored(box) if self.right_to_left else box

    def stored(self, box: BBox) -> BBox:
        """Return a box of ``seen`` on the unrotated page again."""
        across, down = WRITTEN[self.rotation % 360]
        box = _mirrored(box) if self.right_to_left else box
        return turned(box, (across, -down)) if self.rotation else box

    def lines(self, lines: Sequence[Line]) -> list[Line]:
        """Return lines where they are seen."""
        return [line._replace(bbox=self.seen(line.bbox)) for line in lines]

    def letters(self, letters_of: LettersOf) -> LettersOf:
        """Return what gives the letters of such lines where they are seen."""

        def seen_letters(line: Line) -> tuple[str, Sequence[Sequence[float]]]:
            text, boxes = letters_of(line._replace(bbox=self.stored(line.bbox)))
            return text, [self.seen(BBox(*box)) for box in boxes]

        return seen_letters

    def ruling(self, ruling: Ruling, move: Callable[[BBox], BBox]) -> Ruling:
        """Return the rules of a table moved by ``seen`` or ``stored``."""
        down = [move(BBox(at, start, at, end)) for at, start, end in ruling.down]
        across = [move(BBox(start, at, end, at)) for at, start, end in ruling.across]
        if self.rotation % 180:
            down, across = across, down
        return replace(
            ruling,
            bbox=move(ruling.bbox),
            down=tuple(RulePiece(x0, y0, y1) for x0, y0, _, y1 in down),
            across=tuple(RulePiece(y0, x0, x1) for x0, y0, x1, _ in across),
        )


def _mirrored(box: BBox) -> BBox:
    return BBox(-box.x1, box.y0, -box.x0, box.y1)


def rotation_of(lines: Sequence[Line], rotation: int) -> int:
    """Return how lines are rotated for their reader: as their page is, unless most are written in another direction.

    The next line of a row is further along the direction of the text, and the next row is below it.
    """
    long = [line for line in lines if len(line.text.strip()) >= LONG_CHARACTERS]
    if not long:
        return rotation
    # Lines that are level on the unrotated page weren't turned with it by a quarter.
    if 2 * sum(line.bbox.height > line.bbox.width for line in long) <= len(long):
        return rotation if rotation % 180 == 0 else 0
    up = sum(_is_up(line, following) - _is_up(following, line) for line, following in pairwise(long))
    return 90 if up > 0 else 270 if up < 0 else rotation


def _is_up(line: Line, following: Line) -> bool:
    """Return whether a line is above the one before on its row, or on a row further right."""
    is_row = abs(line.bbox.x1 - following.bbox.x1) < line.size / 2
    return following.bbox.y0 < line.bbox.y0 if is_row else following.bbox.x0 > line.bbox.x0


class CellLine(NamedTuple):
    """The part of a line that is in one cell."""

    text: str
    bbox: BBox


class TableCell(NamedTuple):
    """A cell and its lines."""

    bbox: BBox
    lines: Sequence[CellLine]

    @property
    def text(self) -> str:
        """The text of the cell, line by line, words that a line breaks joined."""
        return escape(_BROKEN.sub("", "\n".join(line.text for line in self.lines)).replace(SOFT_HYPHEN, ""))


Row = tuple[TableCell | None, ...]
_Level = dict[int, list[CellLine]]
"""Lines that are level with each other, by column."""


def split_rows(band: Row) -> list[Row]:
    """Return the rows between two rules: one, unless the lines of its cells, in reading order, show more."""
    cells = {column: cell for column, cell in enumerate(band) if cell is not None}
    # A cell that extends beyond another's rule is beside all rows.
    high = max((cell.bbox.y0 for cell in cells.values()), default=0.0)
    low = min((cell.bbox.y1 for cell in cells.values()), default=0.0)
    beside_all = {column for column, cell in cells.items() if cell.bbox.y0 < high or cell.bbox.y1 > low}
    columns = {column: cell for column, cell in cells.items() if cell.lines and column not in beside_all}
    # Lines of one column alone are a wrapped cell: beside them there are no rows to see.
    if sum(len(cell.lines) > 1 for cell in columns.values()) < 2:
        return [band]
    height = median(line.bbox.height for cell in columns.values() for line in cell.lines)
    levels = _levels_of(columns, height)
    starts = _starts(levels, columns)
    if not starts:
        return [band]
    extents = [union(line.bbox for lines in level.values() for line in lines) for level in levels]
    cuts = [(max(extent.y1 for extent in extents[:start]) + extents[start].y0) / 2 for start in starts]
    rows: list[Row] = []
    for top, end in pairwise([-math.inf, *cuts, math.inf]):
        row: list[TableCell | None] = []
        for column, cell in enumerate(band):
            if cell is None or column in beside_all:
                # Such a cell is in the first row, and covers its place in the others.
                row.append(None if rows else cell)
                continue
            box = cell.bbox._replace(y0=max(top, cell.bbox.y0), y1=min(end, cell.bbox.y1))
            row.append(TableCell(box, [line for line in cell.lines if top <= _middle(line, height) < end]))
        rows.append(tuple(row))
    return rows


def _middle(line: CellLine, height: float) -> float:
    """Return how far down the page a line is; for vertical text, its upper end."""
    return line.bbox.y0 + min(line.bbox.height, height) / 2


def _levels_of(columns: Mapping[int, TableCell], height: float) -> list[_Level]:
    """Return the lines that are level with each other, from the top; [] if lines don't align as those of rows do.

    In the first column, names of groups may be between rows: they belong to no level.
    """
    first = min(columns)
    levels: list[tuple[float, _Level]] = []
    between = 0
    # The first column comes last, when the others have made the levels: its names of groups must not make any.
    for column in sorted(columns, key=lambda column: column == first):
        for line in columns[column].lines:
            middle = _middle(line, height)
            near = min(levels, key=lambda level: abs(level[0] - middle), default=None)
            apart = math.inf if near is None else abs(near[0] - middle)
            if near is not None and apart <= LEVEL_LINES * height:
                near[1].setdefault(column, []).append(line)
            elif apart >= APART_LINES * height:
                levels.append((middle, {column: [line]}))
            elif column == first:
                between += 1
            else:
                return []
    if between > 1 and 2 * len(columns[first].lines) > len(levels):
        return []
    return [level for _, level in sorted(levels, key=itemgetter(0))]


def _starts(levels: Sequence[_Level], columns: Mapping[int, TableCell]) -> list[int]:
    """Return the levels that begin a row, without the first; [] if the lines aren't rows.

    A number below a number is another row's. Words below words may be in the same cell: they are, if the first of them had no
    room on the line above. So a row begins where two columns have a number below a number, or the only column of numbers has;
    where the first column begins a new text; and where most columns have a line, and none of those is wrapped or most begin a
    new text. All other levels continue the row above. Where all columns have a line, one of the first that begins with the word
    that the line above begins with ("Y = ~A", "Y = +A") is a row, too, and two such rows are enough.

    Paragraphs and lists side by side sometimes begin together, so most columns must share three rows, and more rows than
    wrapped lines.
    """
    first = min(columns)
    rooms = {column: _room(cell) for column, cell in columns.items()}
    starts: list[int] = []
    repeated = numbered = worded = wrapped = 0
    # The columns with a line, and those with a number, since the last start of a row.
    filled: set[int] = set()
    number_columns: set[int] = set()
    for at, (above, level) in enumerate(pairwise(levels), start=1):
        filled |= above.keys()
        number_columns |= {column for column, lines in above.items() if _are_numbers(lines)}
        under = {column for column in number_columns & level.keys() if _are_numbers(level[column])}
        beginning = {column for column in level if not _is_wrapped(above.get(column, []), level[column], rooms[column])}
        broad = 2 * len(level) > len(columns)
        is_new_row = len(beginning) == len(level) or 2 * len(beginning & filled) > len(level)
        evidence = len(under) + (first in beginning - under)
        is_full = level.keys() == above.keys() == columns.keys()
        if is_full and _text_of(level[first]).split()[0] == _text_of(above[first]).split()[0]:
            repeated += 1
        elif under and (evidence >= 2 or (first in level and len(under) == len(columns) - 1)):
            numbered += broad
        elif first in beginning or (broad and is_new_row):
            worded += broad and first in level and 2 * len(beginning) > len(level)
        else:
            wrapped += broad
            continue
        starts.append(at)
        filled.clear()
        number_columns.clear()
    sure = 1 + repeated + numbered + worded
    # Two rows are enough for a table of numbers if all columns, or all but one, have a line in both.
    paired = numbered and len(columns) > len(levels) == 2 and len(levels[0]) == len(levels[1]) >= len(columns) - 1
    return starts if (paired or repeated == len(levels) - 1 or sure >= FEWEST_ROWS) and sure > wrapped else []


def _are_numbers(lines: Sequence[CellLine]) -> bool:
    """Return whether lines have no letter. In brackets a number may be the one above in another unit."""
    text = _text_of(lines)
    return not (text.startswith("(") or _LETTER.search(text))


def _is_wrapped(above: Sequence[CellLine], lines: Sequence[CellLine], room: float) -> bool:
    """Return whether a cell's line is wrapped from the one above."""
    if not above or _are_numbers(above) or _are_numbers(lines):
        return False
    text, box = lines[0]
    return union(line.bbox for line in above).width + first_word_width(text, box) > room


def first_word_width(text: str, box: BBox) -> float:
    """Return the width of the first word of a line, with a blank, as if all letters were of one width."""
    return box.width * (1 + len(text.split(maxsplit=1)[0])) / len(text)


def _text_of(lines: Sequence[CellLine]) -> str:
    return " ".join(line.text for line in lines)


def _room(cell: TableCell) -> float:
    """Return how wide a line of a cell may be, given how near to its sides its lines come."""
    margin = min(min(line.bbox.x0 - cell.bbox.x0, cell.bbox.x1 - line.bbox.x1) for line in cell.lines)
    return cell.bbox.width - 2 * max(0.0, margin)
