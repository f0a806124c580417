"""Find tables that no rules promise, by how their words stand: rows of cells, one under the other in the same columns."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from schemas.documents import Line, TableRegion
from schemas.geometry import BBox, gap, is_level, union

CELL_GAP_EM = 0.8
ROW_GAP_EM = 1.6
ROW_OVERLAP_EM = 0.5
MOST_LONE_ROWS = 3
FEWEST_ROWS = 3
SPLIT_ROWS_SHARE = 0.5
FIRST_COLUMN_EM = 4.0
HEADER_OVERHANG_EM = 1.0
FEWEST_HEADER_COLUMNS = 3
SECTION_GAP_EM = 8.0
SECTION_RIGHT_EM = 2.0
SECTION_LEFT_EM = 4.0
FEWEST_COMMON_COLUMNS = 2
GUTTER_EM = 0.3
CROSSED_SHARE = 0.15
FILLED_COLUMN_SHARE = 0.4
LEADERS_SHARE = 0.2
SENTENCE_CHARACTERS = 32
PROSE_CHARACTERS = 96
MOSTSENTENCE_CHARACTERS_COLUMNS = 1
NUMBER_CHARACTERS = 3
WORDS_SHARE = 0.4
_LEADER = re.compile(r"(?:\. ?){4,}|(?:_ ?){4,}|…")
_TWO_LETTERS = re.compile(r"\w\W*\w")
_CURRENCY = re.compile(r"[$€£¥%]|[—–-]+")
_BULLET = re.compile(r"[^\w\s]|o|\(?\w{1,2}[.)]")


@dataclass(frozen=True, slots=True)
class Aligned:
    """A table, and the lines that it is made of."""

    table: TableRegion
    lines: frozenset[Line]


class _Row(NamedTuple):
    """Lines of text that stand beside each other, from left to right.

    ``is_split`` means that they are cells: words with more than a blank between them.
    """

    cells: tuple[Line, ...]
    bbox: BBox
    size: float
    is_split: bool


def align(
    lines: Sequence[Line], is_stop: Callable[[Line], bool] = lambda _line: False, *, right_to_left: bool = False
) -> list[Aligned]:
    """Find the tables among the lines of a page.

    Args:
        lines: Running text in MuPDF's order, which follows the columns of the page: what stands side by side in a table
            comes one after the other.
        is_stop: Returns of a line whether no table goes across it: of headings and captions.
        right_to_left: The page is read from right to left, and so are the columns of its tables.

    Returns:
        Tables of three rows and two columns at least.
    """
    parts = _parts(_parts([_rows(lines)], _is_prose), lambda row: any(map(is_stop, row)))
    runs = (run for part in parts for run in _joined(_runs([_row(cells) for cells in part])))
    return [table for run in runs if (table := _table(run, right_to_left=right_to_left)) is not None]


def _rows(lines: Sequence[Line]) -> list[list[Line]]:
    rows: list[list[Line]] = []
    for line in lines:
        if rows and _is_beside(line, rows[-1][-1]) and all(_is_beside(line, cell) for cell in rows[-1][:-1]):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=_left)
    return rows


def _row(cells: Sequence[Line]) -> _Row:
    if len(cells) == 1:
        return _Row((cells[0],), cells[0].bbox, cells[0].size, is_split=False)
    size = max([cell.size for cell in cells])
    is_split = any(right.bbox.x0 - left.bbox.x1 >= CELL_GAP_EM * size for left, right in pairwise(cells))
    return _Row(tuple(cells), union([cell.bbox for cell in cells]), size, is_split)


def _left(line: Line) -> float:
    return line.bbox.x0


def _is_beside(one: Line, other: Line) -> bool:
    x0, y0, x1, y1 = one.bbox
    left, top, right, bottom = other.bbox
    if y0 > bottom or top > y1 or gap(x0, x1, left, right) < 0:
        return False
    return is_level(one.bbox, other.bbox)


def _parts(parts: Sequence[list[list[Line]]], is_cut: Callable[[list[Line]], bool]) -> list[list[list[Line]]]:
    """Cut rows where there is no table, and leave out what has too few rows of several lines to be one.

    A number beside a text counts for none, as so begins each line of a numbered listing: a table has more in three rows.
    """
    cut: list[list[list[Line]]] = []
    for part in parts:
        cut.append([])
        for row in part:
            if is_cut(row):
                cut.append([])
            else:
                cut[-1].append(row)
    return [part for part in cut if sum([_may_be_cells(row) for row in part]) >= FEWEST_ROWS]


def _may_be_cells(row: Sequence[Line]) -> bool:
    if len(row) != 2:
        return len(row) > 2
    first = row[0].text.strip()
    return len(first) > NUMBER_CHARACTERS or not first.isdecimal()


def _runs(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Cut rows where one does not stand right under the other, or where too many without cells follow each other."""
    runs: list[list[_Row]] = [[]]
    lone = 0
    for row in rows:
        run = runs[-1]
        lone = 0 if row.is_split else lone + 1
        again = bool(run) and _repeats_header(row, run)
        if run and (not _follows(run[-1], row) or lone > MOST_LONE_ROWS or again):
            over = again and _follows(run[-1], row) and _spans(run[-1], row, union(other.bbox for other in run))
            runs.append([run.pop()] if over else [])
            lone = 0 if row.is_split else 1
        runs[-1].append(row)
    return [trimmed for run in runs if (trimmed := _trimmed(run))]


