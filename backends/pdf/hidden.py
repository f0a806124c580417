"""Text of a page that its reader doesn't read: large words across it, and letters that don't show."""

import ctypes
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backends.pdf.pixels import MOST_PIXELS, draw
from schemas.documents import Line
from schemas.drawings import Image, PageLine
from schemas.geometry import BBox

if TYPE_CHECKING:
    import pymupdf

ACROSS_TIMES = 2.0
"""Minimum size of the letters of a watermark, relative to those of the page."""
SLANT = 0.1
"""Minimum sine and cosine of the angle of words across a page."""
SHIFT_EM = 0.25
"""Maximum distance between a letter and the same letter drawn again, in ems."""
CONTRAST = 24
"""Minimum difference between the darkest and the brightest pixel of words that show, of 255."""
_SHOWN_DPI = 72


def without_disturbing(
    document: "pymupdf.Document", number: int, lines: Sequence[dict[str, Any]]
) -> "pymupdf.Document | None":
    """Return a page alone, without large slanted words and letters drawn again: readers of its layout mix them with the text.

    Args:
        document: The document, which doesn't change.
        number: The page, from 1.
        lines: The lines of its text, as ``extractDICT`` returns them.

    Returns:
        A document of that page; None if the page has no such words.
    """
    import pymupdf

    level = sorted(line["spans"][0]["size"] for line in lines if not _is_slanted(*line["dir"]))
    slanted = [line["spans"][0]["size"] for line in lines if _is_slanted(*line["dir"])]
    least = ACROSS_TIMES * level[len(level) // 2] if level else 0.0
    has_watermark = bool(level) and any(size >= least for size in slanted)
    if not has_watermark and not _has_copies([span for line in lines for span in line["spans"]]):
        return None
    alone = pymupdf.open()
    alone.insert_pdf(document, from_page=number - 1, to_page=number - 1)
    _filter_text(alone[0], least if has_watermark else float("inf"))
    return alone


def _has_copies(spans: Sequence[dict[str, Any]]) -> bool:
    """Return whether words are drawn over the same words: as an outline over the fill, a shadow, or for a bolder look."""
    ordered = sorted((span for span in spans if not span["text"].isspace()), key=lambda span: span["origin"][1])
    for at, span in enumerate(ordered):
        x0, _, x1, _ = span["bbox"]
        for later_span in ordered[at + 1 :]:
            if later_span["origin"][1] - span["origin"][1] > SHIFT_EM * span["size"]:
                break
            shared = min(x1, later_span["bbox"][2]) - max(x0, later_span["bbox"][0])
            short, long = sorted((span["text"].strip(), later_span["text"].strip()), key=len)
            if 2 * shared > min(x1 - x0, later_span["bbox"][2] - later_span["bbox"][0]) > 0 and short in long:
                return True
    return False


def is_across(line: Line) -> bool:
    """Return whether a line is slanted: others are no higher, or no wider, than their letters."""
    return min(line.bbox.width, line.bbox.height) >= ACROSS_TIMES * line.size


def _is_slanted(across: float, down: float) -> bool:
    return abs(across) > SLANT and abs(down) > SLANT


def _filter_text(page: "pymupdf.Page", least: float) -> None:
    from pymupdf import mupdf

    drawn: dict[int, list[tuple[float, float]]] = defaultdict(list)

    class Words(mupdf.PdfSanitizeFilterOptions2):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.use_virtual_text_filter()

        def text_filter(self, _context: Any, codes: Any, count: int, text: Any, page: Any, box: Any, *_further: Any) -> int:
            """Return whether a letter is left out."""
            across, down = text.a * page.a + text.b * page.c, text.a * page.b + text.b * page.d
            size = math.hypot(across, down)
            if size >= least and _is_slanted(across / size, down / size):
                return 1
            x, y = text.e * page.a + text.f * page.c + page.e, text.e * page.b + text.f * page.d + page.f
            letter = ctypes.c_int.from_address(int(codes)).value if count else 0
            shift = min(SHIFT_EM, (box.x1 - box.x0) / 2) * size  # "ll" are two letters
            near = [origin for origin in drawn[letter] if max(abs(origin[0] - x), abs(origin[1] - y)) <= shift]
            if not near:
                drawn[letter].append((x, y))
            return int(bool(near))

    words = Words()

    class Factory(mupdf.PdfFilterFactory2):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.use_virtual_filter()

        def filter(self, _context: Any, document: Any, chain: Any, parents: int, transform: Any, options: Any) -> Any:
            return mupdf.ll_pdf_new_sanitize_filter(document, chain, parents, transform, options, words.internal())

    factory, options = Factory(), mupdf.PdfFilterOptions()
    # All are set: without the last two, the page stayed as it was in some processes.
    options.recurse = options.instance_forms = 1
    options.ascii = options.no_update = 0
    options.add_factory(factory.internal())
    pdf_page = mupdf.pdf_page_from_fz_page(page.this)
    mupdf.pdf_filter_page_contents(pdf_page.doc(), pdf_page, options)


def without_unseen(
    lines: Sequence[PageLine], white: Sequence[Line], images: Sequence[Image], listing: "pymupdf.DisplayList", page: BBox
) -> list[PageLine]:
    """Return lines without those that don't show: invisible ones that aren't those of a picture, and white ones on white.

    Args:
        lines: Of a page. A page without a visible line keeps the invisible ones.
        white: The lines in white letters.
        images: The page's; invisible text over one is what OCR read in it.
        listing: The page's drawing.
        page: The page's box.
    """
    unseen = {line for line in white if not _shows(line.bbox & page, listing)}
    if any(is_visible for _, is_visible in lines):
        unseen |= {
            line
            for line, is_visible in lines
            if not (is_visible or any(image.bbox.has_middle_of(line.bbox) for image in images))
        }
    return [page_line for page_line in lines if page_line.line not in unseen]


def _shows(box: BBox, listing: "pymupdf.DisplayList") -> bool:
    pixels = draw(listing, box, dpi=_SHOWN_DPI, max_pixels=MOST_PIXELS)
    return int(pixels.max()) - int(pixels.min()) >= CONTRAST
