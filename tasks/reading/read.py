"""Read a PDF from its bytes: open it, and take what a page draws. The one module that speaks to MuPDF about content."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.documents import Line, OutlineEntry, Page
from schemas.drawings import Image, LettersOf, Mark
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox, gap, is_level, turned, union
from schemas.tags import escape
from tasks.figures.marks import marks_of
from tasks.reading.bidi import as_spoken, runs_leftward

if TYPE_CHECKING:
    import pymupdf

MAX_SIDE_PT = 14_400
"""The largest page that PDF allows without user units: 200 inches. A larger one keeps its text and is never drawn."""

_HEADER_WITHIN = 1024
_FAR_PT = -1e9
_SURROGATE = re.compile("[\ud800-\udfff]")
_BOLD = 16
_STENCIL_PX = 8
_SIZE_SHARE = 0.85
_OVERHANG = 0.35
_SAME_SHARE = 0.9
_LEADING = 0.4
_BLANK = 0.4
_GUTTER = 3.0
_SEEN_SHARE = 0.1
_SLIVER_PT = 12.0
"""Least side of a small share of an image that a clip shows: it may be a symbol of 32 pt of a row of ten."""
_SHOWN = 16 | 32
_LOST = (
    "zlib error",
    "read error",
    "page may not be correct",
    "syntax error in content stream",
    "non-page object in page tree",
    "cannot load object",
    "cannot find object",
    "premature end of data",
    "cycle in page tree",
)


@dataclass(frozen=True, slots=True)
class Content:
    """What a page holds.

    ``handles`` are MuPDF's images, by ``Image.number``; ``shown`` is False for lines that are not drawn; ``letters_of`` tells
    where the letters of a line stand.
    """

    page: Page
    box: BBox
    lines: tuple[Line, ...]
    shown: tuple[bool, ...]
    images: tuple[Image, ...]
    handles: tuple[Any, ...]
    marks: tuple[Mark, ...]
    frames: tuple[BBox, ...]
    listing: Any
    letters_of: LettersOf

    def parted(self) -> tuple[list[Line], list[Line]]:
        """Return the lines that are drawn, and those that are not."""
        marked = list(zip(self.lines, self.shown, strict=True))
        return [line for line, shown in marked if shown], [line for line, shown in marked if not shown]


def open_document(data: bytes, passwords: Sequence[str] = ()) -> "pymupdf.Document":
    """Open a PDF.

    Args:
        data: The file.
        passwords: Tried in order where the file asks for one.

    Raises:
        BadInputError: It is empty, no PDF, asks for a password that isn't among those given, has no pages, or is too
            damaged to be opened.
    """
    import pymupdf

    if not data:
        raise BadInputError("the file is empty", FailureCode.EMPTY_FILE)
    if b"%PDF-" not in data[:_HEADER_WITHIN]:
        raise BadInputError("the file is no PDF: it has no %PDF header", FailureCode.NOT_A_PDF)
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    pymupdf.TOOLS.mupdf_warnings(True)
    with refusing("the file can't be opened", FailureCode.UNREADABLE):
        document = pymupdf.open(stream=data, filetype="pdf")
        if document.needs_pass and not any(document.authenticate(password) for password in passwords):
            raise BadInputError("the file needs a password; none of those given opens it", FailureCode.NEEDS_PASSWORD)
        pages = document.page_count
    if pages == 0:
        damaged = document.is_repaired or bool(warnings())
        code, why = (
            (FailureCode.UNREADABLE, "no page could be found") if damaged else (FailureCode.NO_PAGES, "it has no pages")
        )
        raise BadInputError(f"the file can't be read: {why}", code)
    return document


@contextmanager
def refusing(what: str, code: FailureCode, page: int | None = None) -> Iterator[None]:
    """Turn whatever PyMuPDF raises on a bad file into one error.

    Args:
        what: Says what can't be done; the cause is put behind it.
        code: The failure's code.
        page: Where.

    Raises:
        BadInputError: The work inside failed.
        MemoryError: It failed for want of memory.
    """
    from pymupdf import mupdf

    try:
        yield
    # MuPDF's own errors share no base with Python's.
    except (
        mupdf.FzErrorBase,
        RuntimeError,
        ValueError,
        AssertionError,
        OSError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0][:200]
        if "alloc" in cause:
            raise MemoryError(cause) from error
        raise BadInputError(f"{what}: {cause}", code, page) from error


def forget() -> None:
    """Let MuPDF drop most of what it keeps of earlier pages: memory is bounded by pages, not by the document."""
    import pymupdf

    pymupdf.TOOLS.store_shrink(60)


def warnings() -> list[str]:
    """Return MuPDF's complaints since the last call that mean lost content; each once."""
    import pymupdf

    complaints = pymupdf.TOOLS.mupdf_warnings(True).splitlines()
    return list(dict.fromkeys(line for line in complaints if any(sign in line for sign in _LOST)))


