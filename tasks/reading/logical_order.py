"""Put the right-to-left lines of a page into logical order.

MuPDF begins a new line, or a new block, where the pen moves back to the right, and continues from right to left over any gap.
So lines are split at gaps between columns, the parts of a row are joined, and the letters of the whole row are ordered by
position (``bidi``).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from schemas.documents import Line, is_same_size
from schemas.drawings import Letters, PageLine
from schemas.geometry import BBox, gap, is_level, turned, union
from schemas.ports import PdfPage
from schemas.tags import escape
from tasks.reading.bidi import has_right_to_left, logical_order, runs_right_to_left, with_ligatures_in_order

_GUTTER_EM = 3.0
"""Minimum gap between letters of two columns. Of 50 pages 13 change at 1.5 (labels on a form fall apart), 3 at 6 (they join)."""

_BLANK_EM = 0.4
"""Maximum gap, or overlap, between parts of one row. Of 50 pages 15 change at 0.2 (lines fall apart at a colon), 10 at 0.8
(labels of buttons join the line beside them).
"""

_LEADING_EM = 0.4
"""Maximum gap between two lines of one paragraph. Of 50 pages 6 change at 0.2 (paragraphs fall apart), 12 at 0.8 (items of
lists join).
"""

_OVERLAP_EM = 0.5
"""Maximum overlap of two lines of one paragraph: the boxes of letters with marks are high. Of 50 pages 10 change at 0.25
(paragraphs fall apart), 11 at 1 (paragraphs join).
"""


class LineLetters:
    """The positions of the letters of a page's lines, also of lines that were split or joined."""

    def __init__(self, page: PdfPage) -> None:
        self._page = page
        self._made: dict[tuple[BBox, str], Letters] = {}

    def __call__(self, line: Line) -> tuple[str, Sequence[Sequence[float]]]:
        """Return a line's letters and their boxes; evenly spread if these are unknown, as for words in images."""
        line_letters = self._find(line)
        if line_letters is not None:
            return line_letters.text, line_letters.boxes
        x0, y0, x1, y1 = line.bbox
        step = (x1 - x0) / max(1, len(line.text))
        return line.text, [(x0 + step * box, y0, x0 + step * (box + 1), y1) for box in range(len(line.text))]

    def direction(self, line: Line) -> tuple[int, int] | None:
        """Return the direction of a line; None if unknown, or parallel to no side of the page."""
        line_letters = self._find(line)
        return None if line_letters is None else line_letters.direction

    def keep(self, line: Line, letters: Letters) -> None:
        """Store the letters of a line made of the page's lines."""
        self._made[line.bbox, line.text] = letters

    def _find(self, line: Line) -> Letters | None:
        stored_letters = self._made.get((line.bbox, line.text))
        return self._page.letters(line) if stored_letters is None else stored_letters


def in_logical_order(lines: Sequence[PageLine], letters: LineLetters) -> Iterator[PageLine]:
    """Yield lines, right-to-left ones in logical order, and those of one paragraph in one block."""
    before: Line | None = None
    parts = [
        PageLine(part, visible)
        for line, visible in lines
        for part in (
            _split_at_gutters(line, letters) if runs_right_to_left(line.text) else [_with_ligatures(line, letters)]
        )
    ]
    for row in _rows(parts, letters):
        if not runs_right_to_left("".join([line.text for line, _ in row])):
            before = None
            yield from row
            continue
        line = _joined([line for line, _ in row], letters)
        if before is not None and _continues(before, line):
            line = line._replace(block=before.block)
        before = line
        yield PageLine(line, row[0].is_visible)


def _split_at_gutters(line: Line, letters: LineLetters) -> list[Line]:
    """Return the parts of a line between gaps as wide as a column's."""
    level = letters.direction(line)
    text, boxes = letters(line)
    if level is None or len(boxes) != len(text):
        return [line]
    back, level_boxes = (level[0], -level[1]), [turned(box, level) for box in boxes]
    order = sorted((at for at, letter in enumerate(text) if not letter.isspace()), key=lambda at: level_boxes[at].x0)
    ends = [
        at
        for at, (previous, following) in enumerate(pairwise(order), 1)
        if level_boxes[following].x0 - level_boxes[previous].x1 > _GUTTER_EM * line.size
    ]
    parts: list[Line] = []
    for start, end in pairwise([0, *ends, len(order)]):
        reach = union(level_boxes[at] for at in order[start:end])
        part_letters = [at for at, box in enumerate(level_boxes) if reach.x0 <= (box.x0 + box.x1) / 2 <= reach.x1]
        words = "".join(text[at] for at in part_letters)
        box = turned(union(level_boxes[at] for at in part_letters), back).rounded()
        part = line._replace(bbox=box, text=escape(words))
        letters.keep(part, Letters(words, [boxes[at] for at in part_letters], level))
        parts.append(part)
    return parts if len(parts) > 1 else [line]


def _with_ligatures(line: Line, letters: LineLetters) -> Line:
    """Return a line of another script with the ligatures of its right-to-left words in order."""
    level = letters.direction(line) if has_right_to_left(line.text) else None
    if level is None:
        return line
    text, boxes = letters(line)
    words, level_boxes = with_ligatures_in_order(text, [turned(box, level) for box in boxes])
    if words == text:
        return line
    back = level[0], -level[1]
    ordered = line._replace(text=escape(words))
    letters.keep(ordered, Letters(words, [turned(box, back) for box in level_boxes], level))
    return ordered


def _rows(lines: Sequence[PageLine], letters: LineLetters) -> Iterator[list[PageLine]]:
    """Yield rows: lines beside each other with at most a blank in between."""
    row: list[PageLine] = []
    for part in lines:
        level = letters.direction(part.line)
        if row and not (
            part.is_visible == row[0].is_visible
            and level is not None
            and level == letters.direction(row[0].line)
            and any(_touches(part.line, row_line, level) for row_line, _ in row)
        ):
            yield row
            row = []
        row.append(part)
    if row:
        yield row


def _touches(first_line: Line, second_line: Line, direction: tuple[int, int]) -> bool:
    """Return whether two lines are on one row, at most a blank apart."""
    first_box, second_box = turned(first_line.bbox, direction), turned(second_line.bbox, direction)
    apart = gap(first_box.x0, first_box.x1, second_box.x0, second_box.x1)
    return is_level(first_box, second_box) and abs(apart) <= _BLANK_EM * max(first_line.size, second_line.size)


def _joined(row: Sequence[Line], letters: LineLetters) -> Line:
    """Return a right-to-left row as one line in logical order."""
    level = letters.direction(row[0])
    if level is None:
        return row[0]
    parts_with_boxes = [letters(line) for line in row]
    level_boxes = [turned(box, level) for _, boxes in parts_with_boxes for box in boxes]
    text, boxes = logical_order("".join([text for text, _ in parts_with_boxes]), level_boxes)
    main = max(row, key=lambda line: len(line.text))
    line = main._replace(block=row[0].block, bbox=union(line.bbox for line in row), text=escape(text))
    back = level[0], -level[1]
    letters.keep(line, Letters(text, [turned(box, back) for box in boxes], level))
    return line


def _continues(before: Line, line: Line) -> bool:
    """Return whether a line is right below the one before, with the same right edge and type size."""
    down = line.bbox.y0 - before.bbox.y1
    near = -_OVERLAP_EM * line.size <= down <= _LEADING_EM * line.size and abs(line.bbox.x1 - before.bbox.x1) <= line.size
    return near and is_same_size(line.size, before.size) and line.bold == before.bold
