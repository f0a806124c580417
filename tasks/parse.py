"""Read what the pages of a PDF hold: lines of text, figures as drawn, tables, outline. No model runs."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from schemas.corpus import ParseOptions
from schemas.documents import (
    Figure,
    Kind,
    Line,
    OutlineEntry,
    Page,
    PageFailure,
    ParsedDocument,
    Placement,
    Role,
    TableRegion,
)
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox
from schemas.tags import escape
from tasks.locate import Image, Path, Region, locate
from tasks.render import Pixels, drawn, encode, native, turned

if TYPE_CHECKING:
    import pymupdf

PARSE_VERSION = "1"

MAX_SIDE_PT = 14_400
"""The largest page that PDF allows without user units, 200 inches. Larger ones keep their text and aren't drawn."""

_MAX_IMAGE_PIXELS = 150_000_000
_ICON_PT = 36.0
_SLIVER_PT = 4.0
_SCAN_CHARACTERS = 60
_REPEATED_PAGES, _REPEATED_SHARE = 3, 0.05
_VISIBLE_SHARE = 0.1
_MAX_PATHS = 20_000

KeepFigure = Callable[[str, bytes], None]
"""Takes a figure's name in the store (``<figure_id>.png``) and its bytes."""


def parse(
    data: bytes,
    doc_id: str,
    options: ParseOptions,
    *,
    passwords: Sequence[str] = (),
    keep_figure: KeepFigure,
    opened: Callable[[int], None] = lambda _pages: None,
) -> ParsedDocument:
    """Return what the pages of a PDF hold.

    Figures leave through ``keep_figure`` page by page, so memory is bounded by a page and not by the document. A page or
    image that can't be read is a ``PageFailure``; the rest goes on.

    Args:
        data: The PDF.
        doc_id: Its digest.
        options: Resolution and limits on pages and pixels; time and memory are the caller's to limit.
        passwords: What to try on an encrypted document.
        keep_figure: Called for each figure the first time it is seen.
        opened: Told the number of pages once the document is open.

    Raises:
        BadInputError: The document can't be read as a whole; the code says why.
    """
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    with _opened(data, passwords, options.max_pages) as document:
        opened(document.page_count)
        reader = _Reader(document, options, keep_figure)
        for number in range(document.page_count):
            reader.read(number)
        reader.report_damage()
        return ParsedDocument(
            doc_id=doc_id,
            title=_title(document),
            pages=tuple(reader.pages),
            lines=tuple(reader.lines),
            figures=tuple(reader.figures.values()),
            placements=_with_repeats(reader.placements, document.page_count),
            tables=tuple(reader.tables),
            outline=_outline(document),
            failures=tuple(reader.failures),
        )


def _opened(data: bytes, passwords: Sequence[str], max_pages: int) -> "pymupdf.Document":
    import pymupdf

    if not data:
        raise BadInputError("the file is empty", FailureCode.EMPTY_FILE)
    if b"%PDF-" not in data[:1024]:
        raise BadInputError(f"this is not a PDF; it begins with {data[:12]!r}", FailureCode.NOT_A_PDF)
    try:
        document = pymupdf.open(stream=data, filetype="pdf")
        if document.needs_pass and not any(document.authenticate(password) for password in ("", *passwords)):
            tried = f"none of the {len(passwords)} passwords given opens it" if passwords else "it needs a password"
            message = f"{tried}; set parse.passwords_env in the corpus file, then replay the quarantine"
            raise BadInputError(message, FailureCode.NEEDS_PASSWORD)
        count = document.page_count
    except (RuntimeError, ValueError, OSError) as error:
        raise BadInputError(f"it can't be opened: {_plain(error)}", FailureCode.UNREADABLE) from error
    if count == 0:
        code = FailureCode.DAMAGED if document.is_repaired else FailureCode.NO_PAGES
        raise BadInputError("it has no page" + (" that could be recovered" if document.is_repaired else ""), code)
    if count > max_pages:
        raise BadInputError(f"it has {count} pages, more than parse.max_pages ({max_pages})", FailureCode.PAGE_LIMIT)
    return document


def _raise_for_memory(error: Exception) -> None:
    """Take a failed allocation of the PDF library for what it is: this process has reached its limit."""
    if re.search(r"(malloc|calloc|realloc|out of memory|allocat)", str(error), re.IGNORECASE):
        raise MemoryError from error


