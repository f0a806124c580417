"""Place pictures without a caption in a page's reading order, by the text that they stand beside or between.

What a picture is read with follows from where it stands, not from when the PDF draws it:

    beside     1 Press [pic].  [pic]       text is level with it, and nothing else stands in its own column: before the step
                                           at its right, after the step at its left (mirrored where text runs right to left)
    spanning   1 Press [pic].  [   ]       several steps are level with it: before the first of them
               2 Turn.         [pic]
    between    Press the button:           text of its own column is right above or below it
               [pic]
               The lamp lights up.

See docs/decisions/0013.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

from schemas.documents import Line
from schemas.geometry import BBox, gap, is_level, union
from schemas.typography import is_same_size
from tasks.reading.join import wraps

OWN_COLUMN_PT = 40.0
"""Farthest text above or below a picture that it is read with, where other text is level with it: a chart's title, a
label. Of 1,014 pages 6 change at 26.8, 4 at 60.
"""
ALIGNED_PT = 6.0
"""How far the left sides, or the middles, of pictures of one column are apart. Of 1,014 pages none changes at 4.02 or 9."""
TOUCH_PT = 3.0
"""How far a picture may reach over a line, since boxes of lines hold the room for accents. Of 1,014 pages none changes
at 2.01 or 4.5.
"""
COLUMN_SHARE = 0.3
"""Share of the narrower one's width that a picture and text of its column have in common. Of 1,014 pages none change at
0.201, 2 at 0.45.
"""
LEADING_EM = 1.2
"""Widest gap between two lines of one step that are blocks of their own: lines set double. Of 1,014 pages 4 change at
0.804, 6 at 1.8.
"""
PARAGRAPH_GAP_EM = 0.6
"""Gap between two lines of a block that begins a step. Of 1,014 pages 1 changes at 0.402, none at 0.9."""
NUMBER_GAP_EM = 4.0
"""Widest gap between a step's number and its text. Of 1,014 pages none changes at 2.68 or 6."""
TITLE_WORDS = 2
"""Words of a title that may end as a sentence does, as "Warning!" does. Of 6,922 pictures without a caption 3 are read with
such a word alone without it.
"""
_WORD = re.compile(r"[^\W\d_]{2}|(?:[^\W\d_].*){3}")
_ITEM = re.compile(r"\s*(?:[•‣◦●○■□▪▫◆◇►▶➢✓∙·\uf0a7\uf0b7]|[*–—-]\s|\(?(?:\d{1,2}|[a-zA-Z])[.)](?!\d))")
_BARE_NUMBER = re.compile(r"\s*\d{1,2}\s")
_SENTENCE_END = re.compile(r"[.:;!?。：；！？]\W*$")


def ends_sentence(text: str) -> bool:
    """Return whether a text ends with a sentence, or with what introduces the next."""
    return _SENTENCE_END.search(text) is not None


class Passage(NamedTuple):
    """A block of a page's text, as pictures are placed by it.

    ``lines`` is empty for what is never parted, such as a table or a figure; ``is_heading`` means that it begins a section.
    """

    box: BBox
    lines: Sequence[Line] = ()
    is_heading: bool = False


class Place(NamedTuple):
    """Where a picture goes: before line ``at``; ``step`` are the lines that it is read with.

    A line is given by the numbers of its passage and of itself in it; ``at`` is the number of passages and 0 for the end.
    ``is_level`` means that the picture is level with those lines, ``is_behind`` that it is so and is read after them.
    """

    at: tuple[int, int]
    step: tuple[tuple[int, int], ...] = ()
    is_level: bool = False
    is_behind: bool = False


@dataclass(frozen=True, slots=True)
class _Spot:
    """A line, or a passage that is never parted.

    ``step`` counts the steps of the page in reading order; ``is_text`` is False for a line without a word: no picture is
    read with a number, a symbol or a label such as R1 alone. ``text`` is "" for a passage that is never parted.
    """

    at: tuple[int, int]
    box: BBox
    step: int
    is_heading: bool
    is_text: bool = True
    text: str = ""


def places(pictures: Sequence[BBox], passages: Sequence[Passage], *, right_to_left: bool = False) -> list[Place | None]:
    """Return where each picture goes in reading order.

    Args:
        pictures: Boxes as the page's reader sees them: turned level where the page is turned.
        passages: The text of the page in reading order, margins left out; boxes likewise.
        right_to_left: Whether the page's text runs so.

    Returns:
        A place a picture; None where the page has no text.
    """
    spots = list(_spots(passages))
    if not spots:
        return [None] * len(pictures)
    page = _PageText(spots, pictures, right_to_left)
    return [page.place(number) for number in range(len(pictures))]


