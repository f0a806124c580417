"""Read lines of right-to-left scripts by the positions of their letters.

Producers write such a line in logical order or in visual order, words of other scripts and numbers in between; MuPDF reverses
the letters of words and leaves the words in the order written. Only the positions are certain, so the order is derived from
them: the inverse of the Unicode Bidirectional Algorithm (UAX #9) in a right-to-left paragraph.

A glyph for several letters, such as lam-alef, is several letters in MuPDF's text: the first as wide as the glyph, the others
without width at its right edge, reversed with their word.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from schemas.documents import Line, is_same_size
from schemas.drawings import Letters, PageLine
from schemas.geometry import BBox, is_level, turned, union
from schemas.ports import PdfPage
from schemas.tags import escape

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]")
_SIDES = {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "«": "»", "<": ">"}
_MIRRORED = {**_CLOSING, **{closing: opening for opening, closing in _CLOSING.items()}}
UNIT_LETTERS = 2
"""Maximum letters of a word left of a number that is its unit: "40 Nm", not "Windows 10" (decision 5). Of 50 pages 5 change at
1, 9 at 4 (names such as "f(x)", and "Page", move after their numbers).
"""
BLANK_HEIGHTS = 0.12
"""How much wider than most a gap between letters is that is a blank, relative to their height. Of 50 pages 16 change at 0.06
(blanks in formulas: "f (x)"), 19 at 0.24 (words join).
"""
_SAME_HEIGHTS = 0.01
"""Tolerated distance of two edges of one glyph, relative to its height: MuPDF's rounding."""


_HAMZA = "\u0621"


class _Cluster(NamedTuple):
    """A letter with its marks. ``side`` is R or L for letters, N for digits, "" for those that take a neighbour's."""

    text: str
    boxes: tuple[Sequence[float], ...]
    side: str

    @property
    def middle(self) -> float:
        """Its horizontal position."""
        return (self.boxes[0][0] + self.boxes[0][2]) / 2


def runs_right_to_left(text: str) -> bool:
    """Return whether most letters of a text are of right-to-left scripts, such as Arabic and Hebrew."""
    if not has_right_to_left(text):
        return False
    sides = [_SIDES.get(unicodedata.bidirectional(letter)) for letter in text]
    return sides.count("R") >= sides.count("L")


def has_right_to_left(text: str) -> bool:
    """Return whether a text has a letter of a right-to-left script."""
    return _RIGHT_TO_LEFT.search(text) is not None


def with_ligatures_in_order(text: str, boxes: Sequence[Sequence[float]]) -> tuple[str, list[Sequence[float]]]:
    """Return a horizontal line with the letters of each right-to-left ligature in reading order, each with the glyph's box.

    A glyph that begins with a mark has no box, since MuPDF gives marks none, and a blank in its place.
    """
    letters, positions = list(text), list(boxes)
    at = 0
    while at < len(letters):
        end = at
        while end < len(letters) and (_is_added(letters[end], positions[end]) or (end > at and _is_mark(letters[end]))):
            end += 1
        # From `at` to `end` are letters without width, and marks between them: those of one glyph but for its first letter.
        if end == at:
            at += 1
            continue
        first = at
        while first and _is_mark(letters[first - 1]):
            first -= 1
        blank, has_mark = first - 1, first < at or _is_mark(letters[end - 1])
        if (
            blank >= 0
            and has_mark
            and letters[blank].isspace()
            and abs(positions[blank][0] - positions[at][0]) <= _slack(positions[blank])
        ):
            positions[first:end] = [positions[blank]] * (end - first)
            del letters[blank], positions[blank]
            # One letter fewer: what follows the glyph is now at `end - 1`.
            at = end - 1
            continue
        if end < len(letters) and _ends_at(positions[end], positions[at]):  # reversed: the glyph's first letter is last
            letters[at : end + 1] = letters[at : end + 1][::-1]
            positions[at : end + 1] = [positions[end]] * (end + 1 - at)
            end += 1
        elif at and _ends_at(positions[at - 1], positions[at]):
            # In reading order already, the letters only get the box of their glyph.
            positions[at:end] = [positions[at - 1]] * (end - at)
        at = end
    return "".join(letters), positions


def _is_mark(letter: str) -> bool:
    return unicodedata.bidirectional(letter) == "NSM"


def _is_added(letter: str, box: Sequence[float]) -> bool:
    """Return whether a right-to-left letter has no width, like those after the first of a ligature.

    Hamza joins no letter, and without width it is drawn above the line between two of them.
    """
    return letter != _HAMZA and box[2] - box[0] <= _slack(box) and _SIDES.get(unicodedata.bidirectional(letter)) == "R"


