"""Place pictures without a caption in a page's reading order, by the text beside them or above and below them.

The position on the page decides, not when the PDF draws the picture:

    beside     1 Press [pic].  [pic]       text is level with it, and nothing else is in its own column: before the step
                                           at its right, after the step at its left (mirrored if text runs right to left)
    spanning   1 Press [pic].  [   ]       several steps are level with it: before the first of them
               2 Turn.         [pic]
    between    Press the button:           text of its own column is right above or below it
               [pic]
               The lamp lights up.

See docs/decisions/0005.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

from schemas.documents import Line, is_same_size
from schemas.geometry import BBox, is_level, union
from tasks.reading.blocks import ENDS_SENTENCE
from tasks.reading.join import wraps

OWN_COLUMN_PT = 40.0
"""Longest distance to text above or below a picture that it is read with, if other text is level with it."""
TOUCH_PT = 3.0
"""Tolerated overlap of a picture or a block with the line below it: boxes of lines include room for accents."""
COLUMN_SHARE = 0.25
"""Minimum share of the narrower one's width that two things of one column have in common."""
LEADING_EM = 1.2
"""Maximum gap between two lines of one step that are separate blocks, such as lines with double spacing."""
PARAGRAPH_GAP_EM = 0.6
"""Minimum gap between two lines of a block that begins a new step."""
TITLE_WORDS = 2
"""Words of a title that may end like a sentence, as "Warning!" does."""
_WORD = re.compile(r"[^\W\d_]{2}|(?:[^\W\d_].*){3}")
_ITEM = re.compile(r"\s*(?:[•‣◦●○■□▪▫◆◇►▶➢✓∙·\uf0a7\uf0b7]|[*–—-]\s|\(?(?:\d{1,2}|[a-zA-Z])[.)](?!\d))")


class TextBlock(NamedTuple):
    """A block of a page's text. ``lines`` is empty for a block that is never split, such as a table or a figure."""

    box: BBox
    lines: Sequence[Line] = ()
    is_heading: bool = False


class PicturePlace(NamedTuple):
    """A picture's position in reading order: before line ``at``; ``step`` are the lines that it is read with.

    A line is given by the index of its block and its own index in it; ``at`` is the number of blocks and 0 for the end.
    ``is_level``: the picture is level with those lines. ``is_behind``: it is, and is read after them.
    """

    at: tuple[int, int]
    step: tuple[tuple[int, int], ...] = ()
    is_level: bool = False
    is_behind: bool = False


@dataclass(frozen=True, slots=True)
class _Spot:
    """A line, or a block that is never split, whose ``text`` is "".

    ``step`` numbers the steps of the page in reading order. ``is_text`` is False for a line without a word: no picture is
    read with a number, a symbol or a label such as R1 alone.
    """

    at: tuple[int, int]
    box: BBox
    step: int
    is_heading: bool
    is_text: bool = True
    text: str = ""


def place_pictures(
    pictures: Sequence[BBox], blocks: Sequence[TextBlock], *, right_to_left: bool = False
) -> list[PicturePlace]:
    """Return each picture's position in reading order, which is the end of a page without text.

    Args:
        pictures: Boxes as the page's reader sees them, with the page's rotation applied.
        blocks: The text of the page in reading order, without margins; boxes likewise.
        right_to_left: Whether the page's text runs from right to left.
    """
    spots = list(_spots(blocks))
    if not spots:
        return [PicturePlace((0, 0))] * len(pictures)
    page = _PageText(spots, pictures, right_to_left)
    return [page.place(number) for number in range(len(pictures))]


def _spots(blocks: Sequence[TextBlock]) -> Iterator[_Spot]:
    step = -1
    before: tuple[int, Line] | None = None
    for number, block in enumerate(blocks):
        if not block.lines:
            step, before = step + 1, None
            yield _Spot((number, 0), block.box, step, block.is_heading)
        for row, line in enumerate(block.lines):
            continues = before is not None and _is_same_step(
                before[1], line, blocks[before[0]], block, is_new=before[0] != number
            )
            step += not continues
            before = number, line
            is_text = _WORD.search(line.text) is not None
            yield _Spot((number, row), line.bbox, step, block.is_heading, is_text, line.text)


def _is_same_step(before: Line, line: Line, above: TextBlock, block: TextBlock, *, is_new: bool) -> bool:
    """Return whether a line belongs to the step of the line before it; ``is_new``: it begins another block."""
    if is_level(before.bbox, line.bbox):
        # A number and its text, or the rest of a line behind a picture.
        return not is_new or before.bbox.gap_x(line.bbox) >= -TOUCH_PT
    if _ITEM.match(line.text):
        return False
    down = line.bbox.y0 - before.bbox.y1
    if is_new:
        alike = is_same_size(before.size, line.size) and before.bold == line.bold
        if not alike or abs(before.bbox.x0 - line.bbox.x0) > TOUCH_PT or not -line.size <= down <= LEADING_EM * line.size:
            return False
    elif down > PARAGRAPH_GAP_EM * line.size:
        return False
    column = above.box | block.box
    return wraps(before, line, column.x0, column.x1)


