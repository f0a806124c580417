"""Parse a PDF: lines, figures and their placements, tables, the outline. No model runs."""

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from schemas.corpus import Layout, ParseOptions
from schemas.documents import (
    TAGGED,
    Kind,
    LayoutLabel,
    Line,
    Page,
    PageFailure,
    ParsedDocument,
    Placement,
    Role,
    largest,
)
from schemas.drawings import MAX_SIDE_PT, Image, Ruling
from schemas.errors import BadInputError, FailureCode, rejecting
from schemas.formats import FORMATS, ending
from schemas.ports import PdfDocument, PdfPage
from schemas.tags import escape
from tasks.figures.classify import CAPTIONED, is_gradient, role_of, role_of_gradient, without_logos, without_repeats
from tasks.figures.locate import Located, locate
from tasks.figures.parts import PictureRegion
from tasks.figures.render import FigureCollector, KeepFigure, formula_regions, stream_sha1
from tasks.reading.bidi import runs_right_to_left
from tasks.reading.margins import words_across
from tasks.reading.outline import body_size
from tasks.reading.page_numbers import own_labels
from tasks.reading.read import ParsedPage, is_unreadable, read_outline, read_page
from tasks.tables.promised import layout_tables
from tasks.tables.rows import rotation_of
from tasks.tables.tabulate import Grid, holds, tabulate, with_placeholders

_LEAST_CHARACTERS = 4
"""Minimum length of a title in metadata: shorter ones are leftovers."""

_NO_TITLE = re.compile(
    r"(?:untitled|microsoft word|\(?anonymous\)?|title|document\d*$|slide \d)"
    r"|.*\.(?:indd|docx?|qxd|fm|pdf|odt|pptx?|xlsx?|tex|dvi|rtf)$|[\w-]*_[\w.-]*$",
    re.IGNORECASE,
)
"""Titles that a program wrote by default, and names of files."""

_MOST_CHARACTERS = 200
"""Maximum length of a title: what is longer is a paragraph."""

_SHORTEST_WORDS = 3
"""Minimum length of a line of the title: shorter ones are initials, ornaments or page numbers."""

_WRITTEN = re.compile(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?")

FIRST_YEAR = 1993
"""Year of the first PDF: an earlier date is an unset clock (1970, 1904, 1601)."""

PARSE_VERSION = "45"

_FREE_MEMORY_EVERY = 16
"""Pages after which the PDF library's cache is emptied."""

_TEMPLATE_PAGES = 3
"""Pages with the same background image from which on it is a template without figures: else a presentation of a hundred slides
has its background drawn for each.
"""


def title_of(metadata: str, lines: Sequence[Line]) -> str:
    """Return the title in a PDF's metadata, or else the largest words of its first page; "" without either."""
    metadata_title = metadata.strip()
    if len(metadata_title) >= _LEAST_CHARACTERS and not _NO_TITLE.match(metadata_title):
        return escape(metadata_title)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) >= _SHORTEST_WORDS]
    labelled = [line for line in first if line.label in (LayoutLabel.TITLE, LayoutLabel.HEADING)]
    title = " ".join(line.text.strip() for line in largest(labelled or first))
    return title if len(title) <= _MOST_CHARACTERS else ""


def date_of(modified: str, created: str) -> str | None:
    """Return the day when a PDF was last changed, or else created, such as ``2024-03-31``; None without either.

    Args:
        modified: ModDate of its metadata, such as ``D:20240331120000+02'00'``; the time zone is ignored.
        created: CreationDate.
    """
    return _day(modified) or _day(created)


def _day(timestamp: str) -> str | None:
    date_parts = _WRITTEN.match(timestamp.strip())
    if date_parts is None:
        return None
    year, month, day = (int(part or 1) for part in date_parts.groups())
    try:
        return datetime.date(year, month, day).isoformat() if year >= FIRST_YEAR else None
    except ValueError:
        return None


