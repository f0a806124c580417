"""Read what the pages of a PDF hold: lines, figures and where they stand, tables, the outline. No model runs."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from schemas.corpus import ParseOptions
from schemas.documents import (
    TAGGED,
    Figure,
    Kind,
    Line,
    Page,
    PageFailure,
    ParsedDocument,
    Placement,
    Role,
    TableRegion,
)
from schemas.drawings import Image, Ruling
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox
from schemas.tags import escape, placeholder
from tasks.figures.locate import locate
from tasks.figures.parts import Region
from tasks.figures.render import (
    as_read,
    drawn,
    encode,
    is_blank,
    is_slanted,
    native,
    scaled,
    stands_as_stored,
    stream_of,
    turned,
)
from tasks.reading.bidi import runs_leftward
from tasks.reading.read import MAX_SIDE_PT, Content, forget, open_document, read_outline, read_page, refusing, warnings
from tasks.tables.tabulate import Grid, holds, tabulate

if TYPE_CHECKING:
    import pymupdf

PARSE_VERSION = "11"

KeepFigure = Callable[[str, bytes], None]
"""Takes a figure's name in the store (``<figure_id>.png``) and its bytes."""

_FORGET_EVERY = 16
_SMALL_PT = 20.0
_SPECK_PT = 4.0
_SCAN_WORDS = 30
_REPEATED_PAGES = 3
_REPEATED_SHARE = 0.05
_SAME_PLACE_PT = 4.0
_EDGE_SHARE = 0.1
_SPELLED_SHARE = 0.5
_ORNAMENT_SHARE = 0.02
_HEAD_SHARE = 0.2
_LOGO_SHARE = 0.03
_LABEL_CHARACTERS = 100
_CAPTIONED = "has a caption"


def parse(
    data: bytes,
    doc_id: str,
    options: ParseOptions,
    *,
    passwords: Sequence[str] = (),
    keep_figure: KeepFigure | None,
    opened: Callable[[int], None] = lambda _pages: None,
) -> ParsedDocument:
    """Read one PDF.

    A page, an image or a table that can't be read becomes a ``PageFailure``; the rest goes on.

    Args:
        data: The file.
        doc_id: Its digest.
        options: Resolution and size of figures, and how many pages there may be. Time and memory are the caller's to bound.
        passwords: Tried in order where the file asks for one.
        keep_figure: Given each figure once, as soon as its page is read, so that memory holds the pixels of one page. None
            leaves the pixels alone: placements then have a place and a role, but no figure.
        opened: Told the number of pages once the document is open.

    Raises:
        BadInputError: Nothing of the document can be read.
    """
    document = open_document(data, passwords)
    if document.page_count > options.max_pages:
        raise BadInputError(
            f"the document has {document.page_count} pages, more than parse.max_pages = {options.max_pages}",
            FailureCode.PAGE_LIMIT,
        )
    opened(document.page_count)
    reading = _Reading(options, _Pixels(options, keep_figure) if keep_figure is not None else None)
    for number in range(1, document.page_count + 1):
        reading.read(document, number)
        if number % _FORGET_EVERY == 0:
            forget()
    if not reading.found_anything and reading.failures:
        first = reading.failures[0]
        raise BadInputError(f"the file is damaged and nothing of it can be read: {first.message}", FailureCode.DAMAGED)
    placements = _without_logos(_without_repeats(reading.placements, reading.pages), reading.pages, reading.lines)
    kept = {placement.figure_id for placement in placements}
    return ParsedDocument(
        doc_id=doc_id,
        title=_title(document, reading.lines),
        pages=tuple(reading.pages),
        lines=tuple(reading.lines),
        figures=tuple(figure for figure in reading.figures if figure.figure_id in kept),
        placements=tuple(placements),
        tables=tuple(_filled(page, grid, placements) for page, grid in reading.grids),
        outline=tuple(read_outline(document, reading.pages)),
        failures=tuple(reading.failures),
    )


