"""Draw pages. A hostile PDF may use unlimited time and memory: draw in a limited process."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from schemas.drawings import MAX_SIDE_PT, Pixels
from schemas.errors import BadInputError, FailureCode

if TYPE_CHECKING:
    import pymupdf

Box = tuple[float, float, float, float]

MAX_PIXELS = 64_000_000
"""Maximum pixels: an A0 sheet at 200 dpi has 62 million, and takes 250 MB while it is drawn and encoded."""


class OverlayBox(NamedTuple):
    """A box to draw over a page, in points of the unrotated page, with a flag for its label, unless that is "".

    ``colour`` is red, green and blue from 0 to 1. Lines lead from the middle of the box to the boxes ``to``.
    """

    box: Box
    label: str
    colour: tuple[float, float, float]
    dashed: bool = False
    to: tuple[Box, ...] = ()


def draw_page(
    pdf: "pymupdf.Document", page: int, *, highlight: Sequence[Box] = (), marks: Sequence[OverlayBox] = (), dpi: int = 110
) -> bytes:
    """Return a page as PNG.

    Args:
        pdf: The document, opened.
        page: From 1; there must be such a page.
        highlight: Boxes to fill and frame, in points, origin at the top left of the unrotated page.
        marks: Boxes to draw over the page, the last one on top.
        dpi: Resolution.

    Raises:
        BadInputError: The page is too large to draw, at all or at this resolution.
    """
    import pymupdf

    drawn = _sized(pdf, page, dpi)
    for box in highlight:
        rect = pymupdf.Rect(box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2)
        drawn.draw_rect(
            rect, color=(0.85, 0.35, 0.05), fill=(1, 0.8, 0.25), width=1.2, fill_opacity=0.18, stroke_opacity=0.9
        )
    pixels = drawn.get_pixmap(dpi=dpi, alpha=False)
    if marks:
        pixels = _marked(drawn, pixels, marks, dpi)
    return bytes(pixels.tobytes("png"))


def page_pixels(pdf: "pymupdf.Document", page: int, *, dpi: int) -> Pixels:
    """Return a page's pixels; arguments and errors as for ``draw_page``."""
    pixmap = _sized(pdf, page, dpi).get_pixmap(dpi=dpi, alpha=False, colorspace="rgb")
    rows = np.frombuffer(pixmap.samples_mv, np.uint8).reshape(pixmap.height, pixmap.stride)
    # A copy: the pixmap's memory goes with it.
    return rows[:, : pixmap.width * 3].reshape(pixmap.height, pixmap.width, 3).copy()


def _sized(pdf: "pymupdf.Document", page: int, dpi: int) -> "pymupdf.Page":
    drawn = pdf[page - 1]
    _check_size(drawn.rect.width, drawn.rect.height, page, dpi)
    return drawn


def _check_size(width_pt: float, height_pt: float, page: int, dpi: int) -> None:
    problem, size = f"page {page} is too large to draw", f"{width_pt:.0f} × {height_pt:.0f} pt"
    if max(width_pt, height_pt) > MAX_SIDE_PT:
        raise BadInputError(f"{problem}: {size}", FailureCode.PAGE_TOO_LARGE, page)
    if width_pt * height_pt * (dpi / 72) ** 2 > MAX_PIXELS:
        largest_dpi = int(72 * (MAX_PIXELS / (width_pt * height_pt)) ** 0.5)
        message = f"{problem} at {dpi} dpi: {size}; at {largest_dpi} dpi it can be drawn"
        raise BadInputError(message, FailureCode.PAGE_TOO_LARGE, page)


_LETTER_PT = 9.0
_ROOM_PT = 1.5


def _marked(page: "pymupdf.Page", pixels: "pymupdf.Pixmap", marks: Sequence[OverlayBox], dpi: int) -> "pymupdf.Pixmap":
    """Draw marks over a page's pixels, on a sheet of their own, unaffected by the page's rotation or broken content."""
    import pymupdf

    with pymupdf.open() as pdf:
        sheet = pdf.new_page(width=page.rect.width, height=page.rect.height)
        sheet.insert_image(sheet.rect, pixmap=pixels)
        room = (-_ROOM_PT, -_ROOM_PT, _ROOM_PT, _ROOM_PT)
        boxes = [((pymupdf.Rect(mark.box) * page.rotation_matrix).normalize() + room) & sheet.rect for mark in marks]
        visible_marks = [(mark, box) for mark, box in zip(marks, boxes, strict=True) if not box.is_empty]
        for mark, box in visible_marks:
            dashes = "[3 2] 0" if mark.dashed else None
            sheet.draw_rect(box, color=mark.colour, fill=mark.colour, width=1, dashes=dashes, fill_opacity=0.06)
            middle = (box.tl + box.br) / 2
            for target in mark.to:
                end = (pymupdf.Rect(target) * page.rotation_matrix).normalize()
                sheet.draw_line(middle, (end.tl + end.br) / 2, color=mark.colour, width=1.2)
                sheet.draw_circle((end.tl + end.br) / 2, 2, color=mark.colour, fill=mark.colour)
        for mark, box in visible_marks:
            if mark.label:
                width = pymupdf.get_text_length(mark.label, fontname="hebo", fontsize=_LETTER_PT) + 4
                flag_x0 = max(0.0, box.x0 - width)
                flag = pymupdf.Rect(flag_x0, box.y0 - 0.4, flag_x0 + width, box.y0 + _LETTER_PT + 1.6)
                sheet.draw_rect(flag, color=None, fill=mark.colour, radius=0.2)
                position = (flag.x0 + 2, flag.y1 - 2.2)
                sheet.insert_text(position, mark.label, fontname="hebo", fontsize=_LETTER_PT, color=(1, 1, 1))
        return sheet.get_pixmap(dpi=dpi, alpha=False)
