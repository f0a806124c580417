"""Open PDFs with MuPDF, and convert its errors."""

import importlib.metadata
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from schemas import errors
from schemas.errors import BadInputError, FailureCode

if TYPE_CHECKING:
    import pymupdf

LIBRARY = "pymupdf"
"""The module that takes long to import: a server that forks processes imports it first."""

RELEASE = importlib.metadata.version(LIBRARY)
"""The library's release, a part of the cache keys of everything read, drawn and written."""

_HEADER_WITHIN = 1024
"""Bytes at the start of a file that must contain its header (ISO 32000-2, 7.5.2, allows bytes before it)."""

_END_WITHIN = 4096
_END = re.compile(rb"startxref\s+\d+\s+%%EOF[\s\0]*$")

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
"""Parts of MuPDF's warnings that mean lost content."""


def open_pdf(data: bytes, passwords: Sequence[str] = ()) -> "pymupdf.Document":
    """Open a PDF.

    Args:
        data: The file.
        passwords: Tried in order if the file needs one.

    Raises:
        BadInputError: It is empty, no PDF, needs another password, has no pages, or is too damaged to be opened.
    """
    import pymupdf

    if not data:
        raise BadInputError("the file is empty", FailureCode.EMPTY_FILE)
    if b"%PDF-" not in data[:_HEADER_WITHIN]:
        raise BadInputError("the file isn't a PDF: it has no %PDF header", FailureCode.NOT_A_PDF)
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    # Warnings are global to the process: those of an earlier document are dropped here.
    pymupdf.TOOLS.mupdf_warnings(True)
    with rejecting("the file can't be opened", FailureCode.UNREADABLE):
        document = pymupdf.open(stream=data, filetype="pdf")
        if document.needs_pass and not any(document.authenticate(password) for password in passwords):
            raise BadInputError("the file needs a password; none of those given opens it", FailureCode.NEEDS_PASSWORD)
        pages = document.page_count
        if _is_xfa(document):
            message = "the file is an XFA form, which only Adobe's viewers show: print it there as a PDF"
            raise BadInputError(message, FailureCode.NOT_CONVERTED)
    if pages == 0:
        damaged = document.is_repaired or any(map(means_lost_content, new_warnings()))
        code, why = (
            (FailureCode.UNREADABLE, "no page could be found") if damaged else (FailureCode.NO_PAGES, "it has no pages")
        )
        raise BadInputError(f"the file can't be read: {why}", code)
    return document


def _is_xfa(document: "pymupdf.Document") -> bool:
    """Return whether the pages of a PDF only ask for another viewer (ISO 32000-1, 12.7.8)."""
    from pymupdf import mupdf

    pdf = mupdf.pdf_specifics(document.this)
    return (
        bool(pdf.m_internal) and mupdf.pdf_to_bool(mupdf.pdf_dict_getp(mupdf.pdf_trailer(pdf), "Root/NeedsRendering")) == 1
    )


def rejecting(message: str, code: FailureCode, page: int | None = None) -> AbstractContextManager[None]:
    """Convert any error of PyMuPDF or MuPDF on a bad file into one; as ``schemas.errors.rejecting``."""
    from pymupdf import mupdf

    return errors.rejecting(message, code, page, also=(mupdf.FzErrorBase,))


def new_warnings() -> list[str]:
    """Return MuPDF's distinct warnings since the last call."""
    import pymupdf

    lines = pymupdf.TOOLS.mupdf_warnings(True).splitlines()
    return [line for line in dict.fromkeys(lines) if not line.startswith("... repeated")]


def means_lost_content(warning: str) -> bool:
    """Return whether a warning of MuPDF means lost content."""
    return any(part in warning for part in _LOST)


def ends_whole(data: bytes) -> bool:
    """Return whether a file ends as a PDF does (ISO 32000-2, 7.5.5): ``startxref``, an offset, ``%%EOF``."""
    return _END.search(data[-_END_WITHIN:]) is not None