def _repeats_header(row: _Row, run: Sequence[_Row]) -> bool:
    """Return whether a row is the header of the table over it, repeated: another table of the same columns begins.

    A header of years or of places stands over the columns of values and leaves the first column free.
    """
    head = next((other for other in run if other.is_split), None) if len(row.cells) > 1 else None
    if head is None or [cell.text.strip() for cell in row.cells] != [cell.text.strip() for cell in head.cells]:
        return False
    return row.bbox.x0 >= min(other.bbox.x0 for other in run) + FIRST_COLUMN_EM * row.size


def _follows(one: _Row, other: _Row) -> bool:
    down = other.bbox.y0 - one.bbox.y1
    return -ROW_OVERLAP_EM * one.size <= down <= ROW_GAP_EM * max(one.size, other.size)


def _is_prose(row: Sequence[Line]) -> bool:
    """Return whether a row is a line of running text, or the first one of an item in a list, whose bullet stands apart."""
    if len(row) > 2 or len(row[-1].text.strip()) <= PROSE_CHARACTERS:
        return False
    return len(row) == 1 or _BULLET.fullmatch(row[0].text.strip()) is not None


def _trimmed(run: Sequence[_Row]) -> list[_Row]:
    """Leave out the rows at the ends that have no cells, but for a header over several columns."""
    split = [number for number, row in enumerate(run) if row.is_split]
    if not split:
        return []
    first = split[0]
    if first and _spans(run[first - 1], run[first], union(row.bbox for row in run[first : split[-1] + 1])):
        first -= 1
    return list(run[first : split[-1] + 1])


def _spans(row: _Row, head: _Row, table: BBox) -> bool:
    """Return whether a row over a table's first stands over values, as "Year ended December 31," does: the first column is free.

    Over two columns that both begin at once it is the end of a cell from the page or the section before.
    """
    start = table.x0 + FIRST_COLUMN_EM * row.size
    free = row.bbox.x0 > start and row.bbox.x1 <= table.x1 + HEADER_OVERHANG_EM * row.size
    over = any(gap(row.bbox.x0, row.bbox.x1, cell.bbox.x0, cell.bbox.x1) < 0 for cell in head.cells)
    short = len(row.cells) == 1 and len(row.cells[0].text.strip()) <= SENTENCE_CHARACTERS
    return free and over and short and (len(head.cells) >= FEWEST_HEADER_COLUMNS or head.bbox.x0 > start)


def _joined(runs: Sequence[list[_Row]]) -> list[list[_Row]]:
    """Join runs that go on in the same columns below a gap, as the sections of a balance do."""
    joined: list[list[_Row]] = []
    for run in runs:
        if joined and _goes_on(joined[-1], run):
            joined[-1] = [*joined[-1], *run]
        else:
            joined.append(run)
    return joined