def _spots(passages: Sequence[Passage]) -> Iterator[_Spot]:
    step = -1
    before: tuple[int, Line] | None = None
    for number, passage in enumerate(passages):
        if not passage.lines:
            step, before = step + 1, None
            yield _Spot((number, 0), passage.box, step, passage.is_heading)
        for place, line in enumerate(passage.lines):
            goes_on = before is not None and _goes_on(
                before[1], line, passages[before[0]], passage, is_new=before[0] != number
            )
            step += not goes_on
            before = number, line
            is_text = _WORD.search(line.text) is not None
            yield _Spot((number, place), line.bbox, step, passage.is_heading, is_text, line.text)


def _goes_on(before: Line, line: Line, above: Passage, passage: Passage, *, is_new: bool) -> bool:
    """Return whether a line belongs to the step of the line before it."""
    if is_level(before.bbox, line.bbox):
        # A number and its text, or what follows a picture in a line.
        apart = gap(before.bbox.x0, before.bbox.x1, line.bbox.x0, line.bbox.x1)
        return -TOUCH_PT <= apart <= NUMBER_GAP_EM * line.size or not is_new
    if above.is_heading or passage.is_heading or _ITEM.match(line.text):
        return False
    if _BARE_NUMBER.match(line.text) and ends_sentence(before.text):
        return False  # else it may be a quantity that a sentence goes on with
    down = line.bbox.y0 - before.bbox.y1
    if is_new:
        alike = is_same_size(before.size, line.size) and before.bold == line.bold
        if not alike or abs(before.bbox.x0 - line.bbox.x0) > TOUCH_PT or not -line.size <= down <= LEADING_EM * line.size:
            return False
    elif down > PARAGRAPH_GAP_EM * line.size:
        return False
    column = above.box | passage.box
    return wraps(before, line, column.x0, column.x1)


class _Level(NamedTuple):
    """The lines level with a picture: those of the nearest column at its left, and at its right."""

    left: list[_Spot]
    right: list[_Spot]

    def sides(self) -> list[list[_Spot]]:
        return [side for side in self if side]