def _ends_at(glyph: Sequence[float], added: Sequence[float]) -> bool:
    """Return whether a glyph ends where a letter without width is."""
    return abs(glyph[2] - added[2]) <= _slack(glyph) < glyph[2] - glyph[0]


def _slack(box: Sequence[float]) -> float:
    """Return the tolerated distance of two edges of one glyph."""
    return _SAME_HEIGHTS * (box[3] - box[1])


def logical_order(text: str, boxes: Sequence[Sequence[float]]) -> tuple[str, list[Sequence[float]]]:
    """Return the letters of a right-to-left line, and their boxes, in logical order.

    Presentation forms of letters become the base letters, as typed in a search.

    Args:
        text: The letters, in any order; marks after their letters.
        boxes: The box of each on a horizontal line.
    """
    clusters = _clusters(*with_ligatures_in_order(text, boxes))
    # Letters of a ligature have one position, and keep their order.
    order = sorted(range(len(clusters)), key=lambda at: (clusters[at].middle, at if clusters[at].side in "LN" else -at))
    visual = _with_blanks([clusters[at] for at in order])
    runs = [(left_to_right, [cluster for _, cluster in run]) for left_to_right, run in _runs(visual)]
    mirror = _is_mirrored(
        [cluster.text for left_to_right, run in reversed(runs) if not left_to_right for cluster in reversed(run)]
    )
    letters: list[str] = []
    positions: list[Sequence[float]] = []
    for left_to_right, run in reversed(runs):
        for cluster in run if left_to_right else reversed(run):
            letters.append(_MIRRORED.get(cluster.text, cluster.text) if mirror and not left_to_right else cluster.text)
            positions += cluster.boxes
    return "".join(letters), positions


def _clusters(text: str, boxes: Sequence[Sequence[float]]) -> list[_Cluster]:
    clusters: list[_Cluster] = []
    for letter, box in zip(text, boxes, strict=True):
        # The presentation form of a lone mark becomes a blank and the mark.
        typed = unicodedata.normalize("NFKC", letter).lstrip() if _FORMS.match(letter) else letter
        kind = unicodedata.bidirectional(typed[0])
        if kind == "NSM" and clusters:
            base_cluster = clusters.pop()
            clusters.append(
                _Cluster(base_cluster.text + typed, base_cluster.boxes + (box,) * len(typed), base_cluster.side)
            )
        else:
            clusters.append(_Cluster(typed, (box,) * len(typed), _SIDES.get(kind, "")))
    return clusters


def _with_blanks(visual: Sequence[_Cluster]) -> list[_Cluster]:
    """Insert a blank in gaps wider than usual: MuPDF does so only where the pen moved right."""
    gaps = [after.boxes[0][0] - before.boxes[0][2] for before, after in pairwise(visual)]
    usual = max(0.0, median(gaps)) if gaps else 0.0
    spaced = list(visual[:1])
    for room, cluster in zip(gaps, visual[1:], strict=True):
        x0, y0, _, y1 = cluster.boxes[0]
        blank = spaced[-1].text.isspace() or cluster.text.isspace()
        if room > usual + BLANK_HEIGHTS * (y1 - y0) and not blank:
            spaced.append(_Cluster(" ", ((x0 - room, y0, x0, y1),), ""))
        spaced.append(cluster)
    return spaced


def _runs(visual: Sequence[_Cluster]) -> Iterator[tuple[bool, Iterator[tuple[str, _Cluster]]]]:
    """Split a line, from the left, into runs read from left to right (other scripts, numbers) and from right to left."""
    sides = _with_separators(visual)
    start = 0
    for side, run in groupby(list(sides)):
        end = start + len(list(run))
        around = {sides[start - 1], sides[end]} if start and end < len(sides) else {""}
        # Left of a number, a word may be its unit, read after it ("40 Nm"), or a name, read before it ("Windows 10").
        unit = sides[end : end + 1] == ["N"] and sides[max(0, start - UNIT_LETTERS - 1) : start].count("L") <= UNIT_LETTERS
        # What is between words of other scripts is read with them; between two numbers it isn't, since one number after the
        # other is read from right to left (UAX #9, N1).
        is_joined = end - start == 1 and not visual[start].text.isspace()  # "HP-30" was written from left to right
        if not side and around in ({"L"}, {"L", "N"}) and (is_joined or not unit):
            sides[start:end] = ["L"] * (end - start)
        start = end
    return groupby(zip(sides, visual, strict=True), key=lambda pair: pair[0] in {"L", "N"})


