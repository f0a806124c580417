"""The values of a page's form fields, as lines of text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from schemas.documents import Line
from schemas.drawings import PageLine
from schemas.geometry import BBox, gap, is_level
from schemas.tags import escape

if TYPE_CHECKING:
    import pymupdf

SIZE_PT = 11.0
"""Type size of a value whose field doesn't say it."""


def with_fields(lines: Sequence[PageLine], page: "pymupdf.Page", number: int) -> list[PageLine]:
    """Return the lines of a page with the values of its fields, each in the block of its label; boxes ticked or not."""
    values = list(_values(page, number, 1 + max((line.block for line, _ in lines), default=0)))
    drawn = [line for line in lines if not any(value.bbox.has_middle_of(line.line.bbox) for value in values)]
    labels = [line for line, is_visible in drawn if is_visible]
    return [*drawn, *(PageLine(_beside_label(value, labels), True) for value in values)]


def _beside_label(value: Line, lines: Sequence[Line]) -> Line:
    level = [line for line in lines if is_level(line.bbox, value.bbox)]
    if not level:
        return value
    # The label of a box is behind it, that of any other field before it.
    behind = [line for line in level if len(value.text) == 1 and line.bbox.x0 >= value.bbox.x1]
    before = [line for line in level if len(value.text) > 1 and line.bbox.x1 <= value.bbox.x0]
    nearest = min(
        behind or before or level, key=lambda line: abs(gap(line.bbox.x0, line.bbox.x1, value.bbox.x0, value.bbox.x1))
    )
    return value._replace(block=nearest.block)


def _values(page: "pymupdf.Page", number: int, block: int) -> Iterator[Line]:
    import pymupdf

    for field in page.widgets() or ():
        kind, value = field.field_type, str(field.field_value or "")
        if kind in (pymupdf.PDF_WIDGET_TYPE_CHECKBOX, pymupdf.PDF_WIDGET_TYPE_RADIOBUTTON):
            is_on = value not in ("", "Off") and value == str(field.on_state())
            is_radio = kind == pymupdf.PDF_WIDGET_TYPE_RADIOBUTTON
            text = ("◉" if is_on else "○") if is_radio else ("☑" if is_on else "☐")
        elif kind in (pymupdf.PDF_WIDGET_TYPE_TEXT, pymupdf.PDF_WIDGET_TYPE_COMBOBOX, pymupdf.PDF_WIDGET_TYPE_LISTBOX):
            text = " ".join(value.split())
        else:
            continue
        if text:
            size = float(field.text_fontsize or SIZE_PT)
            yield Line(number, block, BBox(*field.rect).rounded(), escape(text), size, bold=False)
            block += 1
