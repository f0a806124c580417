"""Find code and commands, lines in a monospace font, and write them with their line breaks and indents (decision 20)."""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from schemas.documents import Line, is_same_size
from schemas.geometry import BBox, is_level, union
from tasks.reading.join import wraps

# Pages that change are those of 4,284 of 138 documents.
TYPEWRITTEN_SHARE = 0.8
"""Share of a document's letters in monospace from which on it is typewritten, and the font says nothing about a line. 23 pages
change at 0.6 (sources with few comments are read as prose).
"""
BLANK_EM = 2.0
"""Maximum gap between two rows of code: that of a blank line. 355 pages change at 1 (code is cut at blank lines), 28 at 3
(commands of two steps join).
"""
OVERLAP_EM = 0.5
"""Tolerated overlap of a row with the one before."""
BLANK_PITCHES = 1.5
"""Distance of two rows from which on a blank line is between them, relative to the lower quartile. 21 pages change at 1.3
(spaced rows get blank lines), 2 at 1.8.
"""
NUMBER_CHARACTERS = 4
"""Maximum length of the number before a line of a listing."""
FEWEST_ROWS = 3
"""Minimum rows without a blank in any. 44 pages change at 2 (lists of names become code), 20 at 4."""
INDENT_EM = 1.0
"""Indent from which on a row is set off from the text around it. 7 pages change at 0.5, 5 at 2."""
_ADDRESSES = re.compile(r"\W*(?:[\w.{}|,+-]+@[\w.-]+\W*)+|(?:\w+:)?//\S+")
_BULLET = re.compile(r"\s*(?:[•◦▪■●○–—]|\d{1,2}[.)])\s")


@dataclass(frozen=True, slots=True)
class _Row:
    """Lines beside each other, from left to right."""

    parts: tuple[Line, ...]
    bbox: BBox

    @property
    def size(self) -> float:
        return self.parts[-1].size

    @property
    def text(self) -> str:
        return " ".join(part.text.strip() for part in self.parts)

    @property
    def is_number(self) -> bool:
        """Return whether it is the number of an empty line."""
        return len(self.parts) == 1 and _is_number(self.parts[0])

    @property
    def is_mono(self) -> bool:
        """Return whether all is in monospace but a number before it."""
        first, *remaining_parts = self.parts
        return all(line.mono for line in (remaining_parts if remaining_parts and _is_number(first) else self.parts))


def is_typewritten(lines: Sequence[Line]) -> bool:
    """Return whether most of a document is in monospace."""
    mono = sum(len(line.text) for line in lines if line.mono)
    return mono > TYPEWRITTEN_SHARE * sum(len(line.text) for line in lines)


def find_code(lines: Sequence[Line], left_out: Set[Line] = frozenset()) -> list[tuple[Line, ...]]:
    """Return the code of an upright page, one block of lines each.

    Code is rows in monospace alone: one or two with two words in one, three of any, or a single word that is indented below a
    colon. A row that is part of a sentence isn't code, nor are addresses and list items.

    Args:
        lines: In MuPDF's order.
        left_out: Lines that are never code, such as margins and headings.
    """
    if not any(line.mono for line in lines):
        return []
    rows = _rows(lines)
    return [
        tuple(line for row in rows[run.start : run.stop] for line in row.parts)
        for run in _runs(rows, left_out)
        if _is_code(rows, run)
    ]


