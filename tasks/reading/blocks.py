"""Group the lines of a page into blocks: paragraphs, list items, headings."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.documents import LayoutLabel, Line, PageRegion
from schemas.drawings import PageLine
from schemas.geometry import BBox, is_level, union
from tasks.reading.bidi import runs_right_to_left
from tasks.reading.join import wraps
from tasks.tables.rows import View

FEWEST_LETTERS, FEWEST_JUSTIFIED = 20, 4
"""Minimum letters of a line that may be justified, and minimum lines that end at one place."""
JUSTIFIED_SHARE = 0.8
"""Minimum share of the lines of a region, without its last, that reach the right side of a justified column. At 0.5 ragged ones
count, and are cut at their short lines: paragraphs of 14 of 50 documents.
"""
JUSTIFIED_EM = 0.7
"""Room at the end of a justified line from which on it isn't wrapped, in ems."""
GUTTER_EM, FEWEST_BESIDE = 1.0, 3
"""Minimum gap between two columns, in ems, and minimum rows with one, if the lines of a region are in columns."""
FEWEST_LEVEL_ITEMS = 2
"""Minimum markers on one row of items side by side."""
DROP_CAP_LETTERS = 2
"""Maximum letters of a drop cap, beside which the first lines of a paragraph are indented."""
DROP_CAP_SIZE = 1.8
"""Minimum size of a drop cap, relative to the text."""
OTHER_SIZE = 1.3
"""Ratio of type sizes from which on two lines are two blocks."""
INDENT_EM = 0.8
"""Minimum indent of a paragraph's first line, in ems."""
GAP_SHARE = 1.3
"""Minimum distance of the baselines of two paragraphs, relative to that of the lines of one."""
SIZE_SHARE = 0.15
"""Maximum difference of the type sizes of the lines of one block."""
HELD_SHARE = 0.5
"""Minimum share of a line, or of the model's box for it, that both have in common."""
MARKER_GAP_EM = 4.0
"""Maximum gap between a marker and its item, in ems."""
SAME_LEFT_EM = 0.3
"""Tolerated distance of two lines that begin at one place."""

_BULLET = r"[•◦▪▫‣∙●○◉■□➢➤➔❖✓✔✗✘❍⇒▸►▶◆◇◊★☐☑☒⁃\u2700-\u27bf\uf000-\uf0ff]"
SURE_MARKER = re.compile(rf"\s*{_BULLET}(?:\s|$)")
MARKER = re.compile(
    rf"\s*(?:{_BULLET}|[-–—*·»+o]|\(?(?:\d{{1,3}}|[A-Za-z]|[ivxlcIVXLC]{{1,6}})[.)]|\[\d{{1,3}}\]|[①-⑳])(?:\s|$)"
)
_LONE_MARKER = re.compile(rf"\s*(?:{_BULLET}|[-–—*·»]|\(?\d{{1,3}}[.)])\s*")
ENDS_SENTENCE = re.compile(r"[.!?:;。！？：][\"'”’)\]]*\s*$")

INDEX_ENTRY = re.compile(r"\S(?:,\s+|\s{2,})\d+(?:[-–]\d+)?f{0,2}\s*$")
"""A line of an index: a term and its pages."""
_STAMP = re.compile(r"\W*(?:[A-Z][a-z]{2}\s+\d{1,2}\s+)?\d{1,4}[-/.:]\d{2}[-/.:]\d{2}")
"""The date or time that a line of a log begins with."""

_HEADINGS = frozenset({LayoutLabel.HEADING, LayoutLabel.TITLE})


_Block = tuple[float, LayoutLabel | None, list[PageLine]]
"""A block: its position in the order of the PDF, its label, its lines."""


class Row(NamedTuple):
    """Level lines of text from left to right, as the page's reader sees them; ``foot`` is the lower side of the longest."""

    lines: tuple[PageLine, ...]
    bbox: BBox
    size: float
    bold: bool
    mono: bool
    text: str
    foot: float