def read_page(document: "pymupdf.Document", number: int) -> Content:
    """Read one page.

    Args:
        document: The open PDF.
        number: From 1.

    Raises:
        BadInputError: MuPDF can't read the page.
        MemoryError: It would take more memory than there is.
    """
    with refusing(f"page {number} can't be read", FailureCode.PAGE_UNREADABLE, number):
        page = document[number - 1]
        rotation = int(page.rotation)
        if rotation:
            page.set_rotation(0)
        rect = page.rect
        box = BBox(0.0, 0.0, float(rect.width), float(rect.height))
        listing = page.get_displaylist()
        text = _text_of(listing)
        pictures, others = _parted(text)
        images = list(_images(pictures, box))
        _set_off(pictures)
        letters = _Letters(listing)
        lines = list(_lines(text, number, others))
        words = [line.text for line, _ in lines]
        if not "".join(words).isascii() and any(map(runs_leftward, words)):
            lines = list(_as_spoken(lines, letters))
        if any(_is_stencil(handle) for _, handle in images):
            spelled = _spelled(listing, [image for image, _ in images], number)
            lines += [
                (line, False) for line in spelled if not any(line.bbox.has_middle_of(other.bbox) for other, _ in lines)
            ]
            lines.sort(key=lambda marked: marked[0].block)
        drawn = page.get_cdrawings(extended=True) if max(box.width, box.height) <= MAX_SIDE_PT else []
    marks, frames = marks_of(drawn, box)
    return Content(
        page=Page(number, box.width, box.height, rotation, sum([len(line.text.strip()) for line, _ in lines])),
        box=box,
        lines=tuple([line for line, _ in lines]),
        shown=tuple([shown for _, shown in lines]),
        images=tuple(image for image, _ in images),
        handles=tuple(handle for _, handle in images),
        marks=marks,
        frames=frames,
        listing=listing,
        letters_of=letters,
    )