def _goes_on(run: Sequence[_Row], other: Sequence[_Row]) -> bool:
    one, two = (union(row.bbox for row in part) for part in (run, other))
    size = run[-1].size
    if _repeats_header(next(row for row in other if row.is_split), run):
        return False
    if (
        not 0 <= two.y0 - one.y1 <= SECTION_GAP_EM * size
        or abs(one.x1 - two.x1) > SECTION_RIGHT_EM * size
        or abs(one.x0 - two.x0) > SECTION_LEFT_EM * size
    ):
        return False
    ends, others = ({round(cell.bbox.x1 / size) for row in part for cell in row.cells[1:]} for part in (run, other))
    return len(ends & others) >= FEWEST_COMMON_COLUMNS


def _table(run: Sequence[_Row], *, right_to_left: bool) -> Aligned | None:
    split = [row for row in run if row.is_split]
    if len(split) < FEWEST_ROWS or len(split) < SPLIT_ROWS_SHARE * len(run):
        return None
    box = union(row.bbox for row in run)
    gutters = _gutters(split, box)
    if not gutters or not _is_tabular(split, gutters):
        return None
    rows = tuple(_cells(row, gutters) for row in run)
    if right_to_left:
        rows = tuple(row[::-1] for row in rows)
    page = run[0].cells[0].page
    return Aligned(TableRegion(page, box.rounded(), rows), frozenset(cell for row in run for cell in row.cells))


def _gutters(rows: Sequence[_Row], box: BBox) -> list[float]:
    """Return the middles of the gutters between columns, which next to no row crosses."""
    # Where a cell begins or ends, by whole points; between two such places as many are crossed.
    changes: Counter[int] = Counter()
    for row in rows:
        for cell in row.cells:
            changes[int(cell.bbox.x0 - box.x0)] += 1
            changes[math.ceil(cell.bbox.x1 - box.x0) + 1] -= 1
    spans: list[tuple[float, float]] = []
    covered, start = 0, None
    for place in sorted(changes):
        covered += changes[place]
        inked = covered > CROSSED_SHARE * len(rows)
        if inked and start is None:
            start = box.x0 + place
        elif not inked and start is not None:
            spans.append((start, box.x0 + place))
            start = None
    least = GUTTER_EM * median(row.size for row in rows)
    columns: list[tuple[float, float]] = []
    for start, end in spans:
        if columns and start - columns[-1][1] < least:
            columns[-1] = columns[-1][0], end
        else:
            columns.append((start, end))
    return [(end + start) / 2 for (_, end), (start, _) in pairwise(columns)]


def _is_tabular(rows: Sequence[_Row], gutters: Sequence[float]) -> bool:
    """Return whether rows of cells are a table, and not columns of prose, a list, an index or formulas."""
    texts: list[list[str]] = [[] for _ in range(len(gutters) + 1)]
    for row in rows:
        for cell in row.cells:
            texts[_column_of(cell.bbox, gutters)].append(cell.text.strip())
    held = [column for column in texts if len(column) >= FILLED_COLUMN_SHARE * len(rows)]
    if len(held) < 2:
        return False
    if len(held) == 2 and _length(held[0]) <= NUMBER_CHARACTERS:
        return False
    words = [text for column in texts for text in column]
    if len(held) == 2 and sum(bool(_LEADER.search(text)) for text in words) > LEADERS_SHARE * len(rows):
        return False  # a table of contents
    if sum(_length(column) > SENTENCE_CHARACTERS for column in held) > MOSTSENTENCE_CHARACTERS_COLUMNS:
        return False
    # An amount's currency may stand apart from it, and a dash stands for none: neither distinguishes a table from a formula.
    spelled = [text for text in words if not _CURRENCY.fullmatch(text)]
    return sum(_TWO_LETTERS.search(text) is not None for text in spelled) >= WORDS_SHARE * len(spelled)


def _length(column: Sequence[str]) -> float:
    return median(len(_LEADER.sub("", text)) for text in column)


def _column_of(box: BBox, gutters: Sequence[float]) -> int:
    return bisect_left(gutters, (box.x0 + box.x1) / 2)


def _cells(row: _Row, gutters: Sequence[float]) -> tuple[str, ...]:
    texts = [""] * (len(gutters) + 1)
    for cell in row.cells:
        number = _column_of(cell.bbox, gutters)
        texts[number] = f"{texts[number]} {cell.text.strip()}".strip()
    return tuple(texts)