def _with_separators(visual: Sequence[_Cluster]) -> list[str]:
    """Return the sides; separators inside a number and symbols beside it get the number's."""
    sides = [cluster.side for cluster in visual]
    for number, cluster in enumerate(visual):
        kind = unicodedata.bidirectional(cluster.text[0])
        beside = [sides[at] == "N" for at in (number - 1, number + 1) if 0 <= at < len(sides)]
        if (kind in {"CS", "ES"} and len(beside) == 2 and all(beside)) or (kind == "ET" and any(beside)):
            sides[number] = "N"
    return sides


def _is_mirrored(letters: Sequence[str]) -> bool:
    """Return whether brackets are encoded by their visual shape: then, in logical order, the closing one is first."""
    brackets = [text for text in letters if text in _MIRRORED]
    pairs = list(pairwise(brackets))
    return sum(_CLOSING.get(closing) == opening for opening, closing in pairs) > sum(
        _CLOSING.get(opening) == closing for opening, closing in pairs
    )


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
        # By box and text, since later steps give a line another block and label.
        self._respelled: dict[tuple[BBox, str], Letters] = {}

    def __call__(self, line: Line) -> tuple[str, Sequence[Sequence[float]]]:
        """Return a line's letters and their boxes; evenly spread if these are unknown, as for words in images."""
        line_letters = self._find(line)
        return line_letters.text, line_letters.boxes

    def direction(self, line: Line) -> tuple[int, int] | None:
        """Return the direction of a line; None if unknown, or parallel to no side of the page."""
        return self._find(line).direction

    def respelled(self, line: Line, letters: Letters, bbox: BBox | None = None) -> Line:
        """Return a line, in another box if one is given, with other letters, whose positions are stored."""
        respelled = line._replace(text=escape(letters.text), bbox=bbox or line.bbox)
        self._respelled[respelled.bbox, respelled.text] = letters
        return respelled

    def _find(self, line: Line) -> Letters:
        line_letters = self._respelled.get((line.bbox, line.text)) or self._page.letters(line)
        if line_letters is not None:
            return line_letters
        x0, y0, x1, y1 = line.bbox
        step = (x1 - x0) / max(1, len(line.text))
        spread = [(x0 + step * box, y0, x0 + step * (box + 1), y1) for box in range(len(line.text))]
        return Letters(line.text, spread, None)


def in_logical_order(lines: Sequence[PageLine], letters: LineLetters) -> Iterator[PageLine]:
    """Yield lines, right-to-left ones in logical order, and those of one paragraph in one block."""
    before: Line | None = None
    parts = [
        PageLine(part, visible)
        for line, visible in lines
        for part in (_split_at_gutters(line, letters) if runs_right_to_left(line.text) else [line])
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
        part_letters = [at for at, box in enumerate(level_boxes) if reach.x0 <= box.centre_x <= reach.x1]
        part = Letters("".join(text[at] for at in part_letters), [boxes[at] for at in part_letters], level)
        box = turned(union(level_boxes[at] for at in part_letters), back).rounded()
        parts.append(letters.respelled(line, part, box))
    return parts if len(parts) > 1 else [line]


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
    apart = first_box.gap_x(second_box)
    return is_level(first_box, second_box) and abs(apart) <= _BLANK_EM * max(first_line.size, second_line.size)


def _joined(row: Sequence[Line], letters: LineLetters) -> Line:
    """Return a right-to-left row as one line in logical order."""
    level = letters.direction(row[0])
    if level is None:
        return row[0]
    parts_with_boxes = [letters(line) for line in row]
    level_boxes = [turned(box, level) for _, boxes in parts_with_boxes for box in boxes]
    text, boxes = logical_order("".join([text for text, _ in parts_with_boxes]), level_boxes)
    main = max(row, key=lambda line: len(line.text))._replace(block=row[0].block)
    back = level[0], -level[1]
    in_order = Letters(text, [turned(box, back) for box in boxes], level)
    return letters.respelled(main, in_order, union(line.bbox for line in row))


def _continues(before: Line, line: Line) -> bool:
    """Return whether a line is right below the one before, with the same right edge and type size."""
    down = line.bbox.y0 - before.bbox.y1
    near = -_OVERLAP_EM * line.size <= down <= _LEADING_EM * line.size and abs(line.bbox.x1 - before.bbox.x1) <= line.size
    return near and is_same_size(line.size, before.size) and line.bold == before.bold