class _Letters:
    """Where the letters of a page's lines stand. They are read when first asked for: few lines need it, and all take long."""

    def __init__(self, listing: "pymupdf.DisplayList") -> None:
        self._listing = listing

    def __call__(self, line: Line) -> tuple[str, Sequence[Sequence[float]]]:
        """Return a line's letters with their boxes; where MuPDF tells none, as of words that stand for images, they are even."""
        found = self._found.get((line.bbox, line.text))
        if found is not None:
            return found.text, found.boxes
        x0, y0, x1, y1 = line.bbox
        step = (x1 - x0) / max(1, len(line.text))
        return line.text, [(x0 + step * place, y0, x0 + step * (place + 1), y1) for place in range(len(line.text))]

    def direction(self, line: Line) -> tuple[int, int] | None:
        """Return which way a line is written, as ``(1, 0)`` for a level one; None where that is along no side of the page."""
        found = self._found.get((line.bbox, line.text))
        return None if found is None else found.direction

    @cached_property
    def _found(self) -> dict[tuple[BBox, str], "_Written"]:
        found: dict[tuple[BBox, str], _Written] = {}
        page = _text_of(self._listing)
        _set_off(_parted(page)[0])
        try:
            blocks = page.extractRAWDICT()["blocks"]
        except SystemError:  # PyMuPDF fails on a letter beyond Unicode's last, which a broken font may name
            return found
        for block in blocks:
            for row in block["lines"]:
                letters = [letter for span in row["spans"] for letter in span["chars"]]
                text = _SURROGATE.sub("\ufffd", "".join([letter["c"] for letter in letters]))
                across, down = (round(part, 2) for part in row["dir"])
                level = (int(across), int(down)) if abs(across) + abs(down) == 1 else None
                written = _Written(text, [letter["bbox"] for letter in letters], level)
                found[BBox(*row["bbox"]).rounded(), escape(text)] = written
        return found

    def parted(self, line: Line) -> list[Line]:
        """Return the pieces of a line between whose letters a column's gap lies: MuPDF goes on from right to left over any."""
        level = self.direction(line)
        text, boxes = self(line)
        if level is None or len(boxes) != len(text):
            return [line]
        back, places = (level[0], -level[1]), [turned(box, level) for box in boxes]
        order = sorted((at for at, letter in enumerate(text) if not letter.isspace()), key=lambda at: places[at].x0)
        ends = [
            at for at, (one, two) in enumerate(pairwise(order), 1) if places[two].x0 - places[one].x1 > _GUTTER * line.size
        ]
        pieces: list[Line] = []
        for start, end in pairwise([0, *ends, len(order)]):
            reach = union(places[at] for at in order[start:end])
            own = [at for at, place in enumerate(places) if reach.x0 <= (place.x0 + place.x1) / 2 <= reach.x1]
            words = "".join(text[at] for at in own)
            box = turned(union(places[at] for at in own), back).rounded()
            pieces.append(line._replace(bbox=box, text=escape(words)))
            self._found[box, escape(words)] = _Written(words, [boxes[at] for at in own], level)
        return pieces if len(pieces) > 1 else [line]

    def spoken(self, row: Sequence[Line]) -> Line:
        """Return a row that runs from right to left as one line, its letters as they are spoken."""
        level = self.direction(row[0])
        if level is None:
            return row[0]
        told = [self(line) for line in row]
        level_boxes = [turned(box, level) for _, boxes in told for box in boxes]
        text, boxes = as_spoken("".join([text for text, _ in told]), level_boxes)
        main = max(row, key=lambda line: len(line.text))
        line = main._replace(block=row[0].block, bbox=union(line.bbox for line in row), text=escape(text))
        back = level[0], -level[1]
        self._found[line.bbox, line.text] = _Written(text, [turned(box, back) for box in boxes], level)
        return line


class _Written(NamedTuple):
    """A line's letters and their boxes, and which way they are written; None where that is along no side of the page."""

    text: str
    boxes: Sequence[Sequence[float]]
    direction: tuple[int, int] | None


def _as_spoken(lines: Sequence[tuple[Line, bool]], letters: _Letters) -> Iterator[tuple[Line, bool]]:
    """Yield lines, those that run from right to left with their letters as they are spoken, and a paragraph's in one block.

    MuPDF begins a new line, or a new block, where the pen goes back to the right.
    """
    before: Line | None = None
    pieces = [
        (piece, shown) for line, shown in lines for piece in (letters.parted(line) if runs_leftward(line.text) else [line])
    ]
    for row in _rows(pieces, letters):
        if not runs_leftward("".join([line.text for line, _ in row])):
            before = None
            yield from row
            continue
        line = letters.spoken([line for line, _ in row])
        if before is not None and _goes_on(before, line):
            line = line._replace(block=before.block)
        before = line
        yield line, row[0][1]


def _rows(lines: Sequence[tuple[Line, bool]], letters: _Letters) -> Iterator[list[tuple[Line, bool]]]:
    """Yield what stands beside each other with no more than a blank between."""
    row: list[tuple[Line, bool]] = []
    for line, shown in lines:
        level = letters.direction(line)
        if row and not (
            shown == row[0][1]
            and level is not None
            and level == letters.direction(row[0][0])
            and any(_touches(line, other, level) for other, _ in row)
        ):
            yield row
            row = []
        row.append((line, shown))
    if row:
        yield row


def _touches(one: Line, other: Line, direction: tuple[int, int]) -> bool:
    """Say whether two pieces of text stand on one row, a blank apart at most."""
    left, right = turned(one.bbox, direction), turned(other.bbox, direction)
    apart = gap(left.x0, left.x1, right.x0, right.x1)
    return is_level(left, right) and abs(apart) <= _BLANK * max(one.size, other.size)