class _Pixels:
    """The pixels of figures: each image is decoded once a document, each figure kept once."""

    def __init__(self, options: ParseOptions, keep_figure: KeepFigure) -> None:
        self.figures: dict[str, Figure] = {}
        self._options = options
        self._keep_figure = keep_figure
        self._blank: set[str] = set()
        # Images that the document draws again are the same object while MuPDF's handle is held.
        self._seen: dict[tuple[int, bool, int], tuple[Any, Figure | BadInputError, str | None]] = {}

    def image(self, image: Image, handle: Any, *, rotation: int, upright: bool) -> tuple[Figure, str | None]:
        """Return the figure of exactly one image, and the digest of its embedded stream.

        Args:
            image: Where and how it is drawn.
            handle: MuPDF's image.
            rotation: The page's.
            upright: Turn the pixels to how the page shows them, whatever is stored.

        Raises:
            BadInputError: It is too large, lies about its size, or can't be decoded.
        """
        plain = stands_as_stored(image.matrix, rotation) and not upright
        turn = (image.matrix, rotation)
        cached = (handle.m_internal_value(), plain, 0 if plain else hash(_signs(turn)))
        if cached not in self._seen:
            self._seen[cached] = handle, *self._read(handle, None if plain else turn)
        _, figure, raw_sha1 = self._seen[cached]
        if isinstance(figure, BadInputError):
            raise figure
        return figure, raw_sha1

    def _read(
        self, handle: Any, turn: tuple[tuple[float, float, float, float], int] | None
    ) -> tuple[Figure | BadInputError, str | None]:
        try:
            pixels = native(handle)
        except BadInputError as error:
            return error, None
        if turn is not None:
            seen = as_read(pixels, *turn)
            pixels = pixels if seen is None else seen
        stream = stream_of(handle)
        return (
            self._keep(scaled(pixels, self._options.max_figure_pixels)),
            None if stream is None else hashlib.sha1(stream, usedforsecurity=False).hexdigest(),
        )

    def drawn(self, content: Content, box: BBox) -> Figure:
        """Return the figure of a part of a page, as its reader sees it.

        Raises:
            BadInputError: It can't be drawn.
        """
        most = self._options.max_figure_pixels
        pixels = drawn(content.listing, box, dpi=self._options.render_dpi, max_pixels=most)
        return self._keep(turned(pixels, content.page.rotation))

    def is_blank(self, figure: Figure) -> bool:
        """Say whether a figure has one colour only."""
        return figure.figure_id in self._blank

    def _keep(self, pixels: Any) -> Figure:
        figure, data = encode(pixels)
        if figure.figure_id not in self.figures:
            self.figures[figure.figure_id] = figure
            self._keep_figure(f"{figure.figure_id}.{figure.ext}", data)
            if is_blank(pixels):
                self._blank.add(figure.figure_id)
        return figure


def _signs(turn: tuple[tuple[float, float, float, float], int]) -> tuple[int, ...]:
    matrix, rotation = turn
    largest = max(map(abs, matrix))
    return (*(0 if abs(value) <= 0.01 * largest else 1 if value > 0 else -1 for value in matrix), rotation)


