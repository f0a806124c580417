"""Find tables without rules by the alignment of their words: rows of cells, one below the other in the same columns."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from schemas.documents import CellSpan, FoundBy, Line, TableRegion
from schemas.geometry import BBox, gap, is_level, union
from tasks.tables.rows import first_word_width

CELL_GAP_EM = 0.8
"""Minimum gap between two cells of a row. Of 15,764 pages none change at 0.55, 49 at 0.9 (rows of narrow columns are lost)."""
FEWEST_ROWS = 3
"""Minimum rows with cells. Of 15,764 pages 708 change at 2 (pairs of lines become tables), 323 at 4 (small tables are lost)."""
SPLIT_ROWS_SHARE = 0.5
"""Minimum share of rows with cells. Of 15,764 pages 38 change at 0.335 (lists with wrapped remarks become tables), 238 at 0.75
(tables with wrapped cells are lost).
"""
FIRST_COLUMN_EM = 4.0
"""Minimum width of the first column, which a header over several columns leaves free."""
FEWEST_HEADER_COLUMNS = 3
"""Minimum columns below such a header if the first column is not free."""
HEAD_GAP_EM = 1.0
"""Maximum gap between a wrapped header and the first row, in ems."""
HEAD_LINE_EM = 0.3
"""Maximum gap between two lines of a wrapped header, in ems: that of lines in a paragraph."""
HEAD_STEP_SHARE = 0.95
"""Maximum distance of a wrapped header's lines, relative to that of the table's rows; lines as far apart are rows."""
GUTTER_EM = 0.3
"""Minimum width of a gutter between columns."""
CROSSED_SHARE = 0.15
"""Maximum share of the rows that cross a gutter. Of 15,764 pages 153 change at 0.101 (columns below a header over two join),
219 at 0.225 (currency symbols lose their column).
"""
FILLED_COLUMN_SHARE = 0.4
"""Minimum share of the rows with a cell in a column that counts. Of 15,764 pages 86 change at 0.268 (formulas and code become
tables), 55 at 0.6 (tables with empty cells are lost).
"""
LEADERS_SHARE = 0.2
"""Share of rows with dot leaders from which on they are a table of contents."""
SENTENCE_CHARACTERS = 32
"""Length of a cell from which on its column has sentences. Of 15,764 pages 99 change at 21 (tables of descriptions are lost),
14 at 48 (columns of prose become tables).
"""
MOST_SENTENCE_COLUMNS = 1
"""Maximum columns of sentences. Of 15,764 pages 331 change at 0 (tables with a column of descriptions are lost), 6 at 2
(columns of prose become tables).
"""
NUMBER_CHARACTERS = 3
"""Maximum length of the numbers before the lines of a listing."""
WORDS_SHARE = 0.4
"""Minimum share of the cells with two letters or digits: cells of formulas have fewer."""
_ROMAN = re.compile(r"[ivxlc]+")
_LEADER = re.compile(r"(?:\. ?){4,}|(?:_ ?){4,}|…")
_LETTER = re.compile(r"[^\W\d_]")
_TWO_LETTERS = re.compile(r"\w\W*\w")
_CURRENCY = re.compile(r"[$€£¥%]|[—–-]+")
_BEFORE_NEXT = re.compile(r"(.*\S)\s+([$£¥])")
"""A cell with a symbol that is written before numbers, so that it is the next cell's."""
_BULLET = re.compile(r"[^\w\s]|o|(?:[^\w\s]\s+)?\(?\w{1,2}[.)]|\([*†‡§]{1,3}\)|[*†‡§]{2,3}")


@dataclass(frozen=True, slots=True)
class Aligned:
    """A table, and its lines."""

    table: TableRegion
    lines: frozenset[Line]


class _Row(NamedTuple):
    """Level lines of text from left to right; ``is_split`` means that they are cells, with more than a blank between them."""

    cells: tuple[Line, ...]
    bbox: BBox
    size: float
    is_split: bool


def align_region(lines: Sequence[Line], *, right_to_left: bool = False) -> Aligned | None:
    """Return the table in a region that a layout model calls one, however far apart its rows; None if it has no columns."""
    run = _trimmed([_row(level) for level in levels_of(lines)])
    return _table(run, right_to_left=right_to_left)


def gutters_of(lines: Sequence[Line]) -> list[float]:
    """Return the middles of the gutters between the columns of a region."""
    split = [row for level in levels_of(lines) if (row := _row(level)).is_split]
    return _gutters(split, union(row.bbox for row in split)) if split else []


def _row(cells: Sequence[Line]) -> _Row:
    if len(cells) == 1:
        return _Row((cells[0],), cells[0].bbox, cells[0].size, is_split=False)
    size = max([cell.size for cell in cells])
    is_split = any(
        cell_after.bbox.x0 - cell_before.bbox.x1 >= CELL_GAP_EM * size for cell_before, cell_after in pairwise(cells)
    )
    return _Row(tuple(cells), union([cell.bbox for cell in cells]), size, is_split)


