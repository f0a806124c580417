"""Pixels from MuPDF: embedded images decoded, parts of a page drawn, pages drawn for people."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image as Pillow

from backends.pdf.opening import rejecting
from schemas.drawings import MAX_SIDE_PT, Pixels
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox, Box

if TYPE_CHECKING:
    import pymupdf

MOST_PIXELS = 100_000_000
"""Maximum pixels that an image may declare; a larger one is not decoded."""

_INFLATED_AT_MOST = 1100  # deflate packs at most 1032 to 1
_HEADERS_BYTES = 4096
_OFF_GRID_PX = 0.03
"""Offset from the pixel grid at which a part is drawn: at 0, edges on whole points fall between two pixels, and float noise
decides which one is inked; from half a pixel on, edges are blurred.
"""

_ROUNDED_UP_PX = 0.87
"""Added to a side in pixels before rounding down: up to 0.13 pixels of a drawing are cut off. At 1, float noise adds an empty
row; at 0.5, half a pixel is cut off.
"""


class EmbeddedImage:
    """Implements ``PdfImage`` with MuPDF: a repeated image has the same handle while one reference to it exists."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._address = handle.m_internal_value()

    def __eq__(self, image: object) -> bool:
        return isinstance(image, EmbeddedImage) and self._address == image._address

    def __hash__(self) -> int:
        return hash(self._address)

    def pixels(self) -> Pixels:
        """Return the image as stored, its mask flattened on white; see the port."""
        import pymupdf
        from pymupdf import mupdf

        # Sizes are checked first, since decoding allocates what the image declares.
        _refuse_false_sizes(self._handle)
        with rejecting("an image can't be decoded", FailureCode.IMAGE_REJECTED):
            pixmap = mupdf.fz_get_unscaled_pixmap_from_image(self._handle)
            space = mupdf.fz_pixmap_colorspace(pixmap)
            if not space.m_internal:
                raise BadInputError("an image has no colours", FailureCode.IMAGE_REJECTED)
            # Spaces of three components are RGB of some kind, whose values are kept as they are stored; Lab has three as well.
            if mupdf.fz_colorspace_n(space) != 3 or mupdf.fz_colorspace_is_lab(space):
                pixmap = pymupdf.Pixmap(pymupdf.csRGB, pixmap).this
            samples = _array(pixmap)
            rgb = np.ascontiguousarray(samples[:, :, :3])
            if pixmap.alpha():
                # MuPDF's colours are premultiplied: add white for the transparent share.
                rgb = rgb + (255 - samples[:, :, 3:4])
            mask = self._handle.mask()
            return (
                _flattened(rgb, _array(mupdf.fz_get_unscaled_pixmap_from_image(mask))[:, :, -1]) if mask.m_internal else rgb
            )

    def stream(self) -> bytes | None:
        """Return the image's embedded bytes; None if MuPDF no longer has them."""
        from pymupdf import mupdf

        stream = mupdf.fz_compressed_image_buffer(self._handle)
        if not stream.m_internal:
            return None
        buffer = mupdf.FzBuffer(mupdf.ll_fz_keep_buffer(stream.m_internal.buffer))
        return bytes(buffer.fz_buffer_extract_copy())


