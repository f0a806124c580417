"""The implementation of ``PdfDocument`` with MuPDF."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from backends.pdf.opening import free_memory, lost_content, open_pdf, rejecting
from backends.pdf.page import MuPdfPage, read_page
from backends.pdf.page_labels import page_labels
from schemas.documents import OutlineEntry
from schemas.errors import BadInputError, FailureCode

if TYPE_CHECKING:
    import pymupdf


def open_document(data: bytes, passwords: Sequence[str] = ()) -> "MuPdfDocument":
    """Open a PDF; arguments and errors as for ``open_pdf``."""
    return MuPdfDocument(open_pdf(data, passwords))


class MuPdfDocument:
    """Implements ``PdfDocument``. MuPDF's warnings and cache are global to the process: open one at a time."""

    def __init__(self, pdf: "pymupdf.Document") -> None:
        self._pdf = pdf

    @property
    def page_count(self) -> int:
        """The number of pages."""
        return int(self._pdf.page_count)

    @property
    def is_repaired(self) -> bool:
        """Whether its structure was damaged and had to be rebuilt; becomes true once the damage is found."""
        return bool(self._pdf.is_repaired)

    @property
    def title(self) -> str:
        """The title in its metadata; "" without one."""
        return self._metadata("title")

    @property
    def subject(self) -> str:
        """The subject in its metadata; "" without one."""
        return self._metadata("subject")

    @property
    def dates(self) -> tuple[str, str]:
        """Its modification and creation dates in its metadata; "" without them."""
        return self._metadata("modDate"), self._metadata("creationDate")

    def _metadata(self, name: str) -> str:
        return str((self._pdf.metadata or {}).get(name) or "")

    def page_labels(self) -> list[str]:
        """Return its page labels; see the port."""
        try:
            with rejecting("the labels of pages can't be read", FailureCode.DAMAGED):
                return page_labels(self._pdf)
        except BadInputError:
            return []

    def read_page(self, number: int) -> MuPdfPage:
        """Read one page; see the port."""
        return read_page(self._pdf, number)

    def outline(self) -> list[OutlineEntry]:
        """Return the PDF's own outline; see the port."""
        try:
            with rejecting("the outline can't be read", FailureCode.DAMAGED):
                # PyMuPDF's own list takes a hundred times as long, and measures named destinations from the bottom.
                return [
                    OutlineEntry(level, " ".join((item.title() or "").split()), item.page().page + 1, item.m_internal.y)
                    for level, item in _items(self._pdf.this.fz_load_outline(), 1)
                ]
        except BadInputError:
            return []

    def lost_content(self) -> list[str]:
        """Return the distinct warnings since the last call that mean lost content."""
        return lost_content()

    def free_memory(self) -> None:
        """Empty the cache of earlier pages."""
        free_memory()


def _items(item: Any, level: int) -> Iterator[tuple[int, Any]]:
    while item.m_internal:
        yield level, item
        yield from _items(item.down(), level + 1)
        item = item.next()