class _PageText:
    def __init__(self, spots: Sequence[_Spot], pictures: Sequence[BBox], right_to_left: bool) -> None:
        self._spots = spots
        self._text = [spot for spot in spots if spot.is_text]
        self._pictures = pictures
        self._right_to_left = right_to_left
        self._steps = [list(group) for _, group in groupby(spots, key=lambda spot: spot.step)]
        self._boxes = [union(spot.box for spot in step) for step in self._steps]
        self._following = dict(pairwise([*(spot.at for spot in spots), (spots[-1].at[0] + 1, 0)]))
        self._level = [self._level_with(box) for box in pictures]
        self._between = [self._own_column(number) for number in range(len(pictures))]

    @cached_property
    def _alone(self) -> set[tuple[int, int]]:
        """The lines that have their row for themselves; few pages ask for them, and each line is compared with all others."""
        return {
            spot.at
            for spot in self._text
            if not any(is_level(spot.box, other.box) for other in self._text if other is not spot)
        }

    @cached_property
    def _step_at(self) -> dict[tuple[int, int], int]:
        """The steps that lines belong to."""
        return {spot.at: spot.step for spot in self._spots}

    @cached_property
    def _passages(self) -> dict[int, BBox]:
        """The boxes of the passages that have words, by their numbers."""
        return {number: union(spot.box for spot in group) for number, group in groupby(self._text, key=_passage_of)}

    def place(self, number: int) -> Place:
        """Return where a picture goes: never behind text that stands on it, since the page has that over the picture."""
        place, box = self._beside_or_between(number), self._pictures[number]
        on_it = min((spot.at for spot in self._text if box.contains(spot.box)), default=place.at)
        return place._replace(at=min(place.at, on_it), step=self._with_headed(place.step, number))

    def _with_headed(self, lines: tuple[tuple[int, int], ...], number: int) -> tuple[tuple[int, int], ...]:
        """Return the lines that a picture is read with; behind a title what it heads, where that is level with the picture.

        The symbol of a note stands by the note, not by the word "Warning" over it.
        """
        if not lines:
            return lines
        step = self._step_at[lines[-1]]
        title = self._steps[step]
        if len(title) > 1 or not _may_head(title[0]) or step + 1 == len(self._steps):
            return lines
        level = [spot for side in self._level[number].sides() for spot in side]
        return lines + self._lines_of(step + 1) if any(spot.step == step + 1 for spot in level) else lines

    def _beside_or_between(self, number: int) -> Place:
        box, level, between = self._pictures[number], self._level[number], self._between[number]
        if between is not None and not (level.sides() and self._is_in_column_of_steps(number)):
            return between
        if level.left and level.right:
            return self._amid(box, level)
        for side in level.sides():
            return self._by_steps(box, side, at_left=side is level.left)
        return self._amid_column(box, self._above(box), self._below(box)) or self._by_height(box)

    def _is_in_column_of_steps(self, number: int) -> bool:
        """Return whether a picture stands under or over others, each beside a step of one column: then it has a step, too.

        Of such a column, the first and the last may have text over or under them that is none of theirs.
        """
        box, own = self._pictures[number], self._nearest_side(number)
        return any(
            self._between[other] is None and _is_aligned(box, picture) and _overlaps_across(own, self._nearest_side(other))
            for other, picture in enumerate(self._pictures)
        )

    def _nearest_side(self, number: int) -> Sequence[_Spot]:
        """Return the lines level with a picture at the side where they are nearer; [] where none are."""
        return min(self._level[number].sides(), key=lambda side: _aside(side, self._pictures[number]), default=[])

    def _level_with(self, box: BBox) -> _Level:
        level = [spot for spot in self._text if _is_level(spot.box, box)]
        left = [spot for spot in level if spot.box.x1 <= box.x0 + TOUCH_PT]
        right = [spot for spot in level if spot.box.x0 >= box.x1 - TOUCH_PT]
        return _Level(_nearest_column(left, box), _nearest_column(right, box))

    def _own_column(self, number: int) -> Place | None:
        """Return the place between the text of a picture's own column; None where the text beside it decides.

        Text over both a picture and what is level with it doesn't count: it stands over the row.
        """
        box, sides = self._pictures[number], self._level[number].sides()
        columns = [union(spot.box for spot in side) for side in sides]
        others = [*self._pictures[:number], *self._pictures[number + 1 :]] if columns else None
        reach = max(OWN_COLUMN_PT, min((_aside(side, box) for side in sides), default=0.0))
        above = [spot for spot in self._above(box, others) if self._is_own(spot, box, columns, reach)]
        below = [spot for spot in self._below(box, others) if self._is_own(spot, box, columns, reach)]
        return self._amid_column(box, above, below)

    def _is_own(self, spot: _Spot, box: BBox, columns: Sequence[BBox], reach: float) -> bool:
        """Return whether text over or under a picture is near, and not over or under what is level with the picture, too."""
        if gap(spot.box.y0, spot.box.y1, box.y0, box.y1) > reach:
            return False
        step = self._heads(spot) if spot.is_heading else self._boxes[spot.step]
        return not any(gap(step.x0, step.x1, column.x0, column.x1) < 0 for column in columns)

    def _overlaps(self, spot: _Spot, box: BBox) -> bool:
        """Return whether text shares a picture's column."""
        return shares_column(self._heads(spot) if spot.is_heading else spot.box, box)

    def _heads(self, heading: _Spot) -> BBox:
        """Return the box of a heading and of what it heads: it stands over all of that, however short it is."""
        return union(self._boxes[heading.step : heading.step + 2])

    def _above(self, box: BBox, others: Sequence[BBox] | None = None) -> list[_Spot]:
        """Return the lines right above a picture, a line a column; none where one of the other pictures stands between."""
        over = sorted((spot for spot in self._text if spot.box.y1 <= box.y0 + TOUCH_PT), key=lambda spot: -spot.box.y1)
        pictures = [other for other in others or () if other.y1 <= box.y0 + TOUCH_PT and shares_column(other, box)]
        return [
            spot
            for spot in self._front(over, box, is_lone=others is None)
            if all(other.y1 <= spot.box.y1 + TOUCH_PT for other in pictures)
        ]

    def _below(self, box: BBox, others: Sequence[BBox] | None = None) -> list[_Spot]:
        """Return the lines right below a picture, a line a column; none where one of the other pictures stands between."""
        under = sorted(self._under(box), key=lambda spot: spot.box.y0)
        pictures = [other for other in others or () if other.y0 >= box.y1 - TOUCH_PT and shares_column(other, box)]
        return [
            spot
            for spot in self._front(under, box, is_lone=others is None)
            if all(other.y0 >= spot.box.y0 - TOUCH_PT for other in pictures)
        ]

    def _under(self, box: BBox) -> list[_Spot]:
        """Return the lines that begin under a picture; and at its foot, where no other text stands on it.

        The clip of a drawing holds some room around it, and pictures may overlap.
        """
        under = [spot for spot in self._text if spot.box.y0 >= box.y1 - TOUCH_PT]
        foot = [spot for spot in self._text if _is_at_foot(spot.box, box)]
        if not foot or any(box.has_middle_of(spot.box) and spot not in foot for spot in self._text):
            return under
        return under + [spot for spot in foot if spot not in under]

    def _front(self, spots: Sequence[_Spot], box: BBox, *, is_lone: bool) -> list[_Spot]:
        """Return those of the lines above or below a picture, given nearest first, that no other of its column stands before.

        Where the picture has its rows for itself (``is_lone``), so may a line: it stands in every column, if it is the nearest,
        unless it is another picture's.
        """
        front: list[_Spot] = []
        for spot in spots:
            if self._overlaps(spot, box):
                if all(gap(spot.box.x0, spot.box.x1, other.box.x0, other.box.x1) >= 0 for other in front):
                    front.append(spot)
            elif is_lone and not front and spot.at in self._alone and not self._is_of_another(spot, box, spots):
                return [spot]
        return front

    def _is_of_another(self, spot: _Spot, box: BBox, spots: Sequence[_Spot]) -> bool:
        """Return whether a line is over or under another picture of a row, and a picture has text of its own level with that.

        Texts under two pictures may begin at different heights: then the first line of one has its row for itself.
        """
        own = next((other for other in spots if self._overlaps(other, box)), None)
        return (
            own is not None
            and own.at[0] != spot.at[0]
            and is_level(self._passages[spot.at[0]], self._passages[own.at[0]])
            and any(
                is_level(other, box)
                and gap(other.x0, other.x1, box.x0, box.x1) > TOUCH_PT
                and shares_column(spot.box, other)
                for other in self._pictures
            )
        )

    def _amid_column(self, box: BBox, above: Sequence[_Spot], below: Sequence[_Spot]) -> Place | None:
        """Return the place behind the text above or before the text below, whichever is nearer: of several columns, of all."""
        if not above and not below:
            return None
        over = min((box.y0 - spot.box.y1 for spot in above), default=math.inf)
        under = min((spot.box.y0 - box.y1 for spot in below), default=math.inf)
        read_with = max(above, default=None, key=lambda spot: spot.at) or min(below, key=lambda spot: spot.at)
        step = self._lines_of(read_with.step)
        if under < over:
            return self._before(min(spot.step for spot in below), step)
        return self._behind(self._end_of(max(spot.step for spot in above), box), step)

    def _before(self, step: int, read_with: Sequence[tuple[int, int]] = ()) -> Place:
        """Return the place before a step; before all of a row of cells whose words wrap, such as names under pictures."""
        while step and self._is_one_row(step - 1, step):
            step -= 1
        return Place(self._steps[step][0].at, tuple(read_with))

    def _is_one_row(self, one: int, other: int) -> bool:
        """Return whether the boxes of two steps of one passage reach into each other: nothing stands between them."""
        box, following = self._boxes[one], self._boxes[other]
        return (
            self._steps[one][0].at[0] == self._steps[other][0].at[0]
            and is_level(box, following)
            and gap(box.x0, box.x1, following.x0, following.x1) < 0
        )

    def _end_of(self, step: int, box: BBox) -> int:
        """Return the step behind which a picture goes that stands under one: brackets and the like may stand between."""
        while (
            step + 1 < len(self._steps)
            and not any(spot.is_text for spot in self._steps[step + 1])
            and self._boxes[step].y0 < self._boxes[step + 1].y1 <= box.y0 + TOUCH_PT
        ):
            step += 1
        return step

    def _behind(self, step: int, read_with: Sequence[tuple[int, int]] = ()) -> Place:
        return Place(self._following[self._steps[step][-1].at], tuple(read_with))

    def _amid(self, box: BBox, level: _Level) -> Place:
        """Return the place of a picture that has text at both sides: behind what is read first, if the other follows it."""
        first, then = level[::-1] if self._right_to_left else level
        others = [spot for spot in self._text if first[-1].step < spot.step < then[0].step]
        if then[0].step < first[-1].step or not all(_is_level(spot.box, box) for spot in others):
            # Other text is read between both sides, which stand in two columns of the page: the picture stands in one.
            side = min(level, key=lambda side: (not self._is_in_column_with(side, level, box), _aside(side, box)))
            return self._by_steps(box, side, at_left=side is level.left)
        steps = dict.fromkeys([first[-1].step, then[0].step])
        end = first[-1] if len(steps) == 1 else self._steps[first[-1].step][-1]
        lines = tuple(at for step in steps for at in self._lines_of(step))
        return Place(self._following[end.at], lines, is_level=True, is_behind=True)

    def _is_in_column_with(self, side: Sequence[_Spot], level: _Level, box: BBox) -> bool:
        """Return whether some text of the page is as wide as a picture and the text at one side, but not as both sides."""
        own, all_ = union([box, *(spot.box for spot in side)]), union(spot.box for side in level for spot in side)
        return any(_spans(step, own) and not _spans(step, all_) for step in self._boxes)

    def _by_steps(self, box: BBox, side: Sequence[_Spot], *, at_left: bool) -> Place:
        """Return the place of a picture with text at one side."""
        steps = sorted({spot.step for spot in side})
        level = [step for step in steps if is_level(self._boxes[step], box)] or steps
        lines = tuple(at for step in level for at in self._lines_of(step))
        is_behind = len(level) == 1 and at_left != self._right_to_left
        place = self._behind(level[0], lines) if is_behind else self._before(level[0], lines)
        return place._replace(is_level=True, is_behind=is_behind)

    def _by_height(self, box: BBox) -> Place:
        """Return the place of a picture that no text stands beside, above or below: before the first text that is lower."""
        middle = (box.y0 + box.y1) / 2
        lower = (spot.step for spot in self._spots if (spot.box.y0 + spot.box.y1) / 2 >= middle)
        first = next(lower, None)
        return self._behind(self._spots[-1].step) if first is None else self._before(first)

    def _lines_of(self, step: int) -> tuple[tuple[int, int], ...]:
        return tuple(spot.at for spot in self._steps[step])