def parse(
    document: PdfDocument,
    doc_id: str,
    options: ParseOptions,
    *,
    keep_figure: KeepFigure,
    opened: Callable[[int], None] = lambda _pages: None,
    as_scans: bool = False,
) -> ParsedDocument:
    """Parse one PDF.

    A page, an image or a table that can't be read becomes a ``PageFailure``; the rest is parsed.

    Args:
        document: The open PDF.
        doc_id: The digest of its bytes.
        options: Resolution and size of figures, and the page limit. The caller limits time and memory.
        keep_figure: Called with each figure once its page is read, so that memory has the pixels of one page.
        opened: Called with the number of pages before the first is read.
        as_scans: Each page is a picture with hidden words, and has been stored; only pictures on it are kept.

    Raises:
        BadInputError: Nothing of the document can be read, or it has too many pages.
    """
    if document.page_count > options.max_pages:
        raise BadInputError(
            f"the document has {document.page_count} pages, more than parse.max_pages = {options.max_pages}",
            FailureCode.PAGE_LIMIT,
        )
    opened(document.page_count)
    reading = _Reading(document, options.layout, FigureCollector(keep_figure), as_scans)
    reading.read_all()
    placements = without_logos(without_repeats(reading.placements, reading.pages), reading.pages, reading.lines)
    # Pictures on many pages that turn out to be templates have lost their figures by now.
    kept_figure_ids = {placement.figure_id for placement in placements}
    return ParsedDocument(
        doc_id=doc_id,
        title=title_of(document.title, reading.lines),
        pages=tuple(reading.pages),
        lines=tuple(reading.lines),
        figures=tuple(figure for figure in reading.collection.figures.values() if figure.figure_id in kept_figure_ids),
        placements=tuple(placements),
        tables=tuple(with_placeholders(page, grid, placements) for page, grid in reading.grids),
        outline=tuple(read_outline(document, reading.pages)),
        failures=(*reading.failures, *_of_attachments(document.attachments())),
        date=date_of(*document.dates),
        labels=own_labels(document.page_labels()),
        doubts=document.doubts(),
    )


def _of_attachments(names: Sequence[str]) -> Iterator[PageFailure]:
    """Yield the failure of a PDF with documents inside; other attachments, such as data of an invoice, are no documents."""
    if documents := sorted(name for name in names if ending(name) in FORMATS):
        message = f"the attachments inside the PDF aren't read: {', '.join(documents)}"
        yield PageFailure(None, FailureCode.HAS_ATTACHMENTS, escape(message[:_MOST_CHARACTERS]))