def _left(line: Line) -> float:
    return line.bbox.x0


def _trimmed(run: Sequence[_Row]) -> list[_Row]:
    """Remove the rows at the ends that have no cells, except a header over several columns."""
    split = [number for number, row in enumerate(run) if row.is_split]
    if not split:
        return []
    first = split[0]
    if first and _spans(run[first - 1], run[first], union(row.bbox for row in run[first : split[-1] + 1])):
        first -= 1
    return list(run[first : split[-1] + 1])


def _spans(row: _Row, head: _Row, table: BBox) -> bool:
    """Return whether a row above a table's first is a header over values, as "Year ended December 31,": the first column is free.

    Above two columns without a free one it is the end of a cell from the page or the section before.
    """
    start = table.x0 + FIRST_COLUMN_EM * row.size
    free = row.bbox.x0 > start
    over = any(gap(row.bbox.x0, row.bbox.x1, cell.bbox.x0, cell.bbox.x1) < 0 for cell in head.cells)
    short = len(row.cells) == 1 and len(row.cells[0].text.strip()) <= SENTENCE_CHARACTERS
    return free and over and short and (len(head.cells) >= FEWEST_HEADER_COLUMNS or head.bbox.x0 > start)


def _table(run: Sequence[_Row], *, right_to_left: bool) -> Aligned | None:
    """Return the table that rows make, a wrapped header joined; None if they aren't a table."""
    split = [row for row in run if row.is_split]
    if len(split) < FEWEST_ROWS or len(split) < SPLIT_ROWS_SHARE * len(run):
        return None
    gutters = _gutters(split, union(row.bbox for row in run))
    if not gutters or not _is_tabular(split, gutters):
        return None
    head, run = _wrapped_head(run, gutters)
    box = union(row.bbox for row in (*head, *run))
    columns = _extents(split, gutters)
    labelled_rows = run if right_to_left else _with_whole_labels(run, gutters)
    texts_and_spans = [_cells(row, gutters, columns, right_to_left=right_to_left) for row in (*head, *labelled_rows)]
    rows = [row for row, _ in texts_and_spans]
    if head:
        rows = [tuple(" ".join(filter(None, texts)) for texts in zip(*rows[: len(head)], strict=True)), *rows[len(head) :]]
    spans = tuple(
        CellSpan(number, column, 1, columns)
        for number, (_, covered) in enumerate(texts_and_spans[len(head) :], 1 if head else 0)
        for column, columns in covered.items()
    )
    page = run[0].cells[0].page
    table = TableRegion(page, box.rounded(), tuple(rows), FoundBy.ALIGNED, spans)
    return Aligned(table, frozenset(cell for row in (*head, *run) for cell in row.cells))


def _with_whole_labels(rows: Sequence[_Row], gutters: Sequence[float]) -> list[_Row]:
    """Return rows with the lines of each wrapped label joined; its values are level with one of them.

    A line of the first column goes on the one above if it begins in lower case, and its first word had no room there.
    """
    values = min(cell.bbox.x0 for row in rows for cell in row.cells if _column_of(cell.bbox, gutters))
    right = max((cell.bbox.x1 for row in rows for cell in row.cells if cell.bbox.x1 <= values), default=0.0)
    joined: list[_Row] = []
    for row in rows:
        above = joined[-1] if joined else None
        if above is not None and _is_wrapped(above, row, right):
            first = above.cells[0]
            blank = "" if first.text.rstrip().endswith("-") else " "
            text = f"{first.text.strip()}{blank}{row.cells[0].text.strip()}"
            label = first._replace(text=text, bbox=first.bbox | row.cells[0].bbox)
            cells = (label, *above.cells[1:], *row.cells[1:])
            joined[-1] = _Row(cells, above.bbox | row.bbox, above.size, above.is_split or row.is_split)
        else:
            joined.append(row)
    return joined


def _is_wrapped(above: _Row, row: _Row, right: float) -> bool:
    """Return whether the label of a row goes on the one above, given how far right labels reach."""
    label, line, text = above.cells[0].bbox, row.cells[0].bbox, row.cells[0].text.strip()
    if (len(above.cells) > 1 and len(row.cells) > 1) or not text[:1].islower() or max(label.x1, line.x1) > right:
        return False
    near = row.bbox.y0 - above.bbox.y1 <= HEAD_LINE_EM * row.size
    return near and label.x1 + first_word_width(text, line) > right