@dataclass
class _Reading:
    """What was read so far."""

    options: ParseOptions
    pixels: _Pixels | None
    pages: list[Page] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    grids: list[tuple[int, Grid]] = field(default_factory=list)
    failures: list[PageFailure] = field(default_factory=list)
    grounds: Counter[str] = field(default_factory=Counter)
    found_anything: bool = False

    @property
    def figures(self) -> list[Figure]:
        """Every figure that was kept."""
        return [] if self.pixels is None else list(self.pixels.figures.values())

    def read(self, document: "pymupdf.Document", number: int) -> None:
        """Add one page."""
        warnings()
        try:
            content = read_page(document, number)
        except BadInputError as error:
            self.pages.append(Page(number, 0.0, 0.0, 0, 0))
            self.fail(number, error)
            return
        self.pages.append(content.page)
        blank = not (content.lines or content.images or content.marks)
        if max(content.box.width, content.box.height) > MAX_SIDE_PT:
            size = f"{content.box.width:.0f} x {content.box.height:.0f} pt"
            message = f"page {number} is {size}, more than {MAX_SIDE_PT} pt a side; its text is kept, nothing is drawn"
            self.fail(number, BadInputError(message, FailureCode.PAGE_TOO_LARGE, number))
            self.lines.extend(content.lines)
            self.found_anything = True
            return
        self._picture(content)
        complaints = warnings()
        self.found_anything |= not (blank and complaints)
        if complaints or (blank and document.is_repaired):
            why = complaints[0] if complaints else "it is empty after the file was repaired"
            self.fail(number, BadInputError(f"page {number} is damaged: {why}"[:300], FailureCode.DAMAGED, number))

    def fail(self, page: int, error: BadInputError) -> None:
        """Note that something of a page could not be read."""
        failure = PageFailure(page, error.code, error.message)
        if failure not in self.failures:
            self.failures.append(failure)

    def _picture(self, content: Content) -> None:
        shown, hidden = content.parted()
        located = locate(content.box, content.images, content.marks, content.frames, shown)
        placed: list[Placement] = []
        for region in sorted(located.regions, key=lambda region: (region.bbox.y0, region.bbox.x0)):
            placed.append(self._placement(content, region, hidden, len(self.placements) + len(placed)))
        self.placements.extend(placed)
        lines = _inner(content, placed)
        self.lines.extend(lines)
        if located.tables:
            self._read_tables(content, located.tables, _words_of(located.tables, lines, placed), placed)

    def _read_tables(
        self, content: Content, tables: Sequence[Ruling], written: Sequence[Sequence[Line]], placed: Sequence[Placement]
    ) -> None:
        page = content.page
        leftward = runs_leftward("".join([line.text for line in content.lines]))
        tagged = [placement.bbox for placement in placed if placement.role in TAGGED and placement.figure_id is not None]
        for ruling, lines in zip(tables, written, strict=True):
            try:
                with refusing(f"a table of page {page.page} can't be read", FailureCode.PAGE_UNREADABLE, page.page):
                    grid = tabulate(
                        ruling, lines, content.letters_of, page.rotation, right_to_left=leftward, pictures=tagged
                    )
            except BadInputError as error:
                self.fail(page.page, error)
            else:
                self.grids.extend([(page.page, grid)] if grid is not None else [])

    def _placement(self, content: Content, region: Region, hidden: Sequence[Line], order: int) -> Placement:
        box = (region.bbox & content.box).rounded()
        role, reason = _role(region, content.lines, hidden)
        placement = Placement(content.page.page, order, box, None, region.kind, role, reason)
        if self.pixels is None:
            return placement
        if role is Role.BACKGROUND and self._is_template(content, region):
            return placement
        try:
            figure, raw_sha1 = _figure(self.pixels, content, region, box, role)
        except BadInputError as error:
            self.fail(content.page.page, error)
            return replace(placement, reason=error.message)
        if self.pixels.is_blank(figure) and role in TAGGED:
            role, reason = Role.DECORATIVE, "one colour only"
        elif role is Role.CONTENT and reason != _CAPTIONED and _is_gradient(region, content):
            small = _is_small(box, content.page) and min(box.width, box.height) > _SMALL_PT
            role, reason = Role.ICON if small else Role.DECORATIVE, "a gradient by itself"
        return replace(placement, figure_id=figure.figure_id, raw_sha1=raw_sha1, role=role, reason=reason)

    def _is_template(self, content: Content, region: Region) -> bool:
        """Say whether what lies behind a page's text has been behind so many that it holds no figure of theirs."""
        stream = None if region.image is None else stream_of(content.handles[region.image.number])
        if stream is None:
            return False
        digest = hashlib.sha1(stream, usedforsecurity=False).hexdigest()
        self.grounds[digest] += 1
        return self.grounds[digest] > _REPEATED_PAGES


def _figure(pixels: _Pixels, content: Content, region: Region, box: BBox, role: Role) -> tuple[Figure, str | None]:
    image = region.image
    rotation = content.page.rotation
    # What lies behind text is kept as the page shows it: what is cut out of it has the words that stand on it.
    if role is Role.BACKGROUND or image is None or image.cut or image.stencil or is_slanted(image.matrix):
        return pixels.drawn(content, box), None
    handle = content.handles[image.number]
    return pixels.image(image, handle, rotation=rotation, upright=region.kind is Kind.SCAN)


def _is_gradient(region: Region, content: Content) -> bool:
    """Say whether a picture is nothing but an area filled with a gradient: a rule, a band, an ornament, a letter.

    MuPDF gives those as images of a pixel a point, which the document holds no bytes of.
    """
    image = region.image
    if image is None or image.matrix != (image.width, 0, 0, image.height):
        return False
    return stream_of(content.handles[image.number]) is None