def _plain(error: Exception) -> str:
    return re.sub(r"\s+", " ", re.sub(r"^code=\d+:\s*", "", str(error)))[:200]


def _title(document: "pymupdf.Document") -> str:
    title = " ".join(((document.metadata or {}).get("title") or "").split())
    looks_like_a_file = re.search(r"\.(docx?|indd|pdf|tex|dvi|pptx?|qxd)$|^(untitled|microsoft)", title, re.IGNORECASE)
    return "" if looks_like_a_file else escape(title)[:300]


def _outline(document: "pymupdf.Document") -> tuple[OutlineEntry, ...]:
    try:
        entries = document.get_toc(simple=False)
    except (RuntimeError, ValueError, AttributeError, KeyError):
        return ()
    return tuple(
        OutlineEntry(level, escape(" ".join(str(title).split())), page, _height(where))
        for level, title, page, where in entries
        if 1 <= page <= document.page_count
    )


def _height(where: Any) -> float | None:
    point = where.get("to") if isinstance(where, dict) else None
    return round(float(point.y), 1) if point is not None else None


@dataclass
class _Reader:
    """Reads a document page by page, and remembers what pages share."""

    document: "pymupdf.Document"
    options: ParseOptions
    keep_figure: KeepFigure
    pages: list[Page] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    placements: list[Placement] = field(default_factory=list)
    tables: list[TableRegion] = field(default_factory=list)
    failures: list[PageFailure] = field(default_factory=list)
    _native: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    _xrefs: dict[str, tuple[int, int]] = field(default_factory=dict)
    _seen_xrefs: set[int] = field(default_factory=set)

    def read(self, number: int) -> None:
        """Read the page with index ``number``, from 0."""
        import pymupdf

        try:
            page = self.document[number]
            rotation = page.rotation
            page.set_rotation(0)
            box = BBox(0.0, 0.0, round(page.rect.width, 2), round(page.rect.height, 2))
            lines = _lines(page, number + 1)
        except (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase) as error:
            _raise_for_memory(error)
            self._fail(number + 1, FailureCode.PAGE_UNREADABLE, f"the page can't be read: {_plain(error)}")
            self.pages.append(Page(number + 1, 0.0, 0.0, 0, 0))
            return
        self.pages.append(Page(number + 1, box.width, box.height, rotation, sum(len(line.text) for line in lines)))
        if max(box.width, box.height) > MAX_SIDE_PT:
            self._fail(number + 1, FailureCode.PAGE_TOO_LARGE, "the page is too large to draw; only its text was read")
            self.lines.extend(lines)
            return
        try:
            self._read_figures(page, number + 1, box, rotation, lines)
        except (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase) as error:
            _raise_for_memory(error)
            self._fail(number + 1, FailureCode.PAGE_UNREADABLE, f"figures of the page can't be read: {_plain(error)}")
            self.lines.extend(lines)

    def report_damage(self) -> None:
        """Note where a repair lost what pages held: silence about that would pass for an empty document."""
        lost = not any(page.characters for page in self.pages) and not self.placements
        if self.document.is_repaired and lost:
            raise BadInputError("it is damaged, and nothing of it could be recovered", FailureCode.DAMAGED)
        if self.document.is_repaired:
            empty = [page.page for page in self.pages if not page.characters and not self._pictured(page.page)]
            if empty:
                named = ", ".join(map(str, empty[:8])) + (" …" if len(empty) > 8 else "")
                self._fail(None, FailureCode.DAMAGED, f"the file is damaged; nothing was recovered of pages {named}")

    def _pictured(self, page: int) -> bool:
        return any(placement.page == page for placement in self.placements)

    def _fail(self, page: int | None, code: FailureCode, message: str) -> None:
        self.failures.append(PageFailure(page, code, message))

    def _read_figures(self, page: "pymupdf.Page", number: int, box: BBox, rotation: int, lines: list[Line]) -> None:
        images, hidden = self._images(page, number, box)
        located = locate(box, images, _paths(page), lines)
        first = len(self.placements)
        regions = sorted(located.regions, key=lambda region: (region.bbox.y0, region.bbox.x0))
        for region in regions:
            self.placements.append(self._placement(page, number, box, rotation, region, lines))
        self.placements.extend(hidden)
        self.placements[first:] = [
            replace(placement, order=first + place) for place, placement in enumerate(self.placements[first:])
        ]
        inside = [
            placement
            for placement in self.placements[first:]
            if placement.role is Role.CONTENT and placement.kind in (Kind.VECTOR, Kind.COMPOSITE)
        ]
        self.lines.extend(_marked(line, inside) for line in lines)
        self.tables.extend(_tables(page, number, located.tables))

    def _images(self, page: "pymupdf.Page", number: int, box: BBox) -> tuple[list[Image], list[Placement]]:
        """Return the images that the page shows, and as placements those that it hides."""
        images: list[Image] = []
        hidden: list[Placement] = []
        # Hashing decodes, so what claims too many pixels is found without it; then nothing of the page is hashed.
        infos = page.get_image_info()
        if all(_is_bearable(info) for info in infos):
            infos = page.get_image_info(hashes=True)
        for info in infos:
            whole = BBox(*info["bbox"])
            seen = whole & box
            if not _is_bearable(info):
                size = f"{info['width']} x {info['height']}"
                self._fail(number, FailureCode.IMAGE_REJECTED, f"an image of {size} pixels is too large to read")
                reason = "too many pixels to read"
                hidden.append(Placement(number, 0, seen.rounded(), None, Kind.RASTER, Role.BACKGROUND, reason))
                continue
            if seen.width <= 0 or seen.height <= 0 or seen.area < _VISIBLE_SHARE * whole.area:
                hidden.append(
                    Placement(number, 0, whole.rounded(), None, Kind.RASTER, Role.BACKGROUND, "outside the visible page")
                )
                continue
            a, b, c, d = info["transform"][:4]
            upright = a > 0 and d > 0 and abs(b) + abs(c) < 0.01 * (a + d) and seen.area > 0.99 * whole.area
            digest = info["digest"].hex() if "digest" in info else ""
            images.append(Image(seen, digest, info["width"], info["height"], upright and bool(digest)))
        return images, hidden

    def _placement(
        self, page: "pymupdf.Page", number: int, box: BBox, rotation: int, region: Region, lines: Sequence[Line]
    ) -> Placement:
        role, reason = _role(region, box, lines)
        made = Placement(number, 0, region.bbox.rounded(), None, region.kind, role, reason)
        image = region.image
        if role in (Role.BACKGROUND, Role.DECORATIVE):
            return made
        if image is not None and image.upright and not rotation:
            found = self._embedded(page, image)
            if found is not None:
                return replace(made, figure_id=found[0], raw_sha1=found[1])
        pixels = drawn(page, region.bbox, dpi=self.options.render_dpi, max_pixels=self.options.max_figure_pixels)
        return replace(made, figure_id=self._keep(turned(pixels, rotation)))

    def _embedded(self, page: "pymupdf.Page", image: Image) -> tuple[str, str] | None:
        """Return figure id and stream digest of an image as stored; None where it must be drawn to be seen."""
        if image.digest not in self._native:
            self._native[image.digest] = self._read_embedded(page, image)
        return self._native[image.digest]

    def _read_embedded(self, page: "pymupdf.Page", image: Image) -> tuple[str, str] | None:
        import hashlib

        xref, mask = self._find_xref(page, image) or (0, 0)
        if not xref or image.width * image.height > self.options.max_figure_pixels:
            return None
        try:
            raw = self.document.xref_stream_raw(xref) or b""
            return self._keep(native(self.document, xref, mask)), hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        except (RuntimeError, ValueError):
            return None

    def _find_xref(self, page: "pymupdf.Page", image: Image) -> tuple[int, int] | None:
        """Return the image's object and mask, by the digest of its pixels; each object of the file is looked at once."""
        import pymupdf

        if image.digest in self._xrefs:
            return self._xrefs[image.digest]
        for xref, mask, width, height, *_ in page.get_images(full=True):
            if xref in self._seen_xrefs or (width, height) != (image.width, image.height):
                continue
            self._seen_xrefs.add(xref)
            try:
                digest = pymupdf.Pixmap(self.document, xref).digest.hex()
            except (RuntimeError, ValueError):
                continue
            self._xrefs[digest] = (xref, mask)
            if digest == image.digest:
                return xref, mask
        return None

    def _keep(self, pixels: Pixels) -> str:
        figure, data = encode(pixels)
        if figure.figure_id not in self.figures:
            self.figures[figure.figure_id] = figure
            self.keep_figure(f"{figure.figure_id}.{figure.ext}", data)
        return figure.figure_id