def _wrapped_head(run: Sequence[_Row], gutters: Sequence[float]) -> tuple[list[_Row], Sequence[_Row]]:
    """Return the lines of a wrapped header above a table's first row, level by level, and the rows below it.

    A PDF may hold a header cell by cell, not line by line, so that its lines aren't rows. They are a header if each is above
    one column only, they are above two columns or more, and closer together than the rows of the table.
    """
    first = next(number for number, row in enumerate(run) if row.is_split)
    body = run[first:]
    size = body[0].size
    columns = _extents(body, gutters)
    above = [cell for row in run[:first] for cell in row.cells]
    levels: list[_Row] = []
    top = body[0].bbox.y0
    for cells in reversed(levels_of(above)):
        row = _row(cells)
        spacing = HEAD_LINE_EM if levels else HEAD_GAP_EM
        if not top - row.bbox.y1 <= spacing * size or any(_columns_under(cell.bbox, columns) != 1 for cell in cells):
            break
        levels.insert(0, row)
        top = row.bbox.y0
    covered = {_column_of(cell.bbox, gutters) for row in levels for cell in row.cells}
    head_cells = {cell for row in levels for cell in row.cells}
    if len(levels) < 2 or len(covered) < 2 or not head_cells.issuperset(above):
        return [], run
    steps = [under.bbox.y0 - over.bbox.y0 for over, under in pairwise(body)]
    lines = [under.bbox.y0 - over.bbox.y0 for over, under in pairwise(levels)]
    return (levels, body) if max(lines) < HEAD_STEP_SHARE * median(steps) else ([], run)


def levels_of(lines: Sequence[Line]) -> list[list[Line]]:
    """Return lines by the row they stand on, from the top, each from left to right."""
    levels: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.bbox.y0 + line.bbox.y1):
        if levels and is_level(levels[-1][0].bbox, line.bbox):
            levels[-1].append(line)
        else:
            levels.append([line])
    return [sorted(level, key=_left) for level in levels]


def _extents(rows: Sequence[_Row], gutters: Sequence[float]) -> list[BBox]:
    """Return the box of each column's cells, without those that cross a gutter."""
    columns: dict[int, list[BBox]] = {}
    for row in rows:
        for cell in row.cells if row.is_split else ():
            if len(_columns_of(cell.bbox, gutters)) == 1:
                columns.setdefault(_column_of(cell.bbox, gutters), []).append(cell.bbox)
    return [union(boxes) for _, boxes in sorted(columns.items())]


def _columns_under(box: BBox, columns: Sequence[BBox]) -> int:
    return sum(gap(box.x0, box.x1, column.x0, column.x1) < 0 for column in columns)


def _gutters(rows: Sequence[_Row], box: BBox) -> list[float]:
    """Return the middles of the gutters between columns, which almost no row crosses."""
    # How many more rows cover a coordinate, in whole points, than the one before.
    changes: Counter[int] = Counter()
    for row in rows:
        for cell in row.cells:
            changes[int(cell.bbox.x0 - box.x0)] += 1
            changes[math.ceil(cell.bbox.x1 - box.x0) + 1] -= 1
    spans: list[tuple[float, float]] = []
    covered, start = 0, None
    for at in sorted(changes):
        covered += changes[at]
        inked = covered > CROSSED_SHARE * len(rows)
        if inked and start is None:
            start = box.x0 + at
        elif not inked and start is not None:
            spans.append((start, box.x0 + at))
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
    """Return whether rows of cells are a table, not columns of prose, a list, an index or formulas."""
    texts: list[list[str]] = [[] for _ in range(len(gutters) + 1)]
    for row in rows:
        for column, cells in groupby(row.cells, lambda cell: _column_of(cell.bbox, gutters)):
            texts[column].append(" ".join(cell.text.strip() for cell in cells))
    filled_columns = [column for column in texts if len(column) >= FILLED_COLUMN_SHARE * len(rows)]
    if len(filled_columns) < 2:
        return False
    if len(filled_columns) == 2 and (
        _length(filled_columns[0]) <= NUMBER_CHARACTERS or all(map(_BULLET.fullmatch, filled_columns[0]))
    ):
        return False
    words = [text for column in texts for text in column]
    if sum(bool(_LEADER.search(text)) for text in words) > LEADERS_SHARE * len(rows) and (
        len(filled_columns) == 2 or (len(filled_columns) == 3 and _ascend(filled_columns[-1]))
    ):
        return False  # a table of contents; in three columns are numbers, titles and pages
    if sum(_length(column) > SENTENCE_CHARACTERS for column in filled_columns) > MOST_SENTENCE_COLUMNS:
        return False
    # A separate currency symbol, or a dash for no amount, may be a table's or a formula's.
    spelled = [text for text in words if not _CURRENCY.fullmatch(text)]
    return sum(_TWO_LETTERS.search(text) is not None for text in spelled) >= WORDS_SHARE * len(spelled)


