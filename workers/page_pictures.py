"""Pictures of whole pages, drawn in child processes and stored like figures."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from backends.pdf.opening import RELEASE
from backends.pdf.pixels import page_pixels
from backends.stores.object_store import open_store
from schemas.corpus import ParseOptions
from schemas.documents import DrawnPage, drawn_page_id
from schemas.ids import document_file, figure_file, key
from tasks.figures.render import encode, is_blank, scaled
from workers.child_processes import Refused, run_all
from workers.draw_pages import Drawing, open_in_child, refusal
from workers.isolation import writing

PICTURES_VERSION = "1"

DPI = 110
"""Resolution of page pictures: A4 has 910 × 1287 pixels, about the input size of page models."""

MAX_PIXELS = 4_000_000
"""Larger pictures, of drawings and posters, are scaled down."""


def drawn_key() -> str:
    """Digest what a page picture depends on beside its document."""
    return key(step=PICTURES_VERSION, pymupdf=RELEASE, dpi=DPI, max_pixels=MAX_PIXELS)


def keep_pictures(
    pages: Sequence[tuple[str, int]], *, store_address: str, limits: ParseOptions, passwords: Sequence[str]
) -> Iterator[DrawnPage]:
    """Draw pages, given by document id and number from 1, and store their pictures; yield each as it is done, in any order.

    Blank pages have no picture, nor have pages that crash or exceed the limits.
    """
    tasks = {
        Drawing(store_address, document_file(doc_id), page, DPI, passwords=tuple(passwords)): drawn_page_id(doc_id, page)
        for doc_id, page in pages
    }
    with contextlib.closing(run_all(_keep, [*tasks], limits)) as outcomes:
        for drawing, last in outcomes:
            if isinstance(last, Refused):
                refused = refusal(drawing, last, limits)
                yield DrawnPage(tasks[drawing], None, str(refused.code), refused.message)
            else:
                yield DrawnPage(tasks[drawing], last.result)


def _keep(drawing: Drawing, _opened: Callable[[int], None]) -> str | None:
    """Store the picture of a page, and return its figure id; None if the page is blank."""
    with writing(open_store(drawing.store_address), "figures/") as put:
        with open_in_child(drawing) as pdf:
            pixels = page_pixels(pdf, drawing.page, dpi=drawing.dpi)
        if is_blank(pixels):
            return None
        figure, data = encode(scaled(pixels, MAX_PIXELS))
        put(figure_file(figure.figure_id), data)
        return figure.figure_id
