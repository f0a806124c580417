"""Find bullets that a PDF draws as shapes, as browsers print them."""

from collections.abc import Sequence

from schemas.documents import Label, Line
from schemas.drawings import Mark, PageLine
from schemas.geometry import BBox, gap, is_level

LEAST_EM, MOST_EM = 0.15, 0.7
"""Size of a bullet, in ems of the line behind it."""
SQUARE = 1.35
"""Maximum ratio of a bullet's sides."""
REACH_EM = 2.5
"""Maximum gap between a bullet and the line behind it, in ems."""
FEWEST = 2
"""Minimum bullets below each other, where no layout model calls the lines list items."""
_NO_ITEM = frozenset({Label.TABLE, Label.PICTURE, Label.FORMULA, Label.HEAD, Label.FOOT})


def drawn_bullets(marks: Sequence[Mark], lines: Sequence[PageLine]) -> tuple[list[Mark], list[PageLine]]:
    """Return the marks of a page that are no bullets, and a line for each that is."""
    candidates = [mark for mark in marks if mark.filled and not mark.white and _is_square(mark.bbox)]
    visible = [line for line, is_visible in lines if is_visible and line.label not in _NO_ITEM]
    behind = {mark: line for mark in candidates if (line := _line_behind(mark.bbox, visible)) is not None}
    columns = [round(mark.bbox.x0) for mark in behind]
    bullets = {
        mark: line for mark, line in behind.items() if line.label is Label.ITEM or columns.count(round(mark.bbox.x0)) >= FEWEST
    }
    drawn = [
        PageLine(
            line._replace(bbox=line.bbox._replace(x0=mark.bbox.x0, x1=mark.bbox.x1).rounded(), text="•", bold=False), True
        )
        for mark, line in bullets.items()
    ]
    return [mark for mark in marks if mark not in bullets], drawn


def _is_square(box: BBox) -> bool:
    return box.width > 0 and box.height > 0 and 1 / SQUARE <= box.width / box.height <= SQUARE


def _line_behind(box: BBox, lines: Sequence[Line]) -> Line | None:
    """Return the line that a shape of a bullet's size is in front of, with nothing in front of the shape."""
    level = [line for line in lines if is_level(box, line.bbox)]
    behind = [
        line
        for line in level
        if 0 < line.bbox.x0 - box.x1 <= REACH_EM * line.size and LEAST_EM * line.size <= box.height <= MOST_EM * line.size
    ]
    if not behind or any(-line.size < gap(line.bbox.x0, line.bbox.x1, box.x0, box.x1) < line.size and line.bbox.x0 < box.x0 for line in level):
        return None
    return min(behind, key=lambda line: line.bbox.x0)
