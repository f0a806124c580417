"""An open PDF, as ``PdfDocument`` has it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from backends.pdf.opening import free_memory, lost_content, open_pdf, refusing
from backends.pdf.page import Page, read_page
from backends.pdf.page_labels import page_labels
from schemas.documents import OutlineEntry
from schemas.errors import BadInputError, FailureCode

if TYPE_CHECKING:
    import pymupdf


def open_document(data: bytes, passwords: Sequence[str] = ()) -> "Document":
    """Open a PDF to be read; arguments and errors as for ``open_pdf``."""
    return Document(open_pdf(data, passwords))


class Document:
    """Implements ``PdfDocument`` with MuPDF, whose warnings and cache are those of the whole process: open one at a time."""

    def __init__(self, pdf: "pymupdf.Document") -> None:
        self._pdf = pdf

    @property
    def page_count(self) -> int:
        """How many pages it has."""
        return int(self._pdf.page_count)

    @property
    def is_repaired(self) -> bool:
        """Whether its structure was damaged and had to be rebuilt; becomes true when the damage is met."""
        return bool(self._pdf.is_repaired)

    @property
    def title(self) -> str:
        """The title in its metadata; "" where there is none."""
        return self._metadata("title")

    @property
    def subject(self) -> str:
        """The subject in its metadata; "" where there is none."""
        return self._metadata("subject")

    @property
    def dates(self) -> tuple[str, str]:
        """When its metadata says that it was changed last, and that it was made; "" where it doesn't say."""
        return self._metadata("modDate"), self._metadata("creationDate")

    def _metadata(self, name: str) -> str:
        return str((self._pdf.metadata or {}).get(name) or "")

    def page_labels(self) -> list[str]:
        """Return what its pages are called; see the port."""
        try:
            with refusing("the labels of pages can't be read", FailureCode.DAMAGED):
                return page_labels(self._pdf)
        except BadInputError:
            return []

    def read_page(self, number: int) -> Page:
        """Read one page; see the port."""
        return read_page(self._pdf, number)

    def outline(self) -> list[OutlineEntry]:
        """Return the PDF's own outline; see the port."""
        try:
            with refusing("the outline can't be read", FailureCode.DAMAGED):
                # PyMuPDF's own list takes a hundred times as long, and counts the heights of named destinations from below.
                return [
                    OutlineEntry(level, " ".join((item.title() or "").split()), item.page().page + 1, item.m_internal.y)
                    for level, item in _items(self._pdf.this.fz_load_outline(), 1)
                ]
        except BadInputError:
            return []

    def lost_content(self) -> list[str]:
        """Return the warnings since the last call that mean lost content, each once."""
        return lost_content()

    def free_memory(self) -> None:
        """Drop what is cached of pages read so far."""
        free_memory()


def _items(item: Any, level: int) -> Iterator[tuple[int, Any]]:
    while item.m_internal:
        yield level, item
        yield from _items(item.down(), level + 1)
        item = item.next()
