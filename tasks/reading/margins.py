"""Find the margins of pages: their running heads, feet and numbers."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from schemas.documents import Furniture, LayoutLabel, Line, OutlineEntry, Page
from schemas.drawings import EDGE_SHARE
from schemas.text import ROMAN, caption_label, roman_value, title_letters
from tasks.reading.blocks import ENDS_SENTENCE
from tasks.reading.outline import LARGER, body_size
from tasks.reading.page_numbers import Run, numbers_of
from tasks.tables.align import contents_entries, levels_of
from tasks.tables.rows import upright

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
_FEWEST_LETTERS = 4
_PROSE_CHARACTERS = 20

FEWEST_PAGES = 3
"""Minimum pages with the same running head, or with lines at one height. Of 1,014 pages 30
change at 2 (titles of two slides become running heads), 6 at 4 (heads of short documents become text).
"""
PAGES_A_REPEAT = 50
"""In a long document, one page of this many must have the running head."""
LABELLED_SHARE = 0.3
"""Minimum share of the lines with the same words, or at one height, that the layout model calls heads or feet: below it, bullets,
heads of tables and first lines of code become margins (in 8 of 45 documents).
"""
FEWEST_CHANGING, FEWEST_SMALLER = 5, 2
"""Minimum pages with labelled lines at one height that change with the section: as large as the text, and smaller."""
EVERYWHERE_SHARE = 0.25
"""Share of a document's pages with a line at one edge from which on it is a head or foot whatever the model calls it."""
MOST_PAGES_BY_LABEL = 2
"""Maximum pages of a document in which little is repeated, so that the layout model alone decides."""
LARGER_PT = 0.5
"""How much larger than the text a running head may be set."""
NEAR_PAGES = 4
"""Pages between which page numbers are compared: between chapters, or sheets without one, a few may be missing."""
COUNTED_PAGES = 3
"""Pages that a number with others beside it must increase with: two sheets of a report often have years over their columns."""
WIDE_EDGE_SHARE = 0.2
"""Share of a page's height in which repeated lines are heads or feet if a layout model says so: with LaTeX's wide margins on A4
they are at 0.13.
"""
_SIDES = {LayoutLabel.HEAD: Furniture.HEAD, LayoutLabel.FOOT: Furniture.FOOT}
_NO_PAGE_NUMBER = frozenset({LayoutLabel.ITEM, LayoutLabel.PICTURE})
_NO_RUNNING_HEAD = frozenset({LayoutLabel.ITEM, LayoutLabel.TABLE})
_WORD = re.compile(r"\w")
_PAGE_NUMBER = re.compile(
    r"\W*(?P<word>(?:page|seite|p\.)\s*)?(?:(?P<part>[A-Z]{1,2}|\d{1,2})-)?"
    rf"(?:(?P<roman>{ROMAN})|(?P<arabic>\d{{1,4}}))(?P<total>\s*(?:/|of|von|-)\s*(?:{ROMAN}|(?P<most>\d{{1,4}})))?\W*",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"\d+|\b{ROMAN}\b")
_NUMBER_AT_END = re.compile(r"^#\W+|\W+#$")


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
        roles |= dict.fromkeys(words_across(content, body), Furniture.WATERMARK)
        roles |= dict.fromkeys(contents_entries(content), Furniture.CONTENTS)
        roles |= dict.fromkeys(line_numbers(content, body), Furniture.LINE_NUMBER)
    return roles


def _along_side(lines: Sequence[Line], page: Page) -> Iterator[Line]:
    """Yield the lines that are written along a side of the page."""
    side = SIDE_SHARE * page.width_pt
    for line in lines:
        box = line.bbox
        is_along = box.height > STAMP_RATIO * box.width and len(line.text.strip()) >= _FEWEST_LETTERS
        if is_along and (box.x1 <= side or box.x0 >= page.width_pt - side):
            yield line


