"""PDFs made of other formats: pictures made into pages, and what a converter leaves out of a PDF."""

import html
import io
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from backends.pdf.opening import rejecting
from schemas.errors import BadInputError, FailureCode
from schemas.formats import ending

_LONGEST_SIDE_PT = 842
"""Longest side of a picture's page, that of A4: a photograph without a resolution would be metres long."""

_LOOKED_AT_PAGES, _FEWEST_LETTERS, _UNREADABLE = 5, 50, 0.2
"""A document is garbage from this share of letters that no font has, on its first pages; symbols of lists are 2 % of a page."""


_NOTES_PT, _NOTES_LINE_PT, _NOTES_MARGIN_PT, _NOTES_LETTERS = 12, 18, 36, 70
"""Size, line and margin of speaker's notes, and the fewest letters of a line of them."""


def picture_pdf(data: bytes, source: str) -> bytes:
    """Return a PDF with a page for each picture of a file.

    Raises:
        BadInputError: It can't be decoded.
    """
    import pymupdf

    kind = ending(source)
    with rejecting("the picture can't be decoded", FailureCode.UNREADABLE):
        if kind in ("heic", "heif"):
            data, kind = _decoded_heic(data), "png"
        pages = pymupdf.open("pdf", pymupdf.open(stream=data, filetype=kind).convert_to_pdf())
        pdf = pymupdf.open()
        for page in pages:
            scale = min(1.0, _LONGEST_SIDE_PT / max(page.rect.width, page.rect.height))
            size = page.rect * scale
            pdf.new_page(width=size.width, height=size.height).show_pdf_page(size, pages, page.number)
        return bytes(pdf.tobytes(garbage=3, deflate=True))


def _decoded_heic(data: bytes) -> bytes:
    import pi_heif

    picture, png = pi_heif.read_heif(io.BytesIO(data)).to_pillow(), io.BytesIO()
    picture.convert("RGB").save(png, "PNG")
    return png.getvalue()


def is_cut(pdf: bytes) -> bool:
    """Return whether words of a page are beyond its right side, as those of a table that is too wide."""
    import pymupdf

    document = pymupdf.open("pdf", pdf)
    return any(x1 > page.rect.x1 for page in document for _, _, x1, *_ in page.get_text("words", flags=0))


def finished(pdf: bytes, written_at: str | None, notes: Sequence[str] = ()) -> bytes:
    """Return a converted PDF dated as its original, not as the conversion, with speaker's notes below slides.

    Args:
        pdf: What the converter made.
        notes: Of each page; "" without any.
        written_at: When the original was changed last, such as ``2024-03-31T12:00:00``; None if it is unknown.

    Raises:
        BadInputError: It has no pages, or its letters are garbage.
    """
    import pymupdf

    with rejecting("the converted file can't be opened", FailureCode.NOT_CONVERTED):
        document = pymupdf.open(stream=pdf, filetype="pdf")
        if document.page_count == 0:
            raise BadInputError("the converted file has no pages", FailureCode.NOT_CONVERTED)
        _refuse_garbage(document)
        for page, text in zip(document, notes, strict=False):
            if text:
                _add_notes(page, text)
        digits = "".join(character for character in written_at or "" if character.isdigit())[:14]
        date = f"D:{digits}" if digits else ""
        document.set_metadata({**(document.metadata or {}), "creationDate": date, "modDate": date})
        return bytes(document.tobytes())


def _add_notes(page: Any, text: str) -> None:
    """Write notes below a slide, on a page that is longer by so much."""
    import pymupdf

    size, height = page.rect, _NOTES_LINE_PT * (2 + len(text) // _NOTES_LETTERS + text.count("\n"))
    page.set_mediabox(pymupdf.Rect(0, -height, size.width, size.height))
    box = pymupdf.Rect(_NOTES_MARGIN_PT, size.height, size.width - _NOTES_MARGIN_PT, size.height + height)
    paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in text.splitlines())
    page.insert_htmlbox(box, paragraphs, css=f"* {{font-size: {_NOTES_PT}pt; font-family: sans-serif; text-align: left}}")


def _refuse_garbage(document: Any) -> None:
    text = "".join(document[number].get_text() for number in range(min(_LOOKED_AT_PAGES, document.page_count)))
    kinds = Counter("�" if letter == "�" else unicodedata.category(letter) for letter in text if not letter.isspace())
    unreadable = sum(kinds[kind] for kind in ("�", "Cc", "Cn", "Cs"))
    if kinds.total() >= _FEWEST_LETTERS and unreadable > _UNREADABLE * kinds.total():
        message = f"{unreadable / kinds.total():.0%} of its letters are garbage after conversion; the file is damaged"
        raise BadInputError(message, FailureCode.NOT_CONVERTED)
