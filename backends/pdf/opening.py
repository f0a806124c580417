"""Open PDFs with MuPDF, and turn its errors into ours."""

import importlib.metadata
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from schemas import errors
from schemas.errors import BadInputError, FailureCode

if TYPE_CHECKING:
    import pymupdf

LIBRARY = "pymupdf"
"""The module that takes long to import: a server that forks processes imports it ahead."""

RELEASE = importlib.metadata.version(LIBRARY)
"""What is read, drawn and written depends on the library's release, so the keys of all three have it."""

_HEADER_WITHIN = 1024
"""Bytes at the start of a file that must hold its header (ISO 32000-2, 7.5.2, allows bytes before it)."""

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
"""Parts of those warnings of MuPDF that mean lost content."""

_KEPT_PERCENT = 60
"""Share of what MuPDF caches that it keeps, in percent: fonts and images that the next pages draw again. At 100 memory grows
with the document, at 0 each is read anew; what is found is the same.
"""


def open_pdf(data: bytes, passwords: Sequence[str] = ()) -> "pymupdf.Document":
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
        damaged = document.is_repaired or bool(lost_content())
        code, why = (
            (FailureCode.UNREADABLE, "no page could be found") if damaged else (FailureCode.NO_PAGES, "it has no pages")
        )
        raise BadInputError(f"the file can't be read: {why}", code)
    return document


def refusing(what: str, code: FailureCode, page: int | None = None) -> AbstractContextManager[None]:
    """Turn whatever PyMuPDF raises on a bad file into one error; as ``schemas.errors.refusing``, MuPDF's own errors included."""
    from pymupdf import mupdf

    return errors.refusing(what, code, page, also=(mupdf.FzErrorBase,))


def lost_content() -> list[str]:
    """Return MuPDF's warnings since the last call that mean lost content; each once."""
    import pymupdf

    warnings = pymupdf.TOOLS.mupdf_warnings(True).splitlines()
    return list(dict.fromkeys(line for line in warnings if any(part in line for part in _LOST)))


def free_memory() -> None:
    """Let MuPDF drop most of what it caches of earlier pages: memory is bounded by pages, not by the document."""
    import pymupdf

    pymupdf.TOOLS.store_shrink(_KEPT_PERCENT)