def words_across(lines: Sequence[Line], body: float) -> Iterator[Line]:
    """Yield the large lines that are written across the page: others are no higher, or no wider, than their letters."""
    for line in lines:
        is_across = min(line.bbox.width, line.bbox.height) >= WATERMARK_EM * line.size
        if is_across and line.size >= WATERMARK_TIMES * body and len(line.text.strip()) >= _FEWEST_LETTERS:
            yield line


def line_numbers(lines: Sequence[Line], body: float) -> list[Line]:
    """Return the numbers in a column beside the text that go up by one step."""
    decimals = [line for line in lines if line.text.strip().isdecimal() and line.inside is None]
    numbers = sorted(decimals, key=lambda line: line.bbox.y0)
    prose = [line.bbox for line in lines if len(line.text) >= _PROSE_CHARACTERS]
    if not prose:
        return []
    rows = levels_of([line for line in lines if line not in numbers])
    text_x0, text_x1 = min(box.x0 for box in prose), max(box.x1 for box in prose)
    for column in (
        [line for line in numbers if line.bbox.x1 < text_x0],
        [line for line in numbers if line.bbox.x0 > text_x1],
    ):
        steps = {int(below.text) - int(above.text) for above, below in pairwise(column)}
        fewest = FEWEST_NUMBERED if all(line.size < body for line in column) else FEWEST_AS_LARGE
        # Numbers of each fifth line count for five; those of paragraphs have other lines between them.
        step = steps.pop() if len(steps) == 1 else 0
        between = [
            sum(above.bbox.centre_y < row[0].bbox.centre_y <= below.bbox.centre_y for row in rows)
            for above, below in pairwise(column)
        ]
        if step * len(column) >= fewest and 2 * between.count(step) > len(between):
            return column
    return []


def find_margins(
    lines: Sequence[Line], pages: Sequence[Page], outline: Sequence[OutlineEntry] = ()
) -> dict[Line, Furniture]:
    """Return the lines of a document that aren't content, with their role.

    A line in the outer tenth of its page, as the reader sees it, is a margin if it is a page number, by its words or because it
    increases with the pages; if it is repeated on several pages with only numbers changed; or if the layout model calls most
    lines at its height heads or feet. Other numbers there are content, such as a year over a column or a chart's scale. Numbers
    that the model labels may be further inside; what it calls items, tables or text isn't a margin for being repeated.

    Args:
        lines: Page after page.
        pages: All pages of the document.
        outline: The PDF's own, if it has one: where a section begins, its title isn't a margin if it is there once.
    """
    by_number = {page.page: page for page in pages}
    alike: dict[tuple[str, Furniture, int], list[Line]] = defaultdict(list)
    heights: dict[tuple[Furniture, int, float], list[Line]] = defaultdict(list)
    numbers: list[_Number] = []
    body = body_size(lines)
    for line in lines:
        edge = _edge_of(line, by_number[line.page])
        if edge is None:
            continue
        may_be_number = (edge.is_outer or _is_labelled(line)) and line.label not in _NO_PAGE_NUMBER
        if may_be_number and (number := _number(line, edge.side)) is not None:
            numbers.append(number)
        elif _is_labelled(line) or (line.size <= LARGER * body + LARGER_PT and _WORD.search(line.text)):
            # Further inside the page, only lines with the same words and numbers at the same height count as repeated.
            key = (_pattern(line.text), edge.side, 0) if edge.is_outer else (line.text, edge.side, edge.away)
            alike[key].append(line)
            if edge.is_outer and line.size <= body + LARGER_PT:
                heights[edge.side, edge.away, line.size].append(line)
    margins = dict.fromkeys(_page_numbers(numbers, by_number), Furniture.PAGE_NUMBER)
    margins |= _running_lines(alike, heights, len(pages), body)
    for line in _titles(lines, outline):
        margins.pop(line, None)
    return margins | find_furniture(lines, by_number, margins, body)