def _is_bearable(info: dict[str, Any]) -> bool:
    return bool(info["width"] * info["height"] <= _MAX_IMAGE_PIXELS)


def _role(region: Region, page: BBox, lines: Sequence[Line]) -> tuple[Role, str]:
    box = region.bbox
    if region.kind is Kind.SCAN:
        characters = sum(len(line.text) for line in lines)
        if characters > _SCAN_CHARACTERS:
            return Role.BACKGROUND, "covers the page behind its text"
        return Role.PAGE_SCAN, "covers a page that has no text"
    if min(box.width, box.height) < _SLIVER_PT:
        return Role.DECORATIVE, "a sliver"
    if max(box.width, box.height) <= _ICON_PT:
        return Role.ICON, "small enough to stand in a line"
    return Role.CONTENT, "a picture with a caption" if region.captioned else "a picture"


def _with_repeats(placements: Sequence[Placement], pages: int) -> tuple[Placement, ...]:
    """Take for decoration what stands at the same place on many pages: logos, headers, watermarks."""

    def place(placement: Placement) -> tuple[object, ...]:
        return (placement.figure_id, *(round(value / 4) for value in placement.bbox))

    candidates = [item for item in placements if item.figure_id and item.role in (Role.CONTENT, Role.ICON)]
    on_pages = Counter(place(item) for item in {(place(item), item.page): item for item in candidates}.values())
    return tuple(
        replace(item, role=Role.DECORATIVE, reason=f"at the same place on {on_pages[place(item)]} pages")
        if item in candidates and on_pages[place(item)] > max(_REPEATED_PAGES, _REPEATED_SHARE * pages)
        else item
        for item in placements
    )