def _ascend(column: Sequence[str]) -> bool:
    """Return whether a column holds the numbers of pages in order, which may begin with Roman ones."""
    numbers = [int(text) for text in column if text.isdecimal()]
    roman_numerals = [text for text in column if not text.isdecimal()]
    return len(numbers) > 1 and numbers == sorted(numbers) and all(_ROMAN.fullmatch(text) for text in roman_numerals)


def _length(column: Sequence[str]) -> float:
    return median(len(_LEADER.sub("", text)) for text in column)


def _column_of(box: BBox, gutters: Sequence[float]) -> int:
    return bisect_left(gutters, (box.x0 + box.x1) / 2)


def _columns_of(box: BBox, gutters: Sequence[float]) -> range:
    return range(bisect_left(gutters, box.x0), bisect_left(gutters, box.x1) + 1)


def _cells(
    row: _Row, gutters: Sequence[float], extents: Sequence[BBox], *, right_to_left: bool
) -> tuple[tuple[str, ...], dict[int, int]]:
    """Return the texts of a row, and how many columns each cell over several covers, by its first.

    A cell covers the columns on both sides of a gutter that it crosses, if no other cell of its row is in any of them, and
    unless it is above or below the words of one column only; names of groups side by side may be.
    """
    texts = [""] * (len(gutters) + 1)
    spans: dict[int, int] = {}
    cell_columns = [_column_of(cell.bbox, gutters) for cell in row.cells]
    reached = [_columns_of(cell.bbox, gutters) for cell in row.cells]
    over = [
        len(columns) > 1 and not any(column in columns for column in (*cell_columns[:at], *cell_columns[at + 1 :]))
        for at, columns in enumerate(reached)
    ]
    for at, (cell, columns) in enumerate(zip(row.cells, reached, strict=True)):
        wide = over[at] and (sum(over) > 1 or _columns_under(cell.bbox, extents) != 1)
        first = cell_columns[at] if not wide else columns[-1] if right_to_left else columns[0]
        number = len(gutters) - first if right_to_left else first
        texts[number] = f"{texts[number]} {cell.text.strip()}".strip()
        if wide:
            spans[number] = len(columns)
    for at in range(len(texts) - 1):
        if texts[at + 1] and (broken_cell := _BEFORE_NEXT.fullmatch(texts[at])):
            texts[at : at + 2] = broken_cell[1], f"{broken_cell[2]} {texts[at + 1]}"
    return tuple(texts), spans


FEWEST_ENTRIES = 3
"""Minimum entries with leaders in a table of contents."""
RISING_SHARE = 0.8
"""Minimum share of its entries whose page isn't before that of the entry above."""
MOST_BETWEEN = 4
"""Maximum distance of two entries with leaders, in rows; between them are chapters, or titles of two lines."""
_ENTRY = re.compile(r".*\S\s*(?:[.·_…]\s?){4,}\s*(?P<page>\d{1,4}|[ivxlc]{1,7})\s*")
_ENTRY_BELOW_TITLE = re.compile(r".*\S\s{3,}(?P<page>\d{1,4}|[ivxlc]{1,7})\s*")
_CONTENTS = re.compile(
    r"\W*(?:table of )?(?:contents|inhalt(?:sverzeichnis)?|sommaire|table des matières|índice|indice|目录|目次)\W*",
    re.IGNORECASE,
)
"""The title of a table of contents, below which blanks may stand for leaders."""


def contents_entries(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a page that are a table of contents: titles, leaders, and numbers of pages that go up."""
    rows = levels_of(lines)
    entry = _ENTRY_BELOW_TITLE if any(_CONTENTS.fullmatch(line.text) for line in lines) else _ENTRY
    numbers = [_page_of_entry(row, _ENTRY, entry) for row in rows]
    entries = [at for at, number in enumerate(numbers) if number is not None]
    pages = [number for number in numbers if number]
    rising = sum(page <= following_page for page, following_page in pairwise(pages))
    if len(entries) < FEWEST_ENTRIES or rising < RISING_SHARE * (len(pages) - 1):
        return []
    entry_rows = [entries[0]]
    for at in entries[1:]:
        entry_rows += range(entry_rows[-1] + 1, at + 1) if at - entry_rows[-1] <= MOST_BETWEEN else [at]
    return [line for at in entry_rows for line in rows[at]]


def _page_of_entry(row: Sequence[Line], *entries: re.Pattern[str]) -> int | None:
    """Return the page that an entry of a table of contents names, 0 for a Roman number; None for any other row."""
    text = "   ".join(line.text.strip() for line in row)
    page = next((match["page"] for entry in entries if (match := entry.fullmatch(text))), None)
    return None if page is None else int(page) if page.isdecimal() else 0
