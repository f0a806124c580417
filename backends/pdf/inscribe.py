"""Write tags into a copy of a PDF, each inside the box of its figure.

The copy is the original, byte for byte, with an incremental update, so nothing of the original is lost; only a damaged file,
which PDF forbids to be updated, is rewritten. The copy is for readers and other tools and is never parsed again: its tags come
last on a page, whatever the reading order, and words of the original that look like a tag are kept.

Source: "RAG Beyond Text"; ``bench/tagged_pdf.py`` measures how its own method loses tags and splits tables.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.pdf.opening import open_pdf, rejecting
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox

if TYPE_CHECKING:
    import pymupdf

INSCRIBE_VERSION = "2"

_COLOUR = (0.75, 0, 0.35)
_LARGEST_PT = 8.0
"""Maximum type size of a tag: a larger one hides a small figure, a smaller one is hard to read."""

_SMALLER = (1.0, 0.8, 0.6, 0.45, 0.3)
"""Sizes that are tried to avoid other words, relative to the largest that fits the box."""

_CLEAR_PT = 1.5
"""Room between a tag and other words. At 0, readers of text join the tag with the word beside it."""

_ONE_LINE_PT = 3.1
"""Difference of tops within which table finders join words into one line (they use 3 points): a tag closer than that splits the
row of a table beside it.
"""

_MOST_STEPS = 60
"""Maximum heights in a box at which the tag is tried. Bounds the time for a figure as high as its page."""


@dataclass(frozen=True, slots=True)
class Inscription:
    """A tag, and the box of its placement."""

    page: int
    bbox: BBox
    tag: str


def inscribe(
    data: bytes,
    inscriptions: Sequence[Inscription],
    *,
    passwords: Sequence[str] = (),
    opened: Callable[[int], None] = lambda _pages: None,
) -> bytes:
    """Return a copy of a PDF with each tag inside its box: upright for the reader, in one line, clear of other words.

    Same inputs give the same bytes, except for encrypted documents, since encryption is random.

    Args:
        data: The original.
        inscriptions: Tags, printable ASCII, and their boxes.
        passwords: Tried in order if the file needs one.
        opened: Called with the number of pages once the document is open.

    Raises:
        BadInputError: The file can't be opened or written, or the copy lacks a tag, or a word of the original.
    """
    document = open_pdf(data, passwords)
    opened(document.page_count)
    pages: dict[int, list[Inscription]] = {}
    for inscription in inscriptions:
        pages.setdefault(inscription.page, []).append(inscription)
    words: dict[int, Counter[str]] = {}
    for number, page_tags in sorted(pages.items()):
        with rejecting(f"the tags of page {number} can't be written", FailureCode.TAGGING_FAILED, number):
            page = document[number - 1]
            page_words = page.get_text("words")
            words[number] = Counter(word[4] for word in page_words)
            turn = page.rotation_matrix
            word_boxes = [BBox(*(_rect(word) * turn)) for word in page_words]
            lines = [
                (page_tag.tag, *_fitted(page_tag.tag, BBox(*(_rect(page_tag.bbox) * turn)), word_boxes))
                for page_tag in page_tags
            ]
            _write(document, page, lines)
    with rejecting("the copy with its tags can't be written", FailureCode.TAGGING_FAILED):
        copy = _saved(document)
    _verify(copy, pages, words, passwords)
    return copy


def _rect(box: Sequence[float]) -> "pymupdf.Rect":
    import pymupdf

    return pymupdf.Rect(*box[:4])


def _fitted(tag: str, box: BBox, words: Sequence[BBox]) -> tuple[float, float, float]:
    """Return left, baseline and size of a tag in its box, as the reader sees the page.

    The largest and topmost position clear of words is taken; without one, the position that covers the fewest words.
    """
    length, high, tall = _measured(tag)
    fits = min(_LARGEST_PT, box.width / length, box.height / tall)
    near = [word for word in words if (word & box.grown(_CLEAR_PT)).area > 0]
    tops = [word.y0 for word in words if word.y1 > box.y0 - 2 * _ONE_LINE_PT and word.y0 < box.y1 + 2 * _ONE_LINE_PT]
    best, lowest = (box.x0, box.y0 + high, fits), (float("inf"), True)
    for size in (fits * smaller for smaller in _SMALLER):
        for tag_x0, tag_y0 in _positions(box, size * length, size * tall):
            line = BBox(tag_x0, tag_y0, tag_x0 + size * length, tag_y0 + size * tall).grown(min(_CLEAR_PT, size / 2))
            crossed = sum((word & line).area for word in near)
            beside = [word_top for word_top in tops if abs(word_top - tag_y0) <= _ONE_LINE_PT]
            score = crossed, bool(beside) and max(beside) - min(beside) > 1
            if score < lowest:
                best, lowest = (tag_x0, tag_y0 + size * high, size), score
            if lowest == (0, False):
                return best
    return best


@functools.cache
def _helvetica() -> "pymupdf.Font":
    import pymupdf

    return pymupdf.Font("helv")


def _measured(text: str) -> tuple[float, float, float]:
    """Return the length of a line at size 1, its ascent, and its whole height."""
    font = _helvetica()
    return font.text_length(text, 1), font.ascender, font.ascender - font.descender


def _positions(box: BBox, width: float, height: float) -> Iterator[tuple[float, float]]:
    """Yield positions for a line of this size, left and top, from the top left."""
    room = max(0.0, box.height - height)
    steps = min(_MOST_STEPS, int(2 * room / height)) if height else 0
    columns = [box.x0] if box.width - width < 1 else [box.x0, (box.x0 + box.x1 - width) / 2, box.x1 - width]
    for step in range(steps + 1):
        for x0 in columns:
            yield x0, box.y0 + (room * step / steps if steps else room / 2)


def _write(document: "pymupdf.Document", page: "pymupdf.Page", lines: Iterable[tuple[str, float, float, float]]) -> None:
    """Add lines (text, left, baseline, size), as the reader sees the page, on top of the content."""
    import pymupdf

    # The page's content is put between q and Q, and those that it lacks are added, so that its transformations and clips don't
    # change the tags.
    page.wrap_contents()
    contents = [_stream(document, b"q\n"), *page.get_contents(), _stream(document, b"\nQ\n")]
    document.xref_set_key(page.xref, "Contents", f"[{' '.join(f'{xref} 0 R' for xref in contents)}]")
    kind, unit = document.xref_get_key(page.xref, "UserUnit")
    points_a_unit = 1.0 if kind == "null" else float(unit)
    for text, x, baseline, size in lines:
        position = pymupdf.Point(x, baseline) * page.derotation_matrix / points_a_unit
        page.insert_text(position, text, fontsize=size / points_a_unit, color=_COLOUR, rotate=page.rotation)


def _stream(document: "pymupdf.Document", content: bytes) -> int:
    xref = int(document.get_new_xref())
    document.update_object(xref, "<<>>")
    document.update_stream(xref, content, new=True)
    return xref


def _saved(document: "pymupdf.Document") -> bytes:
    import pymupdf
    from pymupdf import mupdf

    pdf = mupdf.pdf_document_from_fz_document(document.this)
    if not mupdf.pdf_can_be_saved_incrementally(pdf):
        return bytes(document.tobytes(no_new_id=True, encryption=pymupdf.PDF_ENCRYPT_KEEP))
    options = mupdf.PdfWriteOptions()
    options.do_incremental = 1
    # A file ID is random if it is made again, and two copies of one file would differ.
    options.dont_regenerate_id = 1
    buffer = mupdf.FzBuffer(1024)
    sink = mupdf.FzOutput(buffer)
    mupdf.pdf_write_document(pdf, sink, options)
    sink.fz_close_output()
    return bytes(buffer.fz_buffer_extract_copy())


def _verify(
    copy: bytes, pages: dict[int, list[Inscription]], words: dict[int, Counter[str]], passwords: Sequence[str]
) -> None:
    """Read the copy: every tag and every word of the original must be on its page."""
    document = open_pdf(copy, passwords)
    for number, page_tags in sorted(pages.items()):
        with rejecting(f"page {number} of the copy can't be read", FailureCode.TAGGING_FAILED, number):
            page = document[number - 1]
            text = page.get_text()
            lost = words[number] - Counter(word[4] for word in page.get_text("words"))
        absent = [
            tag for tag, times in Counter(inscription.tag for inscription in page_tags).items() if text.count(tag) < times
        ]
        if absent or lost:
            lack = f"lacks the tag {absent[0]}" if absent else f"lacks the word {next(iter(lost))!r}"
            raise BadInputError(f"page {number} of the copy {lack}", FailureCode.TAGGING_FAILED, number)