@dataclass
class _Reading:
    """The pages read so far."""

    document: PdfDocument
    layout: Layout
    collection: FigureCollector
    as_scans: bool
    pages: list[Page] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    grids: list[tuple[int, Grid]] = field(default_factory=list)
    failures: list[PageFailure] = field(default_factory=list)
    backgrounds: Counter[str] = field(default_factory=Counter)
    found_anything: bool = False

    def read_all(self) -> None:
        """Read every page.

        Raises:
            BadInputError: No page can be read.
        """
        for number in range(1, self.document.page_count + 1):
            self._read(number)
            if number % _FREE_MEMORY_EVERY == 0:
                self.document.free_memory()
        if not self.found_anything and self.failures:
            first = self.failures[0]
            raise BadInputError(f"the file is damaged and nothing of it can be read: {first.message}", FailureCode.DAMAGED)

    def _read(self, number: int) -> None:
        # What was lost until now is dropped: later warnings are this page's.
        self.document.lost_content()
        try:
            content = read_page(self.document, number, self.layout, is_scan=self.as_scans)
        except BadInputError as error:
            self.pages.append(Page(number, 0.0, 0.0, 0, 0))
            self._fail(number, error)
            return
        is_readable = not is_unreadable(content.lines)
        if not is_readable:
            message = "its fonts don't say which letters they show: without OCR its text is left out"
            self._fail(number, BadInputError(message, FailureCode.FONT_UNREADABLE, number))
            content = replace(content, page=replace(content.page, characters=0), lines=())
        if content.layout_failed:
            message = "the layout model fails on the page, so it is read by rules alone"
            self._fail(number, BadInputError(message, FailureCode.LAYOUT_FAILED, number))
        self.pages.append(content.page)
        box = content.drawn.box
        if max(box.width, box.height) > MAX_SIDE_PT:
            size = f"{box.width:.0f} x {box.height:.0f} pt"
            message = f"the page is {size}, more than {MAX_SIDE_PT} pt a side; its text is kept, nothing is drawn"
            self._fail(number, BadInputError(message, FailureCode.PAGE_TOO_LARGE, number))
            self.lines.extend(content.texts)
            self.found_anything = True
            return
        self._add(content, is_readable=is_readable)
        # Damage is noted last, since the page's images are decoded while its pictures are added.
        self._note_damage(content)

    def _fail(self, page: int, error: BadInputError) -> None:
        """Add a failure for a page."""
        failure = PageFailure(page, error.code, error.message)
        if failure not in self.failures:
            self.failures.append(failure)

    def _note_damage(self, content: ParsedPage) -> None:
        """Add a failure if the page lost content while it was read."""
        number = content.page.page
        is_empty = not (content.lines or content.drawn.images or content.drawn.marks)
        lost = self.document.lost_content()
        self.found_anything |= not (is_empty and lost)
        # A repaired file may lack the content of a page without a warning.
        if lost or (is_empty and self.document.is_repaired):
            why = lost[0] if lost else "it is empty after the file was repaired"
            self._fail(number, BadInputError(f"the page is damaged: {why}"[:300], FailureCode.DAMAGED, number))

    def _add(self, content: ParsedPage, *, is_readable: bool) -> None:
        """Add the pictures, the lines and the tables of a page; one whose letters are unknown is a picture, as a scan is."""
        drawn = content.drawn
        visible = [line for line, is_visible in content.lines if is_visible or content.is_scan]
        hidden = [line for line, is_visible in content.lines if not (is_visible or content.is_scan)]
        if is_readable:
            images = content.pictures if self.as_scans else [*drawn.images, *content.pictures]
            located = locate(drawn.box, images, content.marks, drawn.frames, visible)
            formulas = formula_regions(content.regions or (), located.regions, visible)
            located = replace(located, regions=(*located.regions, *formulas))
        else:
            located = Located((PictureRegion(drawn.box, Kind.SCAN),), ())
        first = len(self.placements)
        # The search gives regions in no particular order, and a placement's order is part of the document.
        regions = sorted(located.regions, key=lambda region: (region.bbox.y0, region.bbox.x0))
        placed = [self._placement(content, region, hidden, order) for order, region in enumerate(regions, first)]
        self.placements.extend(placed)
        lines = _with_their_pictures(content, placed)
        self.lines.extend(lines)
        promised = layout_tables(
            content.regions or (), located.tables, content.texts, content.marks, content.letters, content.rotation
        )
        if tables := [*located.tables, *promised]:
            self._add_tables(content, tables, lines, placed)

    def _add_tables(
        self, content: ParsedPage, tables: Sequence[Ruling], lines: Sequence[Line], placed: Sequence[Placement]
    ) -> None:
        page = content.page
        right_to_left = runs_right_to_left("".join([line.text for line in content.texts]))
        tagged = [placement.bbox for placement in placed if placement.role in TAGGED and placement.figure_id is not None]
        across = set(words_across(lines, body_size(lines)))
        for ruling in tables:
            box = ruling.bbox
            pictures = {picture.order for picture in placed if holds(box, picture.bbox) and picture.bbox.area <= box.area}
            # Without the labels of pictures in cells, and without a watermark.
            words = [line for line in lines if line.inside not in pictures and line not in across]
            try:
                with rejecting("a table can't be read", FailureCode.PAGE_UNREADABLE, page.page):
                    rotation = rotation_of([line for line in words if holds(box, line.bbox)], page.rotation)
                    grid = tabulate(ruling, words, content.letters, rotation, right_to_left=right_to_left, pictures=tagged)
            except BadInputError as error:
                self._fail(page.page, error)
            else:
                self.grids.extend([(page.page, grid)] if grid is not None else [])

    def _placement(self, content: ParsedPage, region: PictureRegion, hidden: Sequence[Line], order: int) -> Placement:
        box = (region.bbox & content.drawn.box).rounded()
        role, reason = role_of(region, content.texts, hidden)
        placement = Placement(content.page.page, order, box, None, region.kind, role, reason)
        if role is Role.BACKGROUND and self._is_template(region.image, content.drawn):
            return placement
        try:
            figure, raw_sha1 = self.collection.figure_of(region, box, role, content.drawn)
        except BadInputError as error:
            self._fail(content.page.page, error)
            return replace(placement, reason=error.message)
        if self.collection.is_blank(figure) and role in TAGGED:
            role, reason = Role.DECORATIVE, "one colour only"
        elif role is Role.CONTENT and reason != CAPTIONED and is_gradient(region.image, content.drawn):
            role, reason = role_of_gradient(box, content.page)
        return replace(placement, figure_id=figure.figure_id, raw_sha1=raw_sha1, role=role, reason=reason)

    def _is_template(self, image: Image | None, page: PdfPage) -> bool:
        """Return whether a background was on so many pages that it is a template."""
        sha1 = None if image is None else stream_sha1(page.embedded(image))
        if sha1 is None:
            return False
        self.backgrounds[sha1] += 1
        return self.backgrounds[sha1] > _TEMPLATE_PAGES


def _with_their_pictures(content: ParsedPage, placed: Sequence[Placement]) -> list[Line]:
    """Return the lines of a page, each with the picture around it: labels of drawings, hidden text behind an image."""
    pictures = [placement for placement in placed if placement.role is Role.CONTENT]
    lines: list[Line] = []
    for line, is_visible in content.lines:
        holders = [
            placement
            for placement in pictures
            if (placement.kind in (Kind.VECTOR, Kind.COMPOSITE) or not is_visible)
            and placement.bbox.has_middle_of(line.bbox)
        ]
        smallest = min(holders, key=lambda placement: placement.bbox.area, default=None)
        lines.append(line if smallest is None else line._replace(inside=smallest.order))
    return lines