def regroup_lines(
    lines: Sequence[PageLine], regions: Sequence[PageRegion], rotation: int, frames: Sequence[BBox] = ()
) -> list[PageLine]:
    """Return the lines of a page, block by block, each with the number and the label of its block.

    ``frames`` are boxes drawn around lines, of which no block has lines inside and outside.
    """
    view = View(rotation)
    lines = [PageLine(line._replace(bbox=view.seen(line.bbox)), is_visible) for line, is_visible in lines]
    rights = _column_sides([line for line, _ in lines])
    order = {id(line): number for number, line in enumerate(lines)}
    blocks: list[_Block] = []
    groups = _groups(lines, regions, view, [*map(view.seen, frames)])
    for label, group, rows in _in_columns(groups):
        if label is LayoutLabel.FORMULA:
            parts = _by_block(group)
        elif label is LayoutLabel.TABLE:
            parts = [list(row.lines) for row in rows]
        else:
            parts = [
                [line for row in block for line in row.lines]
                for items in _items_beside(rows, label)
                for block in _paragraphs(items, label, rights)
            ]
        table = _position(group, order) if label is LayoutLabel.TABLE else None  # its rows stay together
        blocks.extend((_position(part, order) if table is None else table, label, part) for part in parts)
    # The sort is stable, so that blocks with one position, such as the rows of a table, stay in their order.
    blocks.sort(key=itemgetter(0))
    return [
        PageLine(line._replace(block=number, label=label, bbox=view.stored(line.bbox)), is_visible)
        for number, (_, label, block) in enumerate(_joined_to_drop_caps(blocks))
        for line, is_visible in _with_drop_cap(block)
    ]


def _joined_to_drop_caps(blocks: Sequence[_Block]) -> list[_Block]:
    """Return blocks, a drop cap with the block beside it and those below that go on with its sentence."""
    joined: list[_Block] = []
    for position, label, block in blocks:
        if _is_beside_cap(block[1::-1]):  # the cap's row is lower than that of the line beside it
            block[:2] = block[1::-1]
        before = joined[-1][2] if joined else []
        if before:
            cap, above, line = before[0].line, before[-1].line, block[0].line
            is_near = _is_beside_cap([*before, *block][:2]) and line.bbox.gap_x(cap.bbox) < line.size
            goes_on = line.bbox.y0 - above.bbox.y1 < line.size and not ENDS_SENTENCE.search(above.text)
            if is_near and (len(before) == 1 or goes_on):
                joined[-1] = joined[-1][0], label, [*before, *block]
                continue
        joined.append((position, label, block))
    return joined


def _is_beside_cap(block: Sequence[PageLine]) -> bool:
    """Return whether the second line of a block stands beside a large first letter."""
    if len(block) < 2:
        return False
    cap, line = block[0].line, block[1].line
    letter = cap.text.strip()
    is_cap = len(letter) <= DROP_CAP_LETTERS and letter.isalpha() and cap.size > DROP_CAP_SIZE * line.size
    stands_beside = cap.bbox.gap_y(line.bbox) < 0 and cap.bbox.x0 < line.bbox.x0
    return is_cap and stands_beside and not line.text[:1].isspace()


def _with_drop_cap(block: list[PageLine]) -> list[PageLine]:
    """Return the lines of a block, a large first letter joined with the rest of its word."""
    if not _is_beside_cap(block):
        return block
    (cap, is_visible), (line, _), *following = block
    return [PageLine(line._replace(text=cap.text.strip() + line.text, bbox=cap.bbox | line.bbox), is_visible), *following]


def _position(lines: Sequence[PageLine], order: dict[int, int]) -> float:
    """Return where a block stands in the order of the PDF, which may have its bullet elsewhere."""
    worded = [line for line in lines if not _LONE_MARKER.fullmatch(line.line.text)]
    return median([order[id(line)] for line in worded or lines])


