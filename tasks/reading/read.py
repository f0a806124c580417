"""Read a page of an open PDF: lines in logical order, words set as images, drawings."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.documents import Line, OutlineEntry, Page, PageRegion
from schemas.drawings import Mark, PageLine
from schemas.errors import FailureCode, refusing
from schemas.ports import PdfDocument, PdfPage
from schemas.tags import escape
from tasks.reading.accents import with_accents
from tasks.reading.bidi import has_right_to_left
from tasks.reading.blocks import in_blocks
from tasks.reading.bullets import drawn_bullets
from tasks.reading.logical_order import LineLetters, in_logical_order
from tasks.reading.spell import has_words_as_images, spelled_lines


@dataclass(frozen=True, slots=True)
class Content:
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


def read_page(document: PdfDocument, number: int) -> Content:
    """Read one page, counted from 1.

    Raises:
        BadInputError: The page can't be read.
        MemoryError: It would take more memory than there is.
    """
    drawn = document.read_page(number)
    letters = LineLetters(drawn)
    with refusing("the page can't be read", FailureCode.PAGE_UNREADABLE, number):
        lines = _lines(drawn, letters)
        regions = drawn.regions()
        marks, bullets = drawn_bullets(drawn.marks, lines)
        lines = in_blocks([*lines, *bullets], regions or (), drawn.rotation)
    characters = sum([len(line.text.strip()) for line, _ in lines])
    page = Page(number, drawn.box.width, drawn.box.height, drawn.rotation, characters)
    return Content(page, drawn, tuple(lines), letters, marks, regions)


def _lines(page: PdfPage, letters: LineLetters) -> list[PageLine]:
    lines = list(with_accents(page.lines, letters))
    words = [line.text for line, _ in lines]
    if not "".join(words).isascii() and any(map(has_right_to_left, words)):
        lines = list(in_logical_order(lines, letters))
    if has_words_as_images(page.images):
        spelled = spelled_lines(page.replacement_texts(), page.images, page.number)
        written = [line.bbox for line, _ in lines]
        lines += [PageLine(line, False) for line in spelled if not any(line.bbox.has_middle_of(box) for box in written)]
        lines.sort(key=lambda marked: marked.line.block)
    return lines


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