def _passage_of(spot: _Spot) -> int:
    return spot.at[0]


def _may_head(spot: _Spot) -> bool:
    """Return whether a line may be a title: no item of a list, and it ends no sentence, or is a word or two."""
    if not spot.text:
        return spot.is_heading
    is_title = not ends_sentence(spot.text) or len(spot.text.split()) <= TITLE_WORDS
    return spot.is_text and is_title and not _ITEM.match(spot.text)


def _is_level(line: BBox, box: BBox) -> bool:
    return box.y0 <= (line.y0 + line.y1) / 2 <= box.y1 or line.y0 <= (box.y0 + box.y1) / 2 <= line.y1


def _is_at_foot(line: BBox, box: BBox) -> bool:
    """Return whether a line begins in the lower half of a picture and ends at its foot, or under it."""
    return 2 * line.y0 > box.y0 + box.y1 and line.y1 >= box.y1 - TOUCH_PT > line.y0 and _spans(box, line)


def _overlaps_across(some: Sequence[_Spot], others: Sequence[_Spot]) -> bool:
    return any(gap(one.box.x0, one.box.x1, other.box.x0, other.box.x1) < 0 for one in some for other in others)


def _spans(text: BBox, box: BBox) -> bool:
    return text.x0 <= box.x0 + TOUCH_PT and text.x1 >= box.x1 - TOUCH_PT


def _is_aligned(one: BBox, other: BBox) -> bool:
    """Return whether two pictures stand in one column: their left sides, or their middles, are under each other."""
    return abs(one.x0 - other.x0) <= ALIGNED_PT or abs(one.x0 + one.x1 - other.x0 - other.x1) <= 2 * ALIGNED_PT


def _nearest_column(spots: Sequence[_Spot], box: BBox) -> list[_Spot]:
    """Return those of the spots at one side of a picture that share the column of the nearest."""
    if not spots:
        return []
    nearest = min(spots, key=lambda spot: gap(spot.box.x0, spot.box.x1, box.x0, box.x1))
    return [spot for spot in spots if gap(spot.box.x0, spot.box.x1, nearest.box.x0, nearest.box.x1) < 0]


def _aside(side: Iterable[_Spot], box: BBox) -> float:
    return min(gap(spot.box.x0, spot.box.x1, box.x0, box.x1) for spot in side)


def shares_column(text: BBox, box: BBox) -> bool:
    """Return whether text and a picture stand in one column of the page, one over the other."""
    return -gap(text.x0, text.x1, box.x0, box.x1) >= COLUMN_SHARE * min(text.width, box.width)