def _groups(
    lines: Sequence[PageLine], regions: Sequence[PageRegion], view: View, frames: Sequence[BBox]
) -> Iterator[tuple[LayoutLabel | None, list[PageLine]]]:
    """Yield the lines of each region, with its label, and of the rest the PDF reader's blocks, each frame's apart."""
    boxes = [(at, view.seen(box)) for at, region in enumerate(regions) for box in region.lines]
    sides = np.array([box for _, box in boxes], dtype=np.float64).reshape(-1, 4)
    holders = [_holder(line.bbox, sides) for line, _ in lines]
    framed = _frames_of([line for line, _ in lines], frames)
    # A line of a region goes with the region, whichever block the PDF has it in.
    keys = [
        (None, line.block, frame) if at is None else (boxes[at][0], 0, frame)
        for at, frame, (line, _) in zip(holders, framed, lines, strict=True)
    ]
    for number, (line, _) in enumerate(lines):
        # A marker that stands alone goes where its item goes, in whichever block the PDF has it.
        if _LONE_MARKER.fullmatch(line.text) and (item := _item_of(number, lines)) is not None:
            keys[number] = keys[item]
    groups: dict[tuple[int | None, int, int], list[PageLine]] = defaultdict(list)
    for key, page_line in zip(keys, lines, strict=True):
        groups[key].append(page_line)
    for (region, _, _), group in groups.items():
        yield None if region is None else regions[region].label, group


def _frames_of(lines: Sequence[Line], frames: Sequence[BBox]) -> list[int]:
    """Return the smallest frame around each line, of those around more than one; -1 for none."""
    framed = np.full(len(lines), -1)
    sides = np.array(frames, dtype=np.float64).reshape(-1, 1, 4)
    boxes = np.array([line.bbox for line in lines], dtype=np.float64).reshape(-1, 4)
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = np.all((sides[..., :2] <= middles) & (middles <= sides[..., 2:]), axis=2)
    around = [int(number) for number in np.flatnonzero(inside.sum(axis=1) > 1)]
    for number in sorted(around, key=lambda number: frames[number].area, reverse=True):
        framed[inside[number]] = number
    numbers: list[int] = framed.tolist()
    return numbers


def _in_columns(
    groups: Iterator[tuple[LayoutLabel | None, list[PageLine]]],
) -> Iterator[tuple[LayoutLabel | None, list[PageLine], list[Row]]]:
    """Yield groups of lines with their rows. Text in columns is split by the PDF reader's blocks: rows would mix the columns."""
    for label, group in groups:
        rows = _rows(group)
        beside = 0 if label in (LayoutLabel.FORMULA, LayoutLabel.TABLE) else sum(map(_has_gutter, rows))
        if label is LayoutLabel.PICTURE or (beside >= FEWEST_BESIDE and 2 * beside > len(rows)):
            yield from ((label, part, _rows(part)) for part in _by_block(group))
        else:
            yield label, group, rows


def _items_beside(rows: Sequence[Row], label: LayoutLabel | None) -> Iterator[list[Row]]:
    """Yield runs of rows, items that are level with one another apart; those of a drawing's parts have bare numbers."""
    run: list[Row] = []
    for row in rows:
        starts = [
            at
            for at, (line, _) in enumerate(row.lines)
            if MARKER.match(line.text) or (label is LayoutLabel.ITEM and line.text.strip().isdecimal())
        ]
        if len(starts) < FEWEST_LEVEL_ITEMS or starts[0]:
            run.append(row)
            continue
        if run:
            yield run
            run = []
        for start, end in pairwise([*starts, len(row.lines)]):
            yield [_row(row.lines[start:end])]
    if run:
        yield run


def _has_gutter(row: Row) -> bool:
    """Return whether a row has two long pieces with a gutter between them."""
    boxes = [line.bbox for line, _ in row.lines if len(line.text.strip()) >= FEWEST_LETTERS]
    return any(left_box.gap_x(right_box) > GUTTER_EM * row.size for left_box, right_box in pairwise(boxes))


def _item_of(number: int, lines: Sequence[PageLine]) -> int | None:
    """Return which line a marker that stands alone belongs to: the nearest one that is level with it."""
    marker = lines[number].line
    level = [
        (line.bbox.x0 - marker.bbox.x1, at)
        for at, (line, _) in enumerate(lines)
        if at != number
        and 0 <= line.bbox.x0 - marker.bbox.x1 <= MARKER_GAP_EM * line.size
        and is_level(line.bbox, marker.bbox)
    ]
    return min(level)[1] if level else None


