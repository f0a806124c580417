"""Pages as pictures, drawn in a process of its own: a hostile PDF may crash that one, never the service."""

import multiprocessing
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, NamedTuple

from schemas.errors import BadInputError, FailureCode, NotFoundError

if TYPE_CHECKING:
    import pymupdf

Box = tuple[float, float, float, float]

MAX_SIDE_PT = 14_400
"""The largest page that PDF allows without user units: 200 inches. Larger ones are not drawn."""

_TIMEOUT_S = 30


class Mark(NamedTuple):
    """A box to draw over a page, in points of the unrotated page; a flag beside it bears its label, unless that is "".

    ``colour`` is red, green and blue from 0 to 1.
    """

    box: Box
    label: str
    colour: tuple[float, float, float]
    dashed: bool = False


class PageRenderer:
    """Draws pages, one at a time, in a worker process that is replaced when it dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def render(
        self, document: bytes, page: int, *, highlight: Sequence[Box] = (), marks: Sequence[Mark] = (), dpi: int = 110
    ) -> bytes:
        """Return a page as PNG with boxes highlighted.

        Args:
            document: The PDF.
            page: From 1.
            highlight: Boxes in points, origin at the top left of the unrotated page.
            marks: Boxes to draw over the page, the last one on top.
            dpi: Resolution.

        Raises:
            NotFoundError: There is no such page.
            BadInputError: It is too large to draw, or drawing it failed.
        """
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            try:
                return self._pool.submit(_render, document, page, tuple(highlight), tuple(marks), dpi).result(_TIMEOUT_S)
            except (BrokenProcessPool, TimeoutError) as error:
                self._stop()
                raise BadInputError(f"page {page} can't be drawn", FailureCode.PAGE_UNREADABLE, page) from error

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _render(document: bytes, page: int, highlight: tuple[Box, ...], marks: tuple[Mark, ...], dpi: int) -> bytes:
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    with pymupdf.open(stream=document, filetype="pdf") as pdf:
        if not 1 <= page <= pdf.page_count:
            raise NotFoundError(f"there is no page {page}; the document has {pdf.page_count}")
        drawn = pdf[page - 1]
        if max(drawn.rect.width, drawn.rect.height) > MAX_SIDE_PT:
            raise BadInputError(f"page {page} is too large to draw", FailureCode.PAGE_TOO_LARGE, page)
        for box in highlight:
            rect = pymupdf.Rect(box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2)
            drawn.draw_rect(
                rect, color=(0.85, 0.35, 0.05), fill=(1, 0.8, 0.25), width=1.2, fill_opacity=0.18, stroke_opacity=0.9
            )
        pixels = drawn.get_pixmap(dpi=dpi, alpha=False)
        if marks:
            pixels = _marked(drawn, pixels, marks, dpi)
        return bytes(pixels.tobytes("png"))


_LETTER_PT = 9.0
_ROOM_PT = 1.5


def _marked(page: "pymupdf.Page", pixels: "pymupdf.Pixmap", marks: Sequence[Mark], dpi: int) -> "pymupdf.Pixmap":
    """Draw marks over a page's pixels: on a sheet of its own, which neither its rotation nor broken content can disturb."""
    import pymupdf

    with pymupdf.open() as pdf:
        sheet = pdf.new_page(width=page.rect.width, height=page.rect.height)
        sheet.insert_image(sheet.rect, pixmap=pixels)
        room = (-_ROOM_PT, -_ROOM_PT, _ROOM_PT, _ROOM_PT)
        boxes = [((pymupdf.Rect(mark.box) * page.rotation_matrix).normalize() + room) & sheet.rect for mark in marks]
        shown = [(mark, box) for mark, box in zip(marks, boxes, strict=True) if not box.is_empty]
        for mark, box in shown:
            dashes = "[3 2] 0" if mark.dashed else None
            sheet.draw_rect(box, color=mark.colour, fill=mark.colour, width=1, dashes=dashes, fill_opacity=0.06)
        for mark, box in shown:
            if mark.label:
                width = pymupdf.get_text_length(mark.label, fontname="hebo", fontsize=_LETTER_PT) + 4
                left = max(0.0, box.x0 - width)
                flag = pymupdf.Rect(left, box.y0 - 0.4, left + width, box.y0 + _LETTER_PT + 1.6)
                sheet.draw_rect(flag, color=None, fill=mark.colour, radius=0.2)
                place = (flag.x0 + 2, flag.y1 - 2.2)
                sheet.insert_text(place, mark.label, fontname="hebo", fontsize=_LETTER_PT, color=(1, 1, 1))
        return sheet.get_pixmap(dpi=dpi, alpha=False)
