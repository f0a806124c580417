"""Read a page of an open PDF: lines in logical order, words set as images, drawings."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from schemas.corpus.parse import Layout
from schemas.documents import LayoutLabel, Line, OutlineEntry, Page, PageRegion
from schemas.drawings import MAX_SIDE_PT, Letters, Mark, PageLine
from schemas.errors import FailureCode, rejecting
from schemas.geometry import gap, is_level
from schemas.ports import PdfDocument, PdfPage
from schemas.tags import escape, strip
from tasks.reading.accents import with_accents
from tasks.reading.bidi import has_right_to_left
from tasks.reading.blocks import regroup_lines
from tasks.reading.logical_order import LineLetters, in_logical_order
from tasks.reading.marks_in_text import drawn_bullets, without_underlines
from tasks.reading.spell import has_words_as_images, spelled_lines
from tasks.tables.under_titles import tables_under_titles

SHIFT_EM = 0.25
"""Maximum distance between the sides of a line and of the same line drawn again, in ems."""
FEWEST_SPACED, SPACED_SHARE = 4, 0.8
"""Minimum words of a line, and minimum share of them of one letter, if its letters are spaced out."""
FEWEST_LETTERS, FEWEST_STRANGE, STRANGE_SHARE = 12, 2, 0.05
"""Minimum letters of a line that tells, and how many of them, and which share, no text has, if its font gives wrong letters."""
_MAY_BE_STRANGE = frozenset({LayoutLabel.FORMULA, LayoutLabel.PICTURE})
"""Labels of regions whose signs may be of a font without letters."""
WORD_GAP, WORD_GAP_EM = 1.3, 0.1
"""Gap between the letters of two words: so many times the usual one, and more, in ems."""


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A page's content: ``lines`` derive from ``drawn``; ``letters`` locates the letters of each; ``marks`` have no bullets."""

    page: Page
    drawn: PdfPage
    lines: tuple[PageLine, ...]
    letters: LineLetters
    marks: Sequence[Mark]
    regions: Sequence[PageRegion] | None

    @property
    def texts(self) -> list[Line]:
        """All lines, visible or not."""
        return [line for line, _ in self.lines]


def read_page(document: PdfDocument, number: int, layout: Layout = "never") -> ParsedPage:
    """Read one page, counted from 1, and run the layout model on it if ``layout`` says so.

    Raises:
        BadInputError: The page can't be read.
        MemoryError: It would take more memory than there is.
    """
    drawn = document.read_page(number)
    letters = LineLetters(drawn)
    with rejecting("the page can't be read", FailureCode.PAGE_UNREADABLE, number):
        lines = _lines(drawn, letters)
        asks_model = layout == "every_page" or (layout == "doubtful" and _is_doubtful(drawn))
        is_drawn = max(drawn.box.width, drawn.box.height) <= MAX_SIDE_PT
        regions = drawn.regions() if asks_model and is_drawn else None
        if regions and not drawn.rotation:
            regions = tables_under_titles(regions, [line for line, is_visible in lines if is_visible])
        marks, bullets = drawn_bullets(without_underlines(drawn.marks, lines), lines)
        lines = regroup_lines([*lines, *bullets], regions or (), drawn.rotation)
    characters = sum([len(line.text.strip()) for line, _ in lines])
    page = Page(number, drawn.box.width, drawn.box.height, drawn.rotation, characters)
    return ParsedPage(page, drawn, tuple(lines), letters, marks, regions)


def _is_doubtful(page: PdfPage) -> bool:
    """Return whether a page is more than one column of lines: it has drawings or pictures, or lines side by side."""
    lines = [line for line, is_visible in page.lines if is_visible]
    return bool(page.images or page.marks) or any(
        is_level(first_line.bbox, second_line.bbox)
        and gap(first_line.bbox.x0, first_line.bbox.x1, second_line.bbox.x0, second_line.bbox.x1) > first_line.size
        for first_line, second_line in pairwise(lines)
    )