def _holder(box: BBox, sides: NDArray[np.float64]) -> int | None:
    """Return which of some boxes shares most with a line's; None if none has half of it."""
    if not len(sides):
        return None
    across = np.minimum(sides[:, 2], box.x1) - np.maximum(sides[:, 0], box.x0)
    down = np.minimum(sides[:, 3], box.y1) - np.maximum(sides[:, 1], box.y0)
    shared = np.clip(across, 0, None) * np.clip(down, 0, None)
    at = int(shared.argmax())
    smaller = min(box.area, (sides[at, 2] - sides[at, 0]) * (sides[at, 3] - sides[at, 1]))
    return at if shared[at] > 0 and shared[at] >= HELD_SHARE * smaller else None


def _by_block(lines: Sequence[PageLine]) -> list[list[PageLine]]:
    blocks: dict[int, list[PageLine]] = defaultdict(list)
    for line in lines:
        blocks[line.line.block].append(line)
    return list(blocks.values())


def _rows(lines: Sequence[PageLine]) -> list[Row]:
    """Return the rows of a block from top to bottom."""
    rows: list[list[PageLine]] = []
    for line in sorted(lines, key=lambda read: read.line.bbox.y0 + read.line.bbox.y1):
        box = line.line.bbox
        if rows and all(is_level(box, row_line.bbox) and box.gap_x(row_line.bbox) >= -1 for row_line, _ in rows[-1]):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [*map(_row, rows)]


def _row(lines: Sequence[PageLine]) -> Row:
    right_to_left = runs_right_to_left("".join(line.text for line, _ in lines))
    in_order = sorted(lines, key=lambda read: read.line.bbox.x0, reverse=right_to_left)
    main = max((line for line, _ in in_order), key=lambda line: len(line.text.strip()))
    return Row(
        tuple(in_order),
        union(line.bbox for line, _ in lines),
        main.size,
        main.bold,
        main.mono,
        " ".join(line.text.strip() for line, _ in in_order),
        main.bbox.y1,
    )


def _column_sides(lines: Sequence[Line]) -> list[float]:
    """Return where the justified lines of a page end."""
    ends = Counter(round(line.bbox.x1) for line in lines if len(line.text) >= FEWEST_LETTERS)
    # Ends of one side may be rounded to two or three numbers.
    return sorted(end for end in ends if ends[end - 1] + ends[end] + ends[end + 1] >= FEWEST_JUSTIFIED)


class Column(NamedTuple):
    """The sides of a column of text."""

    left: float
    right: float
    is_justified: bool
    is_right_to_left: bool = False

    def wraps(self, above: Row, row: Row) -> bool:
        """Return whether a row goes on the line above it, which had no room for its first word."""
        if self.is_justified:
            return above.bbox.x1 >= self.right - JUSTIFIED_EM * row.size or above.text.endswith(("-", "\u00ad", "\u2010"))
        return wraps(_line(above), _line(row), self.left, self.right)


def _column(rows: Sequence[Row], rights: Sequence[float]) -> Column:
    column_x0, column_x1 = min(row.bbox.x0 for row in rows), max(row.bbox.x1 for row in rows)
    side = next((side for side in rights if column_x1 - 2 <= side), None)
    is_right_to_left = runs_right_to_left("".join(row.text for row in rows))
    if side is None or is_right_to_left:
        return Column(column_x0, column_x1, is_justified=False, is_right_to_left=is_right_to_left)
    ends = [row.bbox.x1 for row in rows[:-1]]
    flush = sum(end >= side - 2 for end in ends)
    return Column(column_x0, max(side, column_x1), is_justified=flush >= JUSTIFIED_SHARE * len(ends) > 0)