def _goes_on(before: Line, line: Line) -> bool:
    """Say whether a leftward line stands right under the one before, both beginning at one edge, in letters of one size."""
    down = line.bbox.y0 - before.bbox.y1
    near = -0.5 * line.size <= down <= _LEADING * line.size and abs(line.bbox.x1 - before.bbox.x1) <= line.size
    return near and abs(line.size - before.size) <= 0.3 and line.bold == before.bold


def read_outline(document: "pymupdf.Document", pages: Sequence[Page]) -> list[OutlineEntry]:
    """Return the PDF's own outline; [] where it has none, or a broken one.

    Args:
        document: The open PDF.
        pages: All of its pages, as read.
    """
    outline: list[OutlineEntry] = []
    try:
        with refusing("the outline can't be read", FailureCode.DAMAGED):
            # PyMuPDF's own list takes a hundred times as long, and counts the heights of named destinations from below.
            for level, item in _items(document.this.fz_load_outline(), 1):
                title, number, down = " ".join((item.title() or "").split()), item.page().page, item.m_internal.y
                if title and 0 <= number < len(pages):
                    page = pages[number]
                    height = round(down, 2) if page.rotation == 0 and 0 <= down <= page.height_pt else None
                    outline.append(OutlineEntry(level, escape(title), page.page, height))
    except BadInputError:
        return []
    return outline


def _items(item: Any, level: int) -> Iterator[tuple[int, Any]]:
    while item.m_internal:
        yield level, item
        yield from _items(item.down(), level + 1)
        item = item.next()


def _text_of(listing: "pymupdf.DisplayList") -> "pymupdf.TextPage":
    import pymupdf

    flags = (
        pymupdf.TEXT_PRESERVE_WHITESPACE
        | pymupdf.TEXT_PRESERVE_IMAGES
        | pymupdf.TEXT_MEDIABOX_CLIP
        | pymupdf.TEXT_USE_CID_FOR_UNKNOWN_UNICODE
    )
    return pymupdf.TextPage(listing.get_textpage(flags))


def _parted(text: "pymupdf.TextPage") -> tuple[list[tuple[int, Any]], list[int]]:
    """Return the blocks that are images with their places among all, and the places of the others."""
    from pymupdf import mupdf

    pictures: list[tuple[int, Any]] = []
    others: list[int] = []
    block, number = text.this.m_internal.first_block, 0
    while block:
        if block.type == mupdf.FZ_STEXT_BLOCK_IMAGE:
            pictures.append((number, mupdf.FzStextBlock(block)))
        else:
            others.append(number)
        block, number = block.next, number + 1
    return pictures, others


def _set_off(pictures: Sequence[tuple[int, Any]]) -> None:
    """Set images off the page, where ``extractDICT`` leaves them alone: it would copy their bytes."""
    for _, block in pictures:
        box = block.m_internal.bbox
        box.x0 = box.y0 = box.x1 = box.y1 = _FAR_PT


def _images(pictures: Sequence[tuple[int, Any]], page: BBox) -> Iterator[tuple[Image, Any]]:
    number = 0
    for block_number, block in pictures:
        rect, handle = block.m_internal.bbox, block.i_image()
        matrix = block.i_transform()
        whole = _unit_square(matrix)  # MuPDF's own box is cut to the page and to the clip already
        seen = BBox(rect.x0, rect.y0, rect.x1, rect.y1) & whole & page
        drawn = whole & page
        if whole.area <= 0 or drawn.area < _SEEN_SHARE * whole.area:
            continue  # outside the crop box: no reader sees it
        if seen.area < _SEEN_SHARE * drawn.area and min(seen.width, seen.height) < _SLIVER_PT:
            continue  # what a clip leaves of it is no picture
        yield (
            Image(
                number=number,
                block=block_number,
                bbox=seen.rounded(),
                width=int(handle.w()),
                height=int(handle.h()),
                matrix=(matrix.a, matrix.b, matrix.c, matrix.d),
                cut=seen.area < 0.99 * whole.area,
                stencil=bool(handle.imagemask()),
            ),
            handle,
        )
        number += 1