def _lines(page: PdfPage, letters: LineLetters) -> list[PageLine]:
    lines = list(with_accents(list(_drawn_once(page.lines)), letters))
    lines = [PageLine(_joined_letters(line, letters), is_visible) for line, is_visible in lines]
    words = [line.text for line, _ in lines]
    if not "".join(words).isascii() and any(map(has_right_to_left, words)):
        lines = list(in_logical_order(lines, letters))
    if has_words_as_images(page.images):
        spelled = spelled_lines(page.replacement_texts(), page.images, page.number)
        line_boxes = [line.bbox for line, _ in lines]
        lines += [PageLine(line, False) for line in spelled if not any(line.bbox.has_middle_of(box) for box in line_boxes)]
        lines.sort(key=lambda marked: marked.line.block)
    return lines


def _drawn_once(lines: Sequence[PageLine]) -> Iterator[PageLine]:
    """Yield lines without those drawn again: as an outline over the fill, a shadow, or for a bolder look."""
    drawn: dict[str, list[Line]] = defaultdict(list)
    for line, is_visible in lines:
        text = line.text.strip()
        shift = SHIFT_EM * line.size
        if any(
            max(
                abs(coordinate - earlier_coordinate)
                for coordinate, earlier_coordinate in zip(line.bbox, before.bbox, strict=True)
            )
            <= shift
            for before in drawn[text]
        ):
            continue
        drawn[text].append(line)
        yield PageLine(line, is_visible)


def _joined_letters(line: Line, letters: LineLetters) -> Line:
    """Return a line whose letters are spaced out with its words written as usual."""
    words = [word for word in line.text.split() if word.isalnum()]
    if len(words) < FEWEST_SPACED or sum(len(word) == 1 for word in words) < SPACED_SHARE * len(words):
        return line
    text, boxes = letters(line)
    inked = [at for at, letter in enumerate(text) if not letter.isspace()]
    gaps = [boxes[after][0] - boxes[before][2] for before, after in pairwise(inked)]
    widest = WORD_GAP * max(median(gaps), 0.0) + WORD_GAP_EM * line.size
    joined = text[inked[0]] + "".join(
        " " * (gap > widest) + text[after] for gap, after in zip(gaps, inked[1:], strict=True)
    )
    blank = next((boxes[at] for at, letter in enumerate(text) if letter.isspace()), boxes[0])
    inked_in_order = iter(inked)
    spaced = line._replace(text=escape(joined))
    letters.keep(
        spaced, Letters(joined, [blank if letter == " " else boxes[next(inked_in_order)] for letter in joined], (1, 0))
    )
    return spaced


def is_unreadable(lines: Sequence[PageLine]) -> bool:
    """Return whether a font of a page doesn't say which letters it shows: lines have control and private characters."""
    return any(
        is_visible and line.label not in _MAY_BE_STRANGE and _is_strange(strip(line.text).strip())
        for line, is_visible in lines
    )


def _is_strange(text: str) -> bool:
    strange = sum(
        (unicodedata.category(letter) in ("Cc", "Co", "Cn") and not letter.isspace()) or letter == "\ufffd"
        for letter in text
    )
    return len(text) >= FEWEST_LETTERS and strange >= max(FEWEST_STRANGE, STRANGE_SHARE * len(text))


def read_outline(document: PdfDocument, pages: Sequence[Page]) -> list[OutlineEntry]:
    """Return the PDF's own outline, restricted to its pages; [] where it has none, or a broken one."""
    outline: list[OutlineEntry] = []
    for entry in document.outline():
        if entry.title and 1 <= entry.page <= len(pages):
            page = pages[entry.page - 1]
            is_on_page = page.rotation == 0 and entry.y is not None and 0 <= entry.y <= page.height_pt
            y = round(entry.y, 2) if is_on_page and entry.y is not None else None
            outline.append(OutlineEntry(entry.level, escape(entry.title), page.page, y))
    return outline
