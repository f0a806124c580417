"""Find the marks of a page that belong to its text: bullets drawn as shapes, underlines and strokes through words."""

from collections.abc import Sequence

from schemas.documents import LayoutLabel, Line
from schemas.drawings import Mark, PageLine
from schemas.geometry import BBox, gap, is_level

LEAST_EM, MOST_EM = 0.15, 0.7
"""Size of a bullet, in ems of the line behind it."""
SQUARE = 1.35
"""Maximum ratio of a bullet's sides."""
REACH_EM = 2.5
"""Maximum gap between a bullet and the line behind it, in ems."""
BELOW_EM = 0.2
"""Maximum distance of an underline below the box of its line, in ems."""
BESIDE_EM = 0.5
"""Maximum distance of the ends of an underline from those of its words, in ems."""
FEWEST = 2
"""Minimum bullets below each other, where no layout model calls the lines list items."""
_NO_ITEM = frozenset({LayoutLabel.TABLE, LayoutLabel.PICTURE, LayoutLabel.FORMULA, LayoutLabel.HEAD, LayoutLabel.FOOT})


def drawn_bullets(marks: Sequence[Mark], lines: Sequence[PageLine]) -> tuple[list[Mark], list[PageLine]]:
    """Return the marks of a page that are no bullets, and a line for each that is."""
    candidates = [mark for mark in marks if mark.filled and not mark.white and _is_square(mark.bbox)]
    visible = [line for line, is_visible in lines if is_visible and line.label not in _NO_ITEM]
    behind = {mark: line for mark in candidates if (line := _line_behind(mark.bbox, visible)) is not None}
    columns = [round(mark.bbox.x0) for mark in behind]
    bullets = {
        mark: line
        for mark, line in behind.items()
        if line.label is LayoutLabel.ITEM or columns.count(round(mark.bbox.x0)) >= FEWEST
    }
    drawn = [
        PageLine(
            line._replace(bbox=line.bbox._replace(x0=mark.bbox.x0, x1=mark.bbox.x1).rounded(), text="•", bold=False), True
        )
        for mark, line in bullets.items()
    ]
    return [mark for mark in marks if mark not in bullets], drawn


def without_underlines(marks: Sequence[Mark], lines: Sequence[PageLine]) -> list[Mark]:
    """Return the marks of a page without the rules below or through the words of one line, which aren't a table's."""
    visible = [line for line, is_visible in lines if is_visible]
    return [mark for mark in marks if not (_is_level_rule(mark) and any(_underlines(mark.bbox, line) for line in visible))]


def _is_level_rule(mark: Mark) -> bool:
    return mark.is_rule and mark.bbox.width > mark.bbox.height


def _underlines(rule: BBox, line: Line) -> bool:
    x0, y0, x1, y1 = line.bbox
    beside, below = BESIDE_EM * line.size, BELOW_EM * line.size
    is_within = x0 - beside <= rule.x0 and rule.x1 <= x1 + beside
    return is_within and (y0 + y1) / 2 - below <= (rule.y0 + rule.y1) / 2 <= y1 + below


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
    if not behind or any(
        -line.size < gap(line.bbox.x0, line.bbox.x1, box.x0, box.x1) < line.size and line.bbox.x0 < box.x0 for line in level
    ):
        return None
    return min(behind, key=lambda line: line.bbox.x0)
