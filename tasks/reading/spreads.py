"""Split a sheet that shows two pages of a book, which are read one after the other."""

import re
from collections.abc import Sequence

from schemas.documents import BlockKind, Line, Page, Placement
from schemas.geometry import BBox, is_level
from tasks.reading.draft_blocks import DraftBlock
from tasks.tables.rows import upright

FEWEST_LINES = 8
"""Minimum long lines in each half of a scanned sheet that shows two pages."""
LONG_SHARE = 0.4
"""Minimum width of a long line, relative to half the sheet: cells of a wide table are narrower."""
_NUMBER = re.compile(r"\s*(\d{1,4})\b|\b(\d{1,4})\s*$")


def is_scanned_spread(boxes: Sequence[BBox], sheet: BBox) -> bool:
    """Return whether upright lines of a scan are those of two pages: long ones in both halves, none over the middle."""
    middle = (sheet.x0 + sheet.x1) / 2
    if sheet.width <= sheet.height or any(box.x0 < middle < box.x1 for box in boxes):
        return False
    long = [box for box in boxes if box.width >= LONG_SHARE * sheet.width / 2]
    left_count = sum(box.x1 <= middle for box in long)
    return min(left_count, len(long) - left_count) >= FEWEST_LINES


def split_spread(
    blocks: list[DraftBlock], pictures: Sequence[Placement], page: Page, *, right_to_left: bool, scanned: bool = False
) -> list[tuple[list[DraftBlock], Sequence[Placement]]]:
    """Return the blocks and pictures of each page on a sheet, in reading order.

    A sheet wider than high shows two pages if two page numbers are level, one in each half, the second greater by one, and no
    text crosses the middle. A scanned one needs no numbers if both halves have long lines. A picture over the middle belongs
    to the page with more of it, or to the first.
    """
    sheet = upright(BBox(0, 0, page.width_pt, page.height_pt), page.rotation)
    margins = [line for block in blocks if block.kind is BlockKind.MARGIN for line in block.lines]
    middle = (sheet.x0 + sheet.x1) / 2
    lines = [upright(line.bbox, page.rotation) for block in blocks for line in block.lines] if scanned else []
    if sheet.width <= sheet.height or not (
        is_scanned_spread(lines, sheet) or _are_numbered(margins, middle, page, right_to_left=right_to_left)
    ):
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
    split_pictures = [(picture, is_first(upright(picture.bbox, page.rotation))) for picture in pictures]
    return [
        (
            [block for block, first in split if first is half],
            [picture for picture, first in split_pictures if first is half],
        )
        for half in (True, False)
    ]


def _are_numbered(margins: Sequence[Line], middle: float, page: Page, *, right_to_left: bool) -> bool:
    """Return whether two level lines of the margin, on both sides of the middle, have consecutive page numbers."""
    boxes = [upright(line.bbox, page.rotation) for line in margins]
    left_lines = [(box, _numbers(line)) for line, box in zip(margins, boxes, strict=True) if box.x1 < middle]
    right_lines = [(box, _numbers(line)) for line, box in zip(margins, boxes, strict=True) if box.x0 > middle]
    step = -1 if right_to_left else 1
    return any(
        is_level(left_box, right_box) and any(number + step in right_numbers for number in left_numbers)
        for left_box, left_numbers in left_lines
        for right_box, right_numbers in right_lines
    )


def _numbers(line: Line) -> set[int]:
    """Return the numbers at the start or the end of a line."""
    return {int(first or last) for first, last in _NUMBER.findall(line.text)}