def _lines(page: "pymupdf.Page", number: int) -> list[Line]:
    import pymupdf

    flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE
    blocks = page.get_text("dict", flags=flags)["blocks"]
    return [
        made
        for place, block in enumerate(blocks)
        for line in block.get("lines", ())
        if (made := _line(line, number, place)) is not None
    ]


def _line(line: dict[str, Any], page: int, block: int) -> Line | None:
    spans = line["spans"]
    text = escape("".join(span["text"] for span in spans).strip())
    if not text:
        return None
    sizes: Counter[float] = Counter()
    bold = 0
    for span in spans:
        sizes[round(span["size"], 1)] += len(span["text"])
        bold += len(span["text"]) * (bool(span["flags"] & 16) or "Bold" in span["font"])
    total = sum(sizes.values())
    return Line(page, block, BBox(*line["bbox"]).rounded(), text, sizes.most_common(1)[0][0], 2 * bold > total)


def _marked(line: Line, placements: Iterable[Placement]) -> Line:
    x, y = (line.bbox.x0 + line.bbox.x1) / 2, (line.bbox.y0 + line.bbox.y1) / 2
    for placement in placements:
        box = placement.bbox
        if box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1:
            return replace(line, inside=placement.order)
    return line


def _paths(page: "pymupdf.Page") -> list[Path]:
    found: list[Path] = []
    for drawing in page.get_cdrawings()[:_MAX_PATHS]:
        x0, y0, x1, y1 = drawing["rect"]
        box = BBox(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        strokes = sum(_is_stroke(item) for item in drawing["items"])
        parts = max(1, sum(item[0] in ("re", "qu") for item in drawing["items"]))
        fill, color = drawing.get("fill"), drawing.get("color")
        white = color is None and fill is not None and min(fill) > 0.97
        found.append(Path(box, strokes, parts, white))
    return found


def _is_stroke(item: Any) -> bool:
    kind: str = item[0]
    if kind == "l":
        (ax, ay), (bx, by) = item[1], item[2]
        slanted: bool = abs(ax - bx) > 0.5 and abs(ay - by) > 0.5
        return slanted
    return kind == "c"


def _tables(page: "pymupdf.Page", number: int, places: Sequence[BBox]) -> list[TableRegion]:
    """Read the cells of what looks like a table; the finder runs on those places alone, and without its model."""
    import pymupdf

    tables: list[TableRegion] = []
    for place in places:
        clip = pymupdf.Rect(place.grown(2))
        for table in page.find_tables(clip=clip, strategy="lines", use_layout=False).tables:
            rows = tuple(tuple(escape(" ".join((cell or "").split())) for cell in row) for row in table.extract())
            if len(rows) >= 2 and max(map(len, rows)) >= 2:
                tables.append(TableRegion(number, BBox(*table.bbox).rounded(), rows))
    return tables
