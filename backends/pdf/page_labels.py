"""Page labels: the numbers printed on a PDF's pages, such as iv, 12, A-3."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schemas.numerals import roman

if TYPE_CHECKING:
    import pymupdf

_MOST_NODES = 10_000
"""Maximum nodes of a number tree: a cyclic one has no end."""

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
