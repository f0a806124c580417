"""Find furniture of pages besides numbered and changing heads: fixed rows, stamps, watermarks and line numbers."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from schemas.documents import Furniture, Label, Line, Page
from tasks.tables.contents_entries import contents_entries

FEWEST_PAGES = 3
"""Minimum pages with a fixed line."""
FIXED_SHARE = 0.5
"""Minimum share of a document's pages that have a fixed line at one height."""
FIXED_WITHIN = 0.2
"""Share of a page's height in which fixed rows are, at its head and foot."""
MOST_FIXED_ROWS = 2
"""Maximum fixed rows at an edge: more are text that pages repeat."""
APART_EM = 0.5
"""Minimum distance of fixed rows from the text, in ems."""
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
_TITLES = frozenset({Label.HEADING, Label.TITLE})
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
    heights = _fixed_heights(by_page, pages)
    found: dict[Line, Furniture] = {}
    for number, own in by_page.items():
        page = pages[number]
        fixed = {line for line in own if (line.text, round(line.bbox.y0)) in heights}
        found |= dict.fromkeys(_at_side(own, page, fixed), Furniture.STAMP)
        found |= dict.fromkeys(_across(own, body), Furniture.WATERMARK)
        found |= dict.fromkeys(contents_entries(own), Furniture.CONTENTS)
        found |= dict.fromkeys(_line_numbers(own, body), Furniture.LINE_NUMBER)
        if not fixed:
            continue
        rest = [line for line in own if line not in found]
        edge = FIXED_WITHIN * page.height_pt
        tops = {line: (line.bbox.y0, line.bbox.y1) for line in rest}
        found |= dict.fromkeys(_rows_of(tops, fixed, edge), Furniture.HEAD)
        bottoms = {line: (page.height_pt - y1, page.height_pt - y0) for line, (y0, y1) in tops.items() if line not in found}
        found |= dict.fromkeys(_rows_of(bottoms, fixed, edge), Furniture.FOOT)
    return found


def _fixed_heights(by_page: Mapping[int, Sequence[Line]], pages: Mapping[int, Page]) -> set[tuple[str, int]]:
    """Return the texts near an edge, with their height, that enough pages have at that height, give or take a point."""
    fewest = max(FEWEST_PAGES, FIXED_SHARE * len(pages))
    at: dict[tuple[str, int], set[int]] = defaultdict(set)
    for number, lines in by_page.items():
        page = pages[number]
        top, bottom = FIXED_WITHIN * page.height_pt, (1 - FIXED_WITHIN) * page.height_pt
        left, right = SIDE_SHARE * page.width_pt, (1 - SIDE_SHARE) * page.width_pt
        for line in lines:
            x0, y0, x1, y1 = line.bbox
            if y1 <= top or y0 >= bottom or x1 <= left or x0 >= right:
                at[line.text, round(y0)].add(number)
    return {
        (text, y) for text, y in at if len(set().union(*(at.get((text, near), ()) for near in (y - 1, y, y + 1)))) >= fewest
    }


def _rows_of(spans: Mapping[Line, tuple[float, float]], fixed: set[Line], edge: float) -> list[Line]:
    """Return the outermost rows in which every line is fixed, if they are few and apart from what follows.

    Spans are distances from the edge, the nearer side first.
    """
    left = dict(spans)
    rows: list[Line] = []
    last = 0.0
    for _ in range(MOST_FIXED_ROWS + 1):
        first = min((far for _, far in left.values()), default=math.inf)
        row = [line for line, (near, far) in left.items() if (near + far) / 2 < first]
        if first > edge or not fixed.issuperset(row):
            following = min((near for near, _ in left.values()), default=math.inf)
            return rows if rows and following - last >= APART_EM * rows[-1].size else []
        rows += row
        last = max(left[line][1] for line in row)
        for line in row:
            del left[line]
    return []


def _at_side(lines: Sequence[Line], page: Page, fixed: set[Line]) -> Iterator[Line]:
    """Yield the lines along a side of the page that are fixed, or written along it."""
    side = SIDE_SHARE * page.width_pt
    for line in lines:
        box = line.bbox
        if box.x1 <= side or box.x0 >= page.width_pt - side:
            is_along = box.height > STAMP_RATIO * box.width and len(line.text.strip()) >= _FEWEST_LETTERS
            if is_along or line in fixed:
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
    left, right = min(box.x0 for box in prose), max(box.x1 for box in prose)
    for column in (
        sorted((line for line in numbers if line.bbox.x1 < left), key=lambda line: line.bbox.y0),
        sorted((line for line in numbers if line.bbox.x0 > right), key=lambda line: line.bbox.y0),
    ):
        steps = {int(below.text) - int(above.text) for above, below in pairwise(column)}
        fewest = FEWEST_NUMBERED if all(line.size < body for line in column) else FEWEST_AS_LARGE
        if len(column) >= fewest and len(steps) == 1 and steps.pop() > 0:
            return column
    return []