def _running_lines(
    alike: Mapping[tuple[str, Furniture, int], Sequence[Line]],
    heights: Mapping[tuple[Furniture, int, float], Sequence[Line]],
    page_count: int,
    body: float,
) -> dict[Line, Furniture]:
    """Return the running heads and feet among lines with the same words, and among those at one height."""
    running: dict[Line, Furniture] = {}
    fewest = max(FEWEST_PAGES, page_count // PAGES_A_REPEAT)
    for (_, side, inside), repeated in alike.items():
        count = len({line.page for line in repeated})
        is_everywhere = not inside and count >= EVERYWHERE_SHARE * page_count
        is_everywhere &= not any(line.label in _NO_RUNNING_HEAD for line in repeated)
        is_labelled = (
            not inside and count > 1 and all(_is_head_by_label(line) and line.size <= body + LARGER_PT for line in repeated)
        )
        if is_labelled or (count >= fewest and (is_everywhere or _labelled_share(repeated) >= LABELLED_SHARE)):
            running.update(dict.fromkeys(repeated, side))
    for (side, _, size), level in heights.items():
        running.update(dict.fromkeys(_with_numbers(level), side))
        # Heads that change with the section differ in their words: the layout model tells them, those as large as the text
        # on more pages; in a document of a page or two it decides alone.
        labelled = [line for line in level if _is_labelled(line)]
        sure = [line for line in labelled if _is_head_by_label(line)]
        if len({line.page for line in labelled}) >= FEWEST_CHANGING:
            running.update(dict.fromkeys(labelled, side))
        is_smaller = size < body - LARGER_PT and len({line.page for line in sure}) >= FEWEST_SMALLER
        if page_count <= MOST_PAGES_BY_LABEL or is_smaller:
            running.update(dict.fromkeys(sure, side))
    return running


def _with_numbers(level: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines at one height that begin or end with a number that goes up with the pages."""
    by_run: dict[Run, list[Line]] = defaultdict(list)
    for line in level:
        for run, _ in numbers_of(line):
            by_run[run].append(line)
    for lines in by_run.values():
        if len({line.page for line in lines}) >= FEWEST_PAGES:
            yield from lines


def _is_head_by_label(line: Line) -> bool:
    """Return whether the layout model calls a level line a head or foot, and it is neither a caption nor a sentence's end."""
    is_sentence = line.label is LayoutLabel.HEAD and ENDS_SENTENCE.search(line.text)
    return (
        _is_labelled(line) and line.bbox.width > line.bbox.height and not is_sentence and caption_label(line.text) is None
    )


def _titles(lines: Sequence[Line], outline: Sequence[OutlineEntry]) -> list[Line]:
    """Return the lines with the words of an entry of the outline, at or below its destination and larger than others alike."""
    by_title: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in lines if outline else ():
        by_title[line.page, title_letters(line.text)].append(line)
    titles: list[Line] = []
    for entry in outline:
        alike = sorted(by_title.get((entry.page, title_letters(entry.title)), []), key=lambda line: -line.size)
        # The running head of the page may have the same words, in smaller letters.
        is_alone = alike and all(smaller.size < alike[0].size for smaller in alike[1:])
        titles += alike[:1] if is_alone and alike[0].bbox.y1 >= (entry.y or 0.0) else []
    return titles


def _is_labelled(line: Line) -> bool:
    return line.label in _SIDES


def _labelled_share(lines: Sequence[Line]) -> float:
    """Return the share of lines that the layout model calls heads or feet; 1 if it read none of them."""
    labelled = [line for line in lines if line.label is not None]
    return sum(map(_is_labelled, labelled)) / len(labelled) if labelled else 1.0


@dataclass(frozen=True, slots=True)
class _Number:
    """A line that may be a page number: ``part`` is the chapter in "A-1" or "3-7", ``form`` the text around both."""

    line: Line
    side: Furniture
    form: str
    part: str
    value: int
    says_page: bool

    def continues(self, number_nearby: "_Number", step: int = 1) -> bool:
        """Return whether the numbers of two lines differ by as much as their pages, with ``step`` numbers a page."""
        pages = number_nearby.line.page - self.line.page
        if not 0 < abs(pages) <= NEAR_PAGES or self.form != number_nearby.form:
            return False
        if self.part == number_nearby.part:
            return number_nearby.value - self.value == step * pages
        later = self if pages < 0 else number_nearby
        return (
            bool(self.part) and bool(number_nearby.part) and later.value <= abs(pages)
        )  # the next chapter begins between them


def _number(line: Line, side: Furniture) -> _Number | None:
    """Return what may be a page number; None if the form excludes it."""
    text = line.text.strip()
    match = _PAGE_NUMBER.fullmatch(text)
    if match is None:
        return None
    kind = "roman" if match["roman"] else "arabic"
    numeral = match[kind]
    # A word such as "Mix" has the letters of a numeral, which is written in one case.
    if match["roman"] and not (numeral.islower() or numeral.isupper()):
        return None
    value = roman_value(numeral) if match["roman"] else int(numeral)
    before = match.start("part") if match["part"] else match.start(kind)
    form = f"{kind} {text[:before]}#{text[match.end(kind) :]}"
    has_total = match["total"] and (match["most"] is None or value <= int(match["most"]))
    return _Number(line, side, form, match["part"] or "", value, bool(match["word"] or has_total))


def _page_numbers(numbers: Sequence[_Number], pages: Mapping[int, Page]) -> set[Line]:
    """Return the lines that are page numbers: by their words, their neighbours' numbers, or the number of their page."""
    by_page: dict[int, list[_Number]] = defaultdict(list)
    for number in numbers:
        by_page[number.line.page].append(number)

    def counts_pages(number: _Number) -> bool:
        page = number.line.page
        # A sheet wider than high may show two pages, so numbers may increase by two from sheet to sheet.
        step = 2 if pages[page].width_pt > pages[page].height_pt else 1
        near = (neighbour for at in range(page - NEAR_PAGES, page + NEAR_PAGES + 1) for neighbour in by_page.get(at, ()))
        along = [neighbour for neighbour in near if number.continues(neighbour) or number.continues(neighbour, step)]
        beside = [
            neighbour for neighbour in by_page[page] if neighbour.form == number.form and neighbour.side == number.side
        ]
        if len(beside) > 1:
            return len({neighbour.line.page for neighbour in along}) >= COUNTED_PAGES
        return any(neighbour.side == number.side for neighbour in along)

    def is_page_number(number: _Number) -> bool:
        page = number.line.page
        # A number alone on its line needs no neighbours if it is that of its page, or one less, as behind a cover.
        by_itself = len(pages) > 1 and number.form.endswith(" #") and number.value in (page, page - 1)
        return number.says_page or by_itself or counts_pages(number)

    return {number.line for number in numbers if is_page_number(number)}


def _pattern(text: str) -> str:
    """Return the words of a line with numbers replaced, those at its ends left out: they are at the outer side of the page."""
    words = _NUMBER.sub("#", " ".join(text.casefold().split()))
    return _NUMBER_AT_END.sub("", words) or words


class _Edge(NamedTuple):
    """Where a line is: at the head or the foot of its page, its distance in points, and whether it is in the outer tenth."""

    side: Furniture
    away: int
    is_outer: bool


def _edge_of(line: Line, page: Page) -> _Edge | None:
    """Return at which edge of its page, as it is read, a line is; further inside only if a layout model ran."""
    sheet, box = (upright(box, page.rotation) for box in (page.box, line.bbox))
    top, bottom, height = box.y0 - sheet.y0, box.y1 - sheet.y0, sheet.height
    share = EDGE_SHARE if line.label is None else WIDE_EDGE_SHARE
    if bottom <= share * height:
        return _Edge(Furniture.HEAD, round(bottom), bottom <= EDGE_SHARE * height)
    if top >= (1 - share) * height:
        return _Edge(Furniture.FOOT, round(height - bottom), top >= (1 - EDGE_SHARE) * height)
    return _Edge(_SIDES[line.label], round(bottom), is_outer=False) if line.label in _SIDES else None