class _Level(NamedTuple):
    """The lines level with a picture: those of the nearest column at its left, and at its right."""

    left: list[_Spot]
    right: list[_Spot]


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

    @cached_property
    def _alone(self) -> set[tuple[int, int]]:
        """The lines that no other line is level with. Cached, since each line is compared with all others."""
        return {
            spot.at
            for spot in self._text
            if not any(is_level(spot.box, other_spot.box) for other_spot in self._text if other_spot is not spot)
        }

    def _block_around(self, spot: _Spot) -> BBox:
        """Return the box around the lines with words of a line's block."""
        return union(other_spot.box for other_spot in self._text if other_spot.at[0] == spot.at[0])

    def place(self, number: int) -> PicturePlace:
        """Return a picture's position, never after text that is printed on it."""
        picture_place, box = self._beside_or_between(number), self._pictures[number]
        on_it = min((spot.at for spot in self._text if box.contains(spot.box)), default=picture_place.at)
        return picture_place._replace(at=min(picture_place.at, on_it), step=self._with_headed(picture_place.step, number))

    def _with_headed(self, lines: tuple[tuple[int, int], ...], number: int) -> tuple[tuple[int, int], ...]:
        """Add to a title the step below it if that is level with the picture.

        The symbol of a note belongs to the note, not to the word "Warning" above it.
        """
        if not lines:
            return lines
        step = next(spot.step for spot in self._spots if spot.at == lines[-1])
        title = self._steps[step]
        if len(title) > 1 or not _may_be_title(title[0]) or step + 1 == len(self._steps):
            return lines
        level_steps = {spot.step for side in self._level[number] for spot in side}
        return lines + self._lines_of([step + 1]) if step + 1 in level_steps else lines

    def _beside_or_between(self, number: int) -> PicturePlace:
        box, level = self._pictures[number], self._level[number]
        if (between := self._own_column(number)) is not None:
            return between
        if level.left and level.right:
            return self._amid(box, level)
        if side := level.left or level.right:
            return self._by_steps(box, side, at_left=side is level.left)
        return self._amid_column(box) or self._by_height(box)

    def _level_with(self, box: BBox) -> _Level:
        level = [spot for spot in self._text if _is_level(spot.box, box)]
        left_spots = [spot for spot in level if spot.box.x1 <= box.x0 + TOUCH_PT]
        right_spots = [spot for spot in level if spot.box.x0 >= box.x1 - TOUCH_PT]
        return _Level(_nearest_column(left_spots, box), _nearest_column(right_spots, box))

    def _own_column(self, number: int) -> PicturePlace | None:
        """Return the position between the text of a picture's own column; None if the text beside it decides.

        Text above both a picture and the text beside it doesn't count: it is above the row.
        """
        box, sides = self._pictures[number], [side for side in self._level[number] if side]
        columns = [union(spot.box for spot in side) for side in sides]
        other_pictures = [*self._pictures[:number], *self._pictures[number + 1 :]] if columns else None
        # Text above or below may be as far away as the text beside the picture, which it competes with.
        reach = max(OWN_COLUMN_PT, min((_distance_across(side, box) for side in sides), default=0.0))
        return self._amid_column(
            box,
            other_pictures,
            lambda spot: (
                spot.box.gap_y(box) <= reach and not any(self._boxes[spot.step].gap_x(column) < 0 for column in columns)
            ),
        )

    def _nearest(self, box: BBox, other_pictures: Sequence[BBox] | None, *, is_above: bool) -> list[_Spot]:
        """Return the lines right above or below a picture, one a column, with none of the other pictures in between."""

        def away(beyond: BBox) -> float:
            return box.y0 - beyond.y1 if is_above else beyond.y0 - box.y1

        spots = sorted((spot for spot in self._text if away(spot.box) >= -TOUCH_PT), key=lambda spot: away(spot.box))
        between = [
            away(picture) for picture in other_pictures or () if away(picture) >= -TOUCH_PT and shares_column(picture, box)
        ]
        return [
            spot
            for spot in self._front(spots, box, is_lone=other_pictures is None)
            if all(picture_away >= away(spot.box) - TOUCH_PT for picture_away in between)
        ]

    def _front(self, spots: Sequence[_Spot], box: BBox, *, is_lone: bool) -> list[_Spot]:
        """Return the nearest line of each column, from the lines above or below a picture, nearest first.

        A line that no other is level with counts for every column if it is the nearest, no text is level with the picture
        (``is_lone``), and it isn't another picture's.
        """
        front: list[_Spot] = []
        for spot in spots:
            if shares_column(spot.box, box):
                if all(spot.box.gap_x(front_spot.box) >= 0 for front_spot in front):
                    front.append(spot)
            elif is_lone and not front and spot.at in self._alone and not self._is_of_another(spot, box, spots):
                return [spot]
        return front

    def _is_of_another(self, spot: _Spot, box: BBox, spots: Sequence[_Spot]) -> bool:
        """Return whether a line is above or below another picture of a row, and the picture has text of its own beside it.

        Texts below two pictures may begin at different heights: then no other line is level with the first line of one.
        """
        column_spot = next((neighbour for neighbour in spots if shares_column(neighbour.box, box)), None)
        return (
            column_spot is not None
            and column_spot.at[0] != spot.at[0]
            and is_level(self._block_around(spot), self._block_around(column_spot))
            and any(
                is_level(neighbour, box) and neighbour.gap_x(box) > TOUCH_PT and shares_column(spot.box, neighbour)
                for neighbour in self._pictures
            )
        )

    def _amid_column(
        self,
        box: BBox,
        other_pictures: Sequence[BBox] | None = None,
        counts: Callable[[_Spot], bool] = lambda _: True,
    ) -> PicturePlace | None:
        """Return the position after the text above or before the text below, of what counts, whichever is nearer."""
        above, below = (
            [*filter(counts, self._nearest(box, other_pictures, is_above=is_above))] for is_above in (True, False)
        )
        if not above and not below:
            return None
        over = min((box.y0 - spot.box.y1 for spot in above), default=math.inf)
        under = min((spot.box.y0 - box.y1 for spot in below), default=math.inf)
        # Wherever the picture is inserted, it is read with the text above it, if there is any.
        read_with = max(above, default=None, key=lambda spot: spot.at) or min(below, key=lambda spot: spot.at)
        step = self._lines_of([read_with.step])
        if under < over:
            return self._before(min(spot.step for spot in below), step)
        return self._behind(max(spot.step for spot in above), step)

    def _before(self, step: int, read_with: Sequence[tuple[int, int]] = ()) -> PicturePlace:
        return PicturePlace(self._steps[step][0].at, tuple(read_with))

    def _behind(self, step: int, read_with: Sequence[tuple[int, int]] = ()) -> PicturePlace:
        return PicturePlace(self._following[self._steps[step][-1].at], tuple(read_with))

    def _amid(self, box: BBox, level: _Level) -> PicturePlace:
        """Return the position of a picture with text at both sides: after what is read first, if the other side follows."""
        first, then = level[::-1] if self._right_to_left else level
        spots_between = [spot for spot in self._text if first[-1].step < spot.step < then[0].step]
        if then[0].step < first[-1].step or not all(_is_level(spot.box, box) for spot in spots_between):
            # Other text is read in between: the sides are two columns of the page, and the picture is in the nearer one.
            side = min(level, key=lambda side: _distance_across(side, box))
            return self._by_steps(box, side, at_left=side is level.left)
        steps = dict.fromkeys([first[-1].step, then[0].step])
        # Amid the words of one step the picture goes right behind those at its side; between two steps, behind the first.
        end = first[-1] if len(steps) == 1 else self._steps[first[-1].step][-1]
        return PicturePlace(self._following[end.at], self._lines_of(steps), is_level=True, is_behind=True)

    def _by_steps(self, box: BBox, side: Sequence[_Spot], *, at_left: bool) -> PicturePlace:
        """Return the position of a picture with text at one side."""
        steps = sorted({spot.step for spot in side})
        # Steps of which only a line is level with the picture count if none is level as a whole.
        level = [step for step in steps if is_level(self._boxes[step], box)] or steps
        lines = self._lines_of(level)
        is_behind = len(level) == 1 and at_left != self._right_to_left
        picture_place = self._behind(level[0], lines) if is_behind else self._before(level[0], lines)
        return picture_place._replace(is_level=True, is_behind=is_behind)

    def _by_height(self, box: BBox) -> PicturePlace:
        """Return the position of a picture with no text beside, above or below: before the first text that is lower."""
        middle = box.centre_y
        lower = (spot.step for spot in self._spots if spot.box.centre_y >= middle)
        first = next(lower, None)
        return self._behind(self._spots[-1].step) if first is None else self._before(first)

    def _lines_of(self, steps: Iterable[int]) -> tuple[tuple[int, int], ...]:
        return tuple(spot.at for step in steps for spot in self._steps[step])


def _may_be_title(spot: _Spot) -> bool:
    """Return whether a line may be a title: no list item, and no end of a sentence unless it is a word or two."""
    if not spot.text:
        return spot.is_heading
    is_title = not ENDS_SENTENCE.search(spot.text) or len(spot.text.split()) <= TITLE_WORDS
    return spot.is_text and is_title and not _ITEM.match(spot.text)


def _is_level(line: BBox, box: BBox) -> bool:
    return box.y0 <= line.centre_y <= box.y1 or line.y0 <= box.centre_y <= line.y1


def _nearest_column(spots: Sequence[_Spot], box: BBox) -> list[_Spot]:
    """Return those of the spots at one side of a picture that share the column of the nearest."""
    if not spots:
        return []
    nearest = min(spots, key=lambda spot: spot.box.gap_x(box))
    return [spot for spot in spots if spot.box.gap_x(nearest.box) < 0]


def _distance_across(side: Iterable[_Spot], box: BBox) -> float:
    return min(spot.box.gap_x(box) for spot in side)


def shares_column(first: BBox, second: BBox) -> bool:
    """Return whether two things are in one column of the page."""
    return -first.gap_x(second) >= COLUMN_SHARE * min(first.width, second.width)