def _role(region: Region, lines: Sequence[Line], hidden: Sequence[Line]) -> tuple[Role, str]:
    """Say what a picture is to a reader of its page; ``hidden`` are the lines that aren't drawn."""
    if region.kind is Kind.SCAN:
        words = sum(len(line.text.split()) for line in lines)
        if words >= _SCAN_WORDS:
            return Role.BACKGROUND, f"covers the page, which has {words} words of text"
        return Role.PAGE_SCAN, "covers the page, which has next to no text"
    box = region.bbox
    if min(box.width, box.height) < _SPECK_PT:
        return Role.DECORATIVE, "thinner than a letter"
    if region.background:
        return Role.DECORATIVE, "a ground for words"
    if not region.captioned and _spells(box, hidden):
        return Role.DECORATIVE, "words set as a picture, which the page holds as text too"
    if region.inline:
        return Role.ICON, "stands in a line of text"
    if max(box.width, box.height) <= _SMALL_PT and not region.captioned:
        return Role.ICON, f"at most {_SMALL_PT:.0f} pt"
    return Role.CONTENT, _CAPTIONED if region.captioned else "stands by itself"


def _spells(box: BBox, hidden: Sequence[Line]) -> bool:
    """Say whether a picture is that of the words behind it: a heading in letters that could not be embedded."""
    # A line may be one of several such pictures beside each other.
    behind = sum((box & line.bbox).area for line in hidden if box.y0 <= (line.bbox.y0 + line.bbox.y1) / 2 <= box.y1)
    return behind >= _SPELLED_SHARE * box.area


def _inner(content: Content, placed: Sequence[Placement]) -> list[Line]:
    """Say of each line in whose picture it stands: labels of drawings, and hidden text behind an image."""
    pictures = [placement for placement in placed if placement.role is Role.CONTENT]
    if not pictures:
        return list(content.lines)
    lines: list[Line] = []
    for line, visible in zip(content.lines, content.shown, strict=True):
        holders = [
            placement
            for placement in pictures
            if (placement.kind in (Kind.VECTOR, Kind.COMPOSITE) or not visible) and placement.bbox.has_middle_of(line.bbox)
        ]
        smallest = min(holders, key=lambda placement: placement.bbox.area, default=None)
        lines.append(line if smallest is None else line._replace(inside=smallest.order))
    return lines


def _without_repeats(placements: Sequence[Placement], pages: Sequence[Page]) -> list[Placement]:
    """Take pictures that stand on many pages for what they are: logos, bands, page furniture, ornaments.

    What has the same place on them is no content; at the edge of a page of another size, or of a turned one, neither. The
    band over or under the text may have another chapter's name or number on each. What is small, of one size and has no
    caption is an icon wherever it stands: a quotation mark, a sign of warning.
    """
    sheets = {page.page: page for page in pages}
    places: dict[str, dict[tuple[int, ...], set[int]]] = {}
    sizes: dict[tuple[str, int, int], set[int]] = {}
    bands: dict[tuple[int, ...], set[int]] = {}
    for placement in placements:
        if placement.figure_id is not None:
            places.setdefault(placement.figure_id, {}).setdefault(_place(placement.bbox), set()).add(placement.page)
            sizes.setdefault(_size(placement), set()).add(placement.page)
        if _is_band(placement, sheets[placement.page]):
            bands.setdefault(_place(placement.bbox), set()).add(placement.page)
    least = max(_REPEATED_PAGES, _REPEATED_SHARE * len(pages))
    decided: list[Placement] = []
    for placement in placements:
        page = sheets[placement.page]
        own = places.get(placement.figure_id or "", {})
        most = max(map(len, own.values()), default=0)
        if len(on := own.get(_place(placement.bbox), set())) > least:
            role = Role.BACKGROUND if placement.kind is Kind.SCAN else Role.DECORATIVE
            placement = replace(placement, role=role, reason=f"at the same place of {len(on)} pages")  # noqa: PLW2901
        elif most > least and _is_at_edge(placement.bbox, page):
            reason = f"at the edge, as on {most} other pages"
            placement = replace(placement, role=Role.DECORATIVE, reason=reason)  # noqa: PLW2901
        elif _is_band(placement, page) and len(on := bands[_place(placement.bbox)]) > least:
            reason = f"at the edge of {len(on)} pages, one like the other"
            placement = replace(placement, role=Role.DECORATIVE, reason=reason)  # noqa: PLW2901
        elif _is_ornament(placement, page) and len(on := sizes.get(_size(placement), set())) > least:
            role = Role.DECORATIVE if _is_at_edge(placement.bbox, page) else Role.ICON
            placement = replace(placement, role=role, reason=f"small, and on {len(on)} pages")  # noqa: PLW2901
        decided.append(placement)
    return decided


def _size(placement: Placement) -> tuple[str, int, int]:
    box = placement.bbox
    return placement.figure_id or "", round(box.width / _SAME_PLACE_PT), round(box.height / _SAME_PLACE_PT)