def draw(listing: "pymupdf.DisplayList", box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
    """Return a part of a page as it is drawn, on white.

    The part is moved to the origin first, so that the same drawing at another fraction of a point gives the same pixels.

    Args:
        listing: The display list of the page at rotation 0.
        box: Which part.
        dpi: Resolution.
        max_pixels: Maximum pixels; a larger part is drawn at a lower resolution.

    Raises:
        BadInputError: It can't be drawn.
    """
    from pymupdf import mupdf

    scale = min(dpi / 72, math.sqrt(max_pixels / max(1.0, box.area)))
    width, height = (max(1, math.floor(side * scale + _ROUNDED_UP_PX)) for side in (box.width, box.height))
    matrix = mupdf.FzMatrix(scale, 0, 0, scale, _OFF_GRID_PX - box.x0 * scale, _OFF_GRID_PX - box.y0 * scale)
    with rejecting("a figure can't be drawn", FailureCode.IMAGE_REJECTED):
        pixmap = mupdf.fz_new_pixmap_with_bbox(
            mupdf.FzColorspace(mupdf.FzColorspace.Fixed_RGB), mupdf.FzIrect(0, 0, width, height), mupdf.FzSeparations(), 0
        )
        mupdf.fz_clear_pixmap_with_value(pixmap, 255)
        device = mupdf.fz_new_draw_device(matrix, pixmap)
        drawn_area = mupdf.FzRect(box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1)
        mupdf.fz_run_display_list(listing.this, device, mupdf.FzMatrix(), drawn_area, mupdf.FzCookie())
        mupdf.fz_close_device(device)
    return np.ascontiguousarray(_array(pixmap)[:, :, :3])


def _refuse_false_sizes(image: Any) -> None:
    """Refuse an image that declares more pixels than allowed, or than its bytes can hold."""
    from pymupdf import mupdf

    width, height = int(image.w()), int(image.h())
    if width * height > MOST_PIXELS:
        raise BadInputError(
            f"an image declares {width} x {height} pixels, more than {MOST_PIXELS:,}", FailureCode.IMAGE_REJECTED
        )
    stream = mupdf.fz_compressed_image_buffer(image)
    if not stream.m_internal:
        return
    stored_bytes = int(stream.fz_compressed_buffer_size())
    largest_ratio = {mupdf.FZ_IMAGE_RAW: 1, mupdf.FZ_IMAGE_FLATE: _INFLATED_AT_MOST}.get(stream.m_internal.params.type)
    declared = width * height * int(image.n()) * int(image.bpc()) // 8
    if largest_ratio is not None and declared > stored_bytes * largest_ratio + _HEADERS_BYTES:
        raise BadInputError(
            f"an image declares {width} x {height} pixels but holds {stored_bytes} bytes", FailureCode.IMAGE_REJECTED
        )


def _array(pixmap: Any) -> Pixels:
    import pymupdf

    return _samples(pymupdf.Pixmap("raw", pixmap))


def _samples(pixmap: "pymupdf.Pixmap") -> Pixels:
    """Return a copy of the samples, since the pixmap's memory goes with it."""
    rows = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.stride)
    return rows[:, : pixmap.width * pixmap.n].reshape(pixmap.height, pixmap.width, pixmap.n)


def _flattened(rgb: Pixels, alpha: Pixels) -> Pixels:
    """Return pixels on white, masked by their alpha."""
    picture, mask = Pillow.fromarray(rgb), Pillow.fromarray(np.ascontiguousarray(alpha))
    if mask.size != picture.size:
        # Use the finer resolution, so that a sharp mask over a coarse image stays sharp.
        size = max(picture.width, mask.width), max(picture.height, mask.height)
        picture, mask = (pixels.resize(size, Pillow.Resampling.NEAREST) for pixels in (picture, mask))
    return np.asarray(Pillow.composite(picture, Pillow.new("RGB", picture.size, "white"), mask))


if TYPE_CHECKING:
    import pymupdf

MAX_PIXELS = 64_000_000
"""Maximum pixels: an A0 sheet at 200 dpi has 62 million, and takes 250 MB while it is drawn and encoded."""


def draw_page(pdf: "pymupdf.Document", page: int, *, highlight: Sequence[Box] = (), dpi: int = 110) -> bytes:
    """Return a page as PNG.

    Args:
        pdf: The document, opened.
        page: From 1; there must be such a page.
        highlight: Boxes to fill and frame, in points, origin at the top left of the unrotated page.
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
    return bytes(drawn.get_pixmap(dpi=dpi, alpha=False).tobytes("png"))


def page_pixels(pdf: "pymupdf.Document", page: int, *, dpi: int) -> Pixels:
    """Return a page's pixels; arguments and errors as for ``draw_page``."""
    return _samples(_sized(pdf, page, dpi).get_pixmap(dpi=dpi, alpha=False, colorspace="rgb"))


def _sized(pdf: "pymupdf.Document", page: int, dpi: int) -> "pymupdf.Page":
    drawn = pdf[page - 1]
    width_pt, height_pt = drawn.rect.width, drawn.rect.height
    problem, size = f"page {page} is too large to draw", f"{width_pt:.0f} × {height_pt:.0f} pt"
    if max(width_pt, height_pt) > MAX_SIDE_PT:
        raise BadInputError(f"{problem}: {size}", FailureCode.PAGE_TOO_LARGE, page)
    if width_pt * height_pt * (dpi / 72) ** 2 > MAX_PIXELS:
        largest_dpi = int(72 * (MAX_PIXELS / (width_pt * height_pt)) ** 0.5)
        message = f"{problem} at {dpi} dpi: {size}; at {largest_dpi} dpi it can be drawn"
        raise BadInputError(message, FailureCode.PAGE_TOO_LARGE, page)
    return drawn