def _paragraphs(rows: Sequence[Row], label: LayoutLabel | None, rights: Sequence[float]) -> Iterator[list[Row]]:
    """Cut the rows of a region where a paragraph, an item or a heading begins."""
    column = _column(rows, rights)
    pitches = [below.foot - above.foot for above, below in pairwise(rows) if abs(above.size - below.size) < 0.5]
    # The lower quartile is the distance of lines within a paragraph, even if most paragraphs have a line or two; a single
    # distance can't be compared with others.
    pitch = sorted(pitches)[len(pitches) // 4] if len(pitches) > 1 else float("inf")
    is_index = len(rows) > 1 and 2 * sum(INDEX_ENTRY.search(row.text) is not None for row in rows) > len(rows)
    block: list[Row] = []
    for at, row in enumerate(rows):
        following = rows[at + 1] if at + 1 < len(rows) else None
        is_entry = bool(block) and (
            INDEX_ENTRY.search(block[-1].text) if is_index else _STAMP.match(block[0].text) and _STAMP.match(row.text)
        )
        if block and (is_entry or _begins(row, block, following, label, column, pitch)):
            yield block
            block = []
        block.append(row)
    if block:
        yield block


def _begins(
    row: Row, block: Sequence[Row], following: Row | None, label: LayoutLabel | None, column: Column, pitch: float
) -> bool:
    """Return whether a row begins a block."""
    above = block[-1]
    if label is LayoutLabel.CAPTION:
        return False
    is_wrapped = column.wraps(above, row)
    goes_on = is_wrapped and abs(row.bbox.x0 - above.bbox.x0) < row.size and not ENDS_SENTENCE.search(above.text)
    larger = max(row.size, above.size) / max(min(row.size, above.size), 0.1)
    has_drop_cap = any(
        len(line.text.strip()) <= DROP_CAP_LETTERS and line.size > OTHER_SIZE * row.size for line in _lines(block)
    )
    # What the model calls a heading is one block, though its lines may differ in size.
    if (larger > OTHER_SIZE and not has_drop_cap) or ((larger > 1 + SIZE_SHARE or row.mono != above.mono) and not goes_on):
        return label not in _HEADINGS
    if has_drop_cap:
        return not is_wrapped and bool(ENDS_SENTENCE.search(above.text))
    down = row.foot - above.foot
    if down > GAP_SHARE * pitch and down > pitch + 1:
        return True
    # Code is cut at gaps alone, since its indents don't begin paragraphs.
    if row.mono and above.mono:
        return False
    if label in _HEADINGS:
        return False
    if SURE_MARKER.match(row.text) or _counts_on(block[0], row):
        return True
    outdent, same = above.bbox.x0 - row.bbox.x0, SAME_LEFT_EM * row.size
    if MARKER.match(row.text) and (label is LayoutLabel.ITEM or not is_wrapped or outdent > same):
        return True
    if row.bold != above.bold and not is_wrapped:
        return True
    # The rules on indents below are for lines that begin at the left.
    if column.is_right_to_left:
        return not is_wrapped and bool(ENDS_SENTENCE.search(above.text))
    centred = abs(sum(row.bbox[::2]) - sum(above.bbox[::2])) < row.size / 2 and abs(outdent) > same
    # Centred lines begin at different places without being indented.
    if centred:
        return False
    indent = INDENT_EM * row.size
    if outdent > indent and len(block) > 1:
        return True
    if -outdent > indent:
        # The second line of a block may hang below the first; from the third on, an indented line begins a paragraph.
        if len(block) > 1:
            return True
        if MARKER.match(above.text):
            return False  # the rest of an item hangs below its text
        # If the next line is as far right, both hang below the first one, unless that had room for this line's first word.
        if following is not None and abs(following.bbox.x0 - row.bbox.x0) <= same:
            return not is_wrapped
        return not is_wrapped or (following is not None and abs(following.bbox.x0 - above.bbox.x0) <= same)
    if is_wrapped or row.text.lstrip()[:1].islower():
        return False
    # A short line ends its paragraph in a justified column; in a ragged one it must end a sentence, too.
    return column.is_justified or bool(ENDS_SENTENCE.search(above.text))


def _counts_on(first: Row, row: Row) -> bool:
    """Return whether two rows begin with a number of their own, and the second is the next: parts, numbered paragraphs."""
    number, following = (at.lines[0].line for at in (first, row))
    are_numbers = number.text.strip().isdecimal() and following.text.strip().isdecimal()
    return are_numbers and min(len(first.lines), len(row.lines)) > 1 and int(following.text) == int(number.text) + 1


def _lines(block: Sequence[Row]) -> list[Line]:
    return [line for row in block for line, _ in row.lines]


def _line(row: Row) -> Line:
    return row.lines[0].line._replace(bbox=row.bbox, text=row.text)
