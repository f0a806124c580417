"""Find tables that no rules promise, by how their words stand: rows of cells, one under the other in the same columns."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from schemas.documents import Line, TableRegion
from schemas.geometry import BBox, union
from tasks.anchor import gap

_CELL_GAP = 0.8
_ROW_GAP = 1.6
_LONE_ROWS = 3
_SECTION_GAP = 8
_GUTTER = 0.3
_CROSSED = 0.15
_SENTENCE = 32
_LEADER = re.compile(r"(?:\. ?){4,}|(?:_ ?){4,}|…")
_TWO_LETTERS = re.compile(r"\w\W*\w")
_AMOUNT_SIGN = re.compile(r"[$€£¥%]|[—–-]+")
_SIGN = re.compile(r"[^\w\s]|o|\(?\w{1,2}[.)]")


@dataclass(frozen=True, slots=True)
class Aligned:
    """A table, and the lines that it is made of."""

    table: TableRegion
    lines: frozenset[Line]


@dataclass(frozen=True, slots=True)
class _Row:
    """Lines of text that stand beside each other, from left to right.

    ``is_split`` says whether they are cells: words with more than a blank between them.
    """

    cells: tuple[Line, ...]
    bbox: BBox
    size: float
    is_split: bool


def align(lines: Sequence[Line], stops: Collection[Line] = ()) -> list[Aligned]:
    """Find the tables among the lines of a page.

    Args:
        lines: Running text in MuPDF's order, which follows the columns of the page: what stands side by side in a table
            comes one after the other.
        stops: Lines that no table goes across: headings and captions.

    Returns:
        Tables of three rows and two columns at least.
    """
    runs = (run for part in _parts(_rows(lines), frozenset(stops)) for run in _joined(_runs(part)))
    return [table for run in runs if (table := _table(run)) is not None]


def _rows(lines: Sequence[Line]) -> list[_Row]:
    rows: list[list[Line]] = []
    for line in lines:
        last = rows[-1] if rows else []
        if last and all(_level(line, cell) and _apart(line, cell) for cell in last):
            last.append(line)
        else:
            rows.append([line])
    return [_row(row) for row in rows]


def _row(cells: Sequence[Line]) -> _Row:
    if len(cells) == 1:
        return _Row((cells[0],), cells[0].bbox, cells[0].size, is_split=False)
    ordered = tuple(sorted(cells, key=lambda cell: cell.bbox.x0))
    size = max(cell.size for cell in ordered)
    is_split = any(right.bbox.x0 - left.bbox.x1 >= _CELL_GAP * size for left, right in pairwise(ordered))
    return _Row(ordered, union(cell.bbox for cell in ordered), size, is_split)


def _level(one: Line, other: Line) -> bool:
    _, top, _, bottom = one.bbox
    _, other_top, _, other_bottom = other.bbox
    shared = -gap(top, bottom, other_top, other_bottom)
    return shared >= 0 and shared >= 0.5 * min(one.bbox.height, other.bbox.height)


def _apart(one: Line, other: Line) -> bool:
    return gap(one.bbox.x0, one.bbox.x1, other.bbox.x0, other.bbox.x1) >= 0


def _parts(rows: Sequence[_Row], stops: frozenset[Line]) -> list[list[_Row]]:
    """Cut rows at prose, headings and captions, which are left out."""
    parts: list[list[_Row]] = [[]]
    for row in rows:
        if _is_prose(row) or not stops.isdisjoint(row.cells):
            parts.append([])
        else:
            parts[-1].append(row)
    return parts


def _runs(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Cut rows where one does not stand right under the other, or where too many without cells follow each other."""
    runs: list[list[_Row]] = [[]]
    lone = 0
    for row in rows:
        run = runs[-1]
        lone = 0 if row.is_split else lone + 1
        again = bool(run) and _says_header_again(row, run)
        if run and (not _follows(run[-1], row) or lone > _LONE_ROWS or again):
            over = again and _follows(run[-1], row) and _spans(run[-1], row, union(other.bbox for other in run))
            runs.append([run.pop()] if over else [])
            lone = 0 if row.is_split else 1
        runs[-1].append(row)
    return [trimmed for run in runs if (trimmed := _trimmed(run))]


def _says_header_again(row: _Row, run: Sequence[_Row]) -> bool:
    """Say whether a row is the header of the table over it, said again: another table of the same columns begins.

    A header of years or of places stands over the columns of values and leaves the first column free.
    """
    head = next((other for other in run if other.is_split), None)
    if head is None or len(row.cells) < 2 or row.cells[0].bbox.x0 < min(other.bbox.x0 for other in run) + 4 * row.size:
        return False
    return [cell.text.strip() for cell in row.cells] == [cell.text.strip() for cell in head.cells]


