"""Find furniture of pages besides heads and feet: stamps, watermarks, contents and line numbers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from schemas.documents import Furniture, LayoutLabel, Line, Page
from tasks.tables.contents_entries import contents_entries

SIDE_SHARE = 0.08
"""Share of a page's width at its sides that has stamps: arXiv's are within 0.06."""
STAMP_RATIO = 2.5
"""Minimum height of a stamp along the side, as a multiple of its width."""
WATERMARK_TIMES = 2.0
"""Minimum size of a watermark, relative to the text."""
WATERMARK_EM = 2.0
"""Minimum width and height of a watermark, which is written across the page."""
FEWEST_NUMBERED = 5
"""Minimum line numbers of a page, if they are smaller than the text."""
FEWEST_AS_LARGE = 15
"""The same, if they are as large: contents have a column of numbers of chapters."""
_TITLES = frozenset({LayoutLabel.HEADING, LayoutLabel.TITLE})
_FEWEST_LETTERS = 4
_PROSE_CHARACTERS = 20


def find_furniture(
    lines: Sequence[Line], pages: Mapping[int, Page], margins: Mapping[Line, Furniture], body: float
) -> dict[Line, Furniture]:
    """Return the lines of unrotated pages that are furniture and no margins yet, with their role.

    Args:
        lines: Of a document, page after page.
        pages: By number.
        margins: Running heads, feet and page numbers.
        body: Size of the text, in points.
    """
    by_page: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line not in margins and not pages[line.page].rotation:
            by_page[line.page].append(line)
    roles: dict[Line, Furniture] = {}
    for number, content in by_page.items():
        page = pages[number]
        roles |= dict.fromkeys(_along_side(content, page), Furniture.STAMP)
        roles |= dict.fromkeys(_across(content, body), Furniture.WATERMARK)
        roles |= dict.fromkeys(contents_entries(content), Furniture.CONTENTS)
        roles |= dict.fromkeys(_line_numbers(content, body), Furniture.LINE_NUMBER)
    return roles


def _along_side(lines: Sequence[Line], page: Page) -> Iterator[Line]:
    """Yield the lines that are written along a side of the page."""
    side = SIDE_SHARE * page.width_pt
    for line in lines:
        box = line.bbox
        is_along = box.height > STAMP_RATIO * box.width and len(line.text.strip()) >= _FEWEST_LETTERS
        if is_along and (box.x1 <= side or box.x0 >= page.width_pt - side):
            yield line


def _across(lines: Sequence[Line], body: float) -> Iterator[Line]:
    """Yield the large lines that are written across the page: others are no higher, or no wider, than their letters."""
    for line in lines:
        is_across = line.label not in _TITLES and min(line.bbox.width, line.bbox.height) >= WATERMARK_EM * line.size
        if is_across and line.size >= WATERMARK_TIMES * body and len(line.text.strip()) >= _FEWEST_LETTERS:
            yield line


def _line_numbers(lines: Sequence[Line], body: float) -> list[Line]:
    """Return the numbers in a column beside the text that go up by one step."""
    numbers = [line for line in lines if line.text.strip().isdecimal() and line.inside is None]
    if len(numbers) < FEWEST_NUMBERED:
        return []
    prose = [line.bbox for line in lines if len(line.text) >= _PROSE_CHARACTERS]
    if not prose:
        return []
    text_x0, text_x1 = min(box.x0 for box in prose), max(box.x1 for box in prose)
    for column in (
        sorted((line for line in numbers if line.bbox.x1 < text_x0), key=lambda line: line.bbox.y0),
        sorted((line for line in numbers if line.bbox.x0 > text_x1), key=lambda line: line.bbox.y0),
    ):
        steps = {int(below.text) - int(above.text) for above, below in pairwise(column)}
        fewest = FEWEST_NUMBERED if all(line.size < body for line in column) else FEWEST_AS_LARGE
        if len(column) >= fewest and len(steps) == 1 and steps.pop() > 0:
            return column
    return []