def _unit_square(matrix: Any) -> BBox:
    xs = [matrix.e + x for x in (0.0, matrix.a, matrix.c, matrix.a + matrix.c)]
    ys = [matrix.f + y for y in (0.0, matrix.b, matrix.d, matrix.b + matrix.d)]
    return BBox(min(xs), min(ys), max(xs), max(ys))


def _lines(text: "pymupdf.TextPage", page: int, numbers: Sequence[int]) -> Iterator[tuple[Line, bool]]:
    """Yield the lines of a page whose images are set off it, given the places of the other blocks among all."""
    for block in text.extractDICT()["blocks"]:
        place = numbers[block["number"]]
        for row in block["lines"]:
            spans = row["spans"]
            texts = [span["text"] for span in spans]
            words = "".join(texts)
            if not words or words.isspace():
                continue
            main = spans[0]
            if len(spans) > 1:
                inked = [*map(len, map(str.strip, texts))]
                main = spans[inked.index(max(inked))]
            bold = bool(main["flags"] & _BOLD) or "bold" in main["font"].lower()
            line = Line(page, place, BBox(*row["bbox"]).rounded(), escape(words), round(main["size"], 2), bold)
            yield line, bool(main["char_flags"] & _SHOWN) and main["alpha"] > 0


def _is_stencil(handle: Any) -> bool:
    """Say whether an image is next to no pixels, painted through a mask that has the shape: so words are set as pictures."""
    mask = handle.mask()
    return bool(mask.m_internal) and max(handle.w(), handle.h()) <= _STENCIL_PX < max(mask.w(), mask.h())


def _spelled(listing: Any, images: Sequence[Image], page: int) -> list[Line]:
    """Return the words that a page's images are of, where the PDF tells them: a heading in letters that can't be embedded.

    PDF calls them replacement text (ISO 32000-2, 14.9.4). Where MuPDF gives images, it leaves such words out of the text.
    """
    words = _replaced(listing)
    lines: list[Line] = []
    for image in images:
        box = image.bbox
        told = next((text for whole, text in words if box.iou(whole) >= _SAME_SHARE), "")
        if not told.strip():
            continue
        last = lines[-1] if lines else None
        height = last.bbox.height if last else 0.0
        alike = last is not None and abs(box.height - height) <= 0.1 * height
        if last and alike and box.y0 == last.bbox.y0 and last.bbox.x0 < box.x0 <= last.bbox.x1 + height:
            # The letters of one word may be two images. Each is larger than its letters; so they overlap, and less at a blank.
            blank = " " if last.bbox.x1 - box.x0 < _OVERHANG * height and not last.text.endswith((" ", "-")) else ""
            lines[-1] = last._replace(bbox=last.bbox | box, text=last.text + blank + escape(told))
            continue
        under = last if last and alike and abs(box.y0 - last.bbox.y1) <= 0.5 * height else None
        block = under.block if under else image.block
        lines.append(Line(page, block, box, escape(told), round(_SIZE_SHARE * box.height, 2), bold=False))
    return lines


def _replaced(listing: Any) -> list[tuple[BBox, str]]:
    """Return the boxes of images that have replacement text, with that text."""
    from pymupdf import mupdf

    words: list[tuple[BBox, str]] = []
    open_texts: list[str] = []

    class Reader(mupdf.FzDevice2):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.use_virtual_begin_metatext()
            self.use_virtual_end_metatext()
            self.use_virtual_fill_image()

        def begin_metatext(self, _context: Any, kind: int, text: str) -> None:
            open_texts.append(text if kind == mupdf.FZ_METATEXT_ACTUALTEXT else "")

        def end_metatext(self, _context: Any) -> None:
            del open_texts[-1:]

        def fill_image(self, _context: Any, _image: Any, matrix: Any, _alpha: float, _colours: Any) -> None:
            if open_texts and open_texts[-1]:
                words.append((_unit_square(matrix), open_texts[-1]))

    reader = Reader()
    mupdf.fz_run_display_list(
        listing.this, reader, mupdf.FzMatrix(), mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE), mupdf.FzCookie()
    )
    mupdf.fz_close_device(reader)
    return words
