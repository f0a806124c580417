"""Split a sheet that shows two pages of a book, which are read one after the other."""

import re
from collections.abc import Sequence

from schemas.documents import BlockKind, Line, Page, Placement
from schemas.geometry import BBox, is_level
from tasks.reading.draft_blocks import DraftBlock
from tasks.tables.rows import upright

_NUMBER = re.compile(r"\s*(\d{1,4})\b|\b(\d{1,4})\s*$")


def halves(
    blocks: list[DraftBlock], pictures: Sequence[Placement], page: Page, *, right_to_left: bool
) -> list[tuple[list[DraftBlock], Sequence[Placement]]]:
    """Return the blocks and pictures of each page on a sheet, in reading order.

    A sheet wider than high shows two pages if two page numbers are level, one in each half, the second greater by one, and no
    text crosses the middle. A picture that does belongs to the page with more of it, or to the first.
    """
    sheet = upright(BBox(0, 0, page.width_pt, page.height_pt), page.rotation)
    margins = [line for block in blocks if block.kind is BlockKind.MARGIN for line in block.lines]
    middle = (sheet.x0 + sheet.x1) / 2
    if sheet.width <= sheet.height or not _are_numbered(margins, middle, page, right_to_left=right_to_left):
        return [(blocks, pictures)]
    boxes = [upright(block.bbox, page.rotation) for block in blocks]
    if any(
        box.x0 < middle < box.x1 for block, box in zip(blocks, boxes, strict=True) if block.kind is not BlockKind.MARGIN
    ):
        return [(blocks, pictures)]

    def is_first(box: BBox) -> bool:
        over = box.x0 + box.x1 - 2 * middle
        return over >= 0 if right_to_left else over <= 0

    split = [(block, is_first(box)) for block, box in zip(blocks, boxes, strict=True)]
    shown = [(place, is_first(upright(place.bbox, page.rotation))) for place in pictures]
    return [
        ([block for block, first in split if first is half], [place for place, first in shown if first is half])
        for half in (True, False)
    ]


def _are_numbered(margins: Sequence[Line], middle: float, page: Page, *, right_to_left: bool) -> bool:
    """Return whether two level lines of the margin, on both sides of the middle, have consecutive page numbers."""
    boxes = [upright(line.bbox, page.rotation) for line in margins]
    left = [(box, _numbers(line)) for line, box in zip(margins, boxes, strict=True) if box.x1 < middle]
    right = [(box, _numbers(line)) for line, box in zip(margins, boxes, strict=True) if box.x0 > middle]
    step = -1 if right_to_left else 1
    return any(
        is_level(one, other) and any(number + step in there for number in here)
        for one, here in left
        for other, there in right
    )


def _numbers(line: Line) -> set[int]:
    """Return the numbers at the start or the end of a line."""
    return {int(first or last) for first, last in _NUMBER.findall(line.text)}
