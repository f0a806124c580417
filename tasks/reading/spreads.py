"""Part a sheet that shows two pages of a book, which are read one after the other."""

import re
from collections.abc import Sequence

from schemas.documents import BlockKind, Line, Page, Placement
from schemas.geometry import BBox, is_level
from tasks.reading.pieces import Piece
from tasks.tables.rows import upright

_NUMBER = re.compile(r"\s*(\d{1,4})\b|\b(\d{1,4})\s*$")


def halves(
    pieces: list[Piece], pictures: Sequence[Placement], page: Page, *, right_to_left: bool
) -> list[tuple[list[Piece], Sequence[Placement]]]:
    """Return what the pages on a sheet hold, in the order in which they are read.

    A sheet wider than high shows two pages if two page numbers stand on one row, one in each half, the second greater by one,
    and no text reaches over the middle. A picture that does is of the page that shows more of it, or of the first.
    """
    sheet = upright(BBox(0, 0, page.width_pt, page.height_pt), page.rotation)
    margins = [line for piece in pieces if piece.kind is BlockKind.MARGIN for line in piece.lines]
    middle = (sheet.x0 + sheet.x1) / 2
    if sheet.width <= sheet.height or not _are_numbered(margins, middle, page, right_to_left=right_to_left):
        return [(pieces, pictures)]
    boxes = [upright(piece.bbox, page.rotation) for piece in pieces]
    if any(
        box.x0 < middle < box.x1 for piece, box in zip(pieces, boxes, strict=True) if piece.kind is not BlockKind.MARGIN
    ):
        return [(pieces, pictures)]

    def is_first(box: BBox) -> bool:
        over = box.x0 + box.x1 - 2 * middle
        return over >= 0 if right_to_left else over <= 0

    parted = [(piece, is_first(box)) for piece, box in zip(pieces, boxes, strict=True)]
    shown = [(place, is_first(upright(place.bbox, page.rotation))) for place in pictures]
    return [
        ([piece for piece, first in parted if first is half], [place for place, first in shown if first is half])
        for half in (True, False)
    ]


def _are_numbered(margins: Sequence[Line], middle: float, page: Page, *, right_to_left: bool) -> bool:
    """Return whether two lines of the margin, level and on both sides of the middle, have page numbers that follow each other."""
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
    """Return the numbers that a line begins or ends with."""
    return {int(first or last) for first, last in _NUMBER.findall(line.text)}