def _is_band(placement: Placement, page: Page) -> bool:
    """Say whether a picture stands where pages have their running head and foot."""
    box, margin = placement.bbox, _EDGE_SHARE * page.height_pt
    outside = box.y1 <= margin or box.y0 >= page.height_pt - margin
    return outside and placement.role is Role.CONTENT and placement.reason != _CAPTIONED


def _without_logos(placements: Sequence[Placement], pages: Sequence[Page], lines: Sequence[Line]) -> list[Placement]:
    """Take the tag off what is small and stands over the title of a first page, as in a letterhead: figures come after it.

    A stamp may be larger than the title, and over everything; what stands in the margin is none of the text's figures either.
    """
    words = [line for line in lines if line.page == 1 and line.inside is None]
    if len(pages) < 2 or not words:
        return list(placements)
    largest = max(line.size for line in words)
    title = min(line.bbox.y0 for line in words if line.size > largest - 0.5)
    lowest, area = min(title, _HEAD_SHARE * pages[0].height_pt), _LOGO_SHARE * pages[0].width_pt * pages[0].height_pt
    return [
        replace(placement, role=Role.DECORATIVE, reason="over the title of the first page, or in its margin")
        if placement.page == 1
        and placement.role is Role.CONTENT
        and placement.reason != _CAPTIONED
        and (placement.bbox.y1 <= lowest or _is_at_edge(placement.bbox, pages[0]))
        and placement.bbox.area <= area
        else placement
        for placement in placements
    ]


def _is_ornament(placement: Placement, page: Page) -> bool:
    return placement.role is Role.CONTENT and placement.reason != _CAPTIONED and _is_small(placement.bbox, page)


def _is_small(box: BBox, page: Page) -> bool:
    return box.area <= _ORNAMENT_SHARE * page.width_pt * page.height_pt


def _is_at_edge(box: BBox, page: Page) -> bool:
    across, down = _EDGE_SHARE * page.width_pt, _EDGE_SHARE * page.height_pt
    inner = BBox(across, down, page.width_pt - across, page.height_pt - down)
    return (box & inner).area == 0


def _place(box: BBox) -> tuple[int, ...]:
    return tuple(round(side / _SAME_PLACE_PT) for side in box)


def _words_of(tables: Sequence[Ruling], lines: Sequence[Line], placed: Sequence[Placement]) -> list[list[Line]]:
    """Return the lines of a page that may be each table's: labels inside a picture in one of its cells are the picture's.

    Words too many to be labels are the cell's: they stand on a background that is taken for a picture.
    """
    written: Counter[int | None] = Counter()
    for line in lines:
        written[line.inside] += len(line.text)
    labelled = [place for place in placed if written[place.order] <= _LABEL_CHARACTERS]
    found: list[list[Line]] = []
    for table in tables:
        inner = {place.order for place in labelled if holds(table.bbox, place.bbox) and not holds(place.bbox, table.bbox)}
        found.append([line for line in lines if line.inside not in inner])
    return found


def _filled(page: int, grid: Grid, placements: Sequence[Placement]) -> TableRegion:
    """Write placeholders into the cells that hold a tagged picture."""
    rows = [list(row) for row in grid.rows]
    for placement in placements:
        if placement.page != page or placement.role not in TAGGED or placement.figure_id is None:
            continue
        holders = (
            (row, column)
            for row, boxes in zip(rows, grid.boxes, strict=True)
            for column, box in enumerate(boxes)
            if box is not None and box.has_middle_of(placement.bbox)
        )
        holder = next(holders, None)  # a picture may stand in the middle of two
        if holder is not None:
            row, column = holder
            row[column] = f"{row[column]} {placeholder(placement.figure_id)}".strip()
    return TableRegion(page, grid.bbox, tuple(map(tuple, rows)))


def _title(document: "pymupdf.Document", lines: Sequence[Line]) -> str:
    """Return the title that the PDF names, or else the largest words of its first page."""
    named = str((document.metadata or {}).get("title") or "").strip()
    if len(named) > 3 and not named.lower().startswith(("untitled", "microsoft word")):
        return escape(named)
    first = [line for line in lines if line.page == 1 and line.inside is None and len(line.text.strip()) > 2]
    if not first:
        return ""
    largest = max(line.size for line in first)
    return " ".join(line.text.strip() for line in first if line.size > largest - 0.5)[:200]