def _follows(one: _Row, other: _Row) -> bool:
    down = other.bbox.y0 - one.bbox.y1
    return -0.5 * one.size <= down <= _ROW_GAP * max(one.size, other.size)


def _is_prose(row: _Row) -> bool:
    """Say whether a row is a line of running text, or the first one of an item in a list, whose sign stands apart."""
    cells = row.cells[1:] if len(row.cells) == 2 and _SIGN.fullmatch(row.cells[0].text.strip()) else row.cells
    return len(cells) == 1 and len(cells[0].text.strip()) > 3 * _SENTENCE


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
    """Say whether a row over a table's first stands over values, as "Year ended December 31," does: the first column is free.

    Over two columns that both begin at once it is the end of a cell from the page or the section before.
    """
    start = table.x0 + 4 * row.size
    free = row.bbox.x0 > start and row.bbox.x1 <= table.x1 + row.size
    over = any(gap(row.bbox.x0, row.bbox.x1, cell.bbox.x0, cell.bbox.x1) < 0 for cell in head.cells)
    short = len(row.cells) == 1 and len(row.cells[0].text.strip()) <= _SENTENCE
    return free and over and short and (len(head.cells) >= 3 or head.bbox.x0 > start)


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
    if _says_header_again(next(row for row in other if row.is_split), run):
        return False
    if (
        not 0 <= two.y0 - one.y1 <= _SECTION_GAP * size
        or abs(one.x1 - two.x1) > 2 * size
        or abs(one.x0 - two.x0) > 4 * size
    ):
        return False
    ends, others = ({round(cell.bbox.x1 / size) for row in part for cell in row.cells[1:]} for part in (run, other))
    return len(ends & others) >= 2


def _table(run: Sequence[_Row]) -> Aligned | None:
    split = [row for row in run if row.is_split]
    if len(split) < 3 or len(split) < 0.5 * len(run):
        return None
    box = union(row.bbox for row in run)
    columns = _columns(split, box)
    if len(columns) < 2 or not _is_tabular(split, columns):
        return None
    rows = tuple(_cells(row, columns) for row in run)
    page = run[0].cells[0].page
    return Aligned(TableRegion(page, box.rounded(), rows), frozenset(cell for row in run for cell in row.cells))


def _columns(rows: Sequence[_Row], box: BBox) -> list[tuple[float, float]]:
    """Return the columns: what lies between gutters that next to no row crosses."""
    cells = [cell.bbox for row in rows for cell in row.cells]
    width = int(box.width) + 2
    begun = np.bincount([int(cell.x0 - box.x0) for cell in cells], minlength=width)
    ended = np.bincount([math.ceil(cell.x1 - box.x0) + 1 for cell in cells], minlength=width)
    covered = np.cumsum(begun[:width] - ended[:width])
    inked = np.concatenate(([0], (covered > _CROSSED * len(rows)).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(inked))
    spans = [(box.x0 + start, box.x0 + end) for start, end in zip(edges[::2], edges[1::2], strict=True)]
    least = _GUTTER * median(row.size for row in rows)
    columns: list[tuple[float, float]] = []
    for start, end in spans:
        if columns and start - columns[-1][1] < least:
            columns[-1] = columns[-1][0], end
        else:
            columns.append((start, end))
    return columns


def _is_tabular(rows: Sequence[_Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Say whether rows of cells are a table, and not columns of prose, a list, an index or formulas."""
    texts: list[list[str]] = [[] for _ in columns]
    for row in rows:
        for cell in row.cells:
            texts[_column_of(cell.bbox, columns)].append(cell.text.strip())
    held = [column for column in texts if len(column) >= 0.4 * len(rows)]
    if len(held) < 2:
        return False
    words = [text for column in texts for text in column]
    if len(held) == 2 and sum(bool(_LEADER.search(text)) for text in words) > 0.2 * len(rows):
        return False  # a table of contents
    lengths = [median(len(_LEADER.sub("", text)) for text in column) for column in held]
    if sum(length > _SENTENCE for length in lengths) >= 2:
        return False
    if len(held) == 2 and lengths[0] <= 3:
        return False
    # An amount's currency may stand apart from it, and a dash stands for none: neither tells a table from a formula.
    told = [text for text in words if not _AMOUNT_SIGN.fullmatch(text)]
    return sum(_TWO_LETTERS.search(text) is not None for text in told) >= 0.4 * len(told)


def _column_of(box: BBox, columns: Sequence[tuple[float, float]]) -> int:
    middle = (box.x0 + box.x1) / 2
    return min(range(len(columns)), key=lambda number: max(columns[number][0] - middle, middle - columns[number][1]))


def _cells(row: _Row, columns: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    texts = [""] * len(columns)
    for cell in row.cells:
        number = _column_of(cell.bbox, columns)
        texts[number] = f"{texts[number]} {cell.text.strip()}".strip()
    return tuple(texts)
