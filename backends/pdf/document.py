"""The implementation of ``PdfDocument`` with MuPDF."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from backends.pdf.opening import ends_whole, means_lost_content, new_warnings, open_pdf, rejecting
from backends.pdf.page import MuPdfPage, read_page
from schemas.documents import OutlineEntry
from schemas.errors import BadInputError, FailureCode
from schemas.text import roman

if TYPE_CHECKING:
    import pymupdf


_MOST_NODES = 10_000
"""Maximum nodes of a number tree: a cyclic one has no end."""

_KEPT_PERCENT = 60
"""Percentage of MuPDF's cache that is kept for fonts and images of the next pages. At 100 memory grows with the document, at 0
each is read again.
"""

_VARIABLE = re.compile(r"\(.*?\)|\d+")

_LONGEST = 30
"""Maximum characters of a label."""


def page_labels(document: "pymupdf.Document") -> list[str]:
    """Return the label of each page, "" without one; [] if the PDF has no labels.

    Source:
        ISO 32000-2, 12.4.2.
    """
    from pymupdf import mupdf

    pdf = mupdf.pdf_specifics(document.this)
    if not pdf.m_internal:  # MuPDF recognised another file type
        return []
    root = mupdf.pdf_dict_gets(mupdf.pdf_trailer(pdf), "Root")
    ranges = dict(_ranges(mupdf.pdf_dict_gets(root, "PageLabels")))
    if not ranges:
        return []
    labels: list[str] = []
    # The standard demands a range from the first page on; without it, pages before the first range are counted in digits.
    prefix, style, number = "", "D", 1
    for page in range(document.page_count):
        if page in ranges:
            prefix, style, number = ranges[page]
        labels.append(" ".join(f"{prefix}{_label_text(style, number)}".split())[:_LONGEST])
        number += 1
    return labels


def _ranges(tree: Any) -> Iterator[tuple[int, tuple[str, str, int]]]:
    """Yield the first page of each range, with its prefix, its style and its first number."""
    from pymupdf import mupdf

    nodes = [tree]
    for at in range(_MOST_NODES):
        if at == len(nodes):
            return
        numbers, kids = (mupdf.pdf_dict_gets(nodes[at], name) for name in ("Nums", "Kids"))
        for position in range(0, mupdf.pdf_array_len(numbers) - 1, 2):
            rule = mupdf.pdf_array_get(numbers, position + 1)
            style, prefix = (mupdf.pdf_dict_gets(rule, name) for name in ("S", "P"))
            first = mupdf.pdf_dict_get_int_default(rule, mupdf.PdfObj("St"), 1)
            yield (
                mupdf.pdf_array_get_int(numbers, position),
                (mupdf.pdf_to_text_string(prefix), mupdf.pdf_to_name(style), first),
            )
        nodes += [
            mupdf.pdf_array_get(kids, position)
            for position in range(min(mupdf.pdf_array_len(kids), _MOST_NODES - len(nodes)))
        ]


def _label_text(style: str, number: int) -> str:
    match style:
        case "D":
            return str(number)
        case "r" | "R":
            return roman(number) if style == "r" else roman(number).upper()
        case "a" | "A" if number > 0:
            times, letter = divmod(number - 1, 26)
            return chr(ord(style) + letter) * min(times + 1, _LONGEST)
    return ""


def open_document(data: bytes, passwords: Sequence[str] = ()) -> "MuPdfDocument":
    """Open a PDF; arguments and errors as for ``open_pdf``."""
    return MuPdfDocument(open_pdf(data, passwords), is_whole=ends_whole(data))


class MuPdfDocument:
    """Implements ``PdfDocument``. MuPDF's warnings and cache are global to the process: open one at a time."""

    def __init__(self, pdf: "pymupdf.Document", *, is_whole: bool = True) -> None:
        self._pdf, self._is_whole = pdf, is_whole
        self._warnings = set[str]()

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
        return self.metadata("title")

    @property
    def dates(self) -> tuple[str, str]:
        """Its modification and creation dates in its metadata; "" without them."""
        return self.metadata("modDate"), self.metadata("creationDate")

    def metadata(self, name: str) -> str:
        """Return an entry of its metadata, such as author, or its language, such as en; "" without it."""
        return str((self._pdf.language if name == "language" else (self._pdf.metadata or {}).get(name)) or "")

    def page_labels(self) -> list[str]:
        """Return its page labels; see the port."""
        try:
            with rejecting("the labels of pages can't be read", FailureCode.DAMAGED):
                return page_labels(self._pdf)
        except BadInputError:
            return []

    def attachments(self) -> list[str]:
        """Return the names of the files inside it; see the port."""
        try:
            with rejecting("the attachments can't be read", FailureCode.DAMAGED):
                return [str(self._pdf.embfile_info(name)["filename"] or name) for name in self._pdf.embfile_names()]
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
        warnings = new_warnings()
        # Without the numbers and names by which warnings of two files differ.
        self._warnings.update(_VARIABLE.sub("", warning).strip() for warning in warnings)
        return [warning for warning in warnings if means_lost_content(warning)]

    def doubts(self) -> tuple[str, ...]:
        """Return why the file may be cut or damaged; see the port."""
        self.lost_content()
        rebuilt = ["its structure was damaged, and rebuilt"] if self.is_repaired else []
        cut = [] if self._is_whole else ["it doesn't end as a PDF does"]
        return (*cut, *rebuilt, *(f"reading it warned: {warning}" for warning in sorted(self._warnings)))

    def free_memory(self) -> None:
        """Drop most of MuPDF's cache of earlier pages, so that memory doesn't grow with the document."""
        import pymupdf

        pymupdf.TOOLS.store_shrink(_KEPT_PERCENT)


def _items(item: Any, level: int) -> Iterator[tuple[int, Any]]:
    while item.m_internal:
        yield level, item
        yield from _items(item.down(), level + 1)
        item = item.next()