def code_text(lines: Sequence[Line]) -> str:
    """Return code with its line breaks, indents and blank lines."""
    rows = _rows(lines)
    code_x0, letter_width = _grid(lines)
    steps = [0.0, *(below.bbox.y0 - row.bbox.y0 for row, below in pairwise(rows))]
    # The lower quartile is the distance of adjacent rows, even if many rows are below a blank line.
    pitch = sorted(steps[1:])[(len(rows) - 1) // 4] if len(rows) > 1 else 0.0
    text_rows: list[str] = []
    for step, row in zip(steps, rows, strict=True):
        if step > BLANK_PITCHES * pitch:
            text_rows.append("")
        text = ""
        for part in row.parts:
            column = round((part.bbox.x0 - code_x0) / letter_width)
            # At least one blank parts what the page shows apart, even if the grid has no room for one.
            text = text.ljust(max(column, len(text) + bool(text))) + part.text
        text_rows.append(text.rstrip())
    return "\n".join(text_rows)


def _rows(lines: Sequence[Line]) -> list[_Row]:
    rows: list[list[Line]] = []
    for line in lines:
        if rows and all(is_level(line.bbox, rows[-1][at].bbox) for at in (0, -1)):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [_Row(tuple(sorted(row, key=lambda line: line.bbox.x0)), union(line.bbox for line in row)) for row in rows]


def _is_number(line: Line) -> bool:
    text = line.text.strip()
    return text.isdecimal() and len(text) <= NUMBER_CHARACTERS


def _runs(rows: Sequence[_Row], left_out: Set[Line]) -> Iterator[range]:
    """Yield runs of rows in monospace, one below the other; an empty line of a listing has a number alone."""
    start: int | None = None
    in_sentence = False
    for at, row in enumerate(rows):
        numbered = row.is_number and start is not None and _begins_with(row, rows[at - 1])
        is_code_row = (row.is_mono or numbered) and not _BULLET.match(row.text) and left_out.isdisjoint(row.parts)
        if start is not None and not (is_code_row and _follows(rows[at - 1], row)):
            yield range(start, at)
            start = None
        in_sentence = is_code_row and start is None and _goes_on(rows, at, in_sentence=in_sentence)
        if is_code_row and start is None and not in_sentence:
            start = at
    if start is not None:
        yield range(start, len(rows))


def _begins_with(number: _Row, row: _Row) -> bool:
    first = row.parts[0]
    return _is_number(first) and abs(first.bbox.x1 - number.bbox.x1) <= number.size


def _follows(above: _Row, below: _Row) -> bool:
    is_alike = is_same_size(above.size, below.size) or above.is_number or below.is_number
    return is_alike and -OVERLAP_EM * above.size <= below.bbox.y0 - above.bbox.y1 <= BLANK_EM * above.size


def _goes_on(rows: Sequence[_Row], at: int, *, in_sentence: bool) -> bool:
    """Return whether a row is a part of the sentence above it: wrapped, or between two of its lines.

    Args:
        rows: Those of the page.
        at: The row.
        in_sentence: The row before is a part of a sentence, though in monospace.
    """
    if not at or len(rows[at].parts) > 1:
        return False
    line, before = rows[at].parts[0], rows[at - 1].parts[-1]
    if (before.mono and not in_sentence) or before.block != line.block:
        return False
    if at + 1 < len(rows) and rows[at + 1].parts[0].block == line.block and not rows[at + 1].is_mono:
        return True
    box = union(part.bbox for row in rows for part in row.parts if part.block == line.block)
    return not before.text.rstrip().endswith((":", ".")) and wraps(before, line, box.x0, box.x1)


def _is_code(rows: Sequence[_Row], run: range) -> bool:
    code_rows = rows[run.start : run.stop]
    texts = [row.text for row in code_rows]
    if all(map(_ADDRESSES.fullmatch, texts)):
        return False
    if len(code_rows) >= FEWEST_ROWS:
        return True
    before = rows[run.start - 1] if run.start else None
    is_introduced = (
        before is not None
        and before.text.endswith(":")
        and code_rows[0].bbox.x0 - before.bbox.x0 > INDENT_EM * code_rows[0].size
    )
    return is_introduced or any(len(text.split()) > 1 for text in texts)


def _grid(lines: Sequence[Line]) -> tuple[float, float]:
    """Return the left side of code, and the width of its letters, by lines that are long enough for rounding not to tell."""
    longest = max(len(line.text) for line in lines)
    widths = [line.bbox.width / len(line.text) for line in lines if line.mono and 2 * len(line.text) >= longest]
    return min(line.bbox.x0 for line in lines), median(widths or [lines[-1].size])
