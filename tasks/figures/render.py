"""The pixels of a figure, its name and its encoding."""

import hashlib
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.documents import Figure
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox
from schemas.ids import figure_id
from tasks.reading.read import refusing

Pixels = NDArray[np.uint8]
"""RGB, shape ``(height, width, 3)``."""

MOST_PIXELS = 100_000_000
"""Pixels that an image may declare; a larger one is not decoded."""

_INFLATED_AT_MOST = 1100  # deflate packs at most 1032 to 1
_PNG_EFFORT = 1
_SLANT = 0.01
_OFF_GRID = 0.03
_STRIDE = 16  # few pixels tell most pictures from blank ones


def native(image: Any) -> Pixels:
    """Return an embedded image as stored, its mask flattened on white.

    Args:
        image: MuPDF's image.

    Raises:
        BadInputError: It declares more pixels than it may or can hold, or can't be decoded.
    """
    from pymupdf import mupdf

    _refuse_lies(image)
    with refusing("an image can't be decoded", FailureCode.IMAGE_REJECTED):
        pixmap = _decoded(image)
        space = mupdf.fz_pixmap_colorspace(pixmap)
        if not space.m_internal:
            raise BadInputError("an image has no colours", FailureCode.IMAGE_REJECTED)
        if mupdf.fz_colorspace_n(space) != 3 or mupdf.fz_colorspace_is_lab(space):
            pixmap = mupdf.fz_convert_pixmap(
                pixmap,
                mupdf.FzColorspace(mupdf.FzColorspace.Fixed_RGB),
                mupdf.FzColorspace(),
                mupdf.FzDefaultColorspaces(None),
                mupdf.FzColorParams(),
                1,
            )
        samples = _array(pixmap)
        rgb = np.ascontiguousarray(samples[:, :, :3])
        if pixmap.alpha():
            # MuPDF's colours are premultiplied: what is missing to full cover is white.
            rgb = rgb + (255 - samples[:, :, 3:4])
        mask = image.mask()
        return _flattened(rgb, _array(_decoded(mask))[:, :, -1]) if mask.m_internal else rgb


def _refuse_lies(image: Any) -> None:
    from pymupdf import mupdf

    width, height = int(image.w()), int(image.h())
    if width * height > MOST_PIXELS:
        raise BadInputError(
            f"an image declares {width} x {height} pixels, more than {MOST_PIXELS:,}", FailureCode.IMAGE_REJECTED
        )
    stream = mupdf.fz_compressed_image_buffer(image)
    if not stream.m_internal:
        return
    held = int(stream.fz_compressed_buffer_size())
    most = {mupdf.FZ_IMAGE_RAW: 1, mupdf.FZ_IMAGE_FLATE: _INFLATED_AT_MOST}.get(stream.m_internal.params.type)
    promised = width * height * int(image.n()) * int(image.bpc()) // 8
    if most is not None and promised > held * most + 4096:
        raise BadInputError(
            f"an image declares {width} x {height} pixels but holds {held} bytes", FailureCode.IMAGE_REJECTED
        )


def _decoded(image: Any) -> Any:
    import pymupdf
    from pymupdf import mupdf

    everything = mupdf.FzIrect(
        pymupdf.FZ_MIN_INF_RECT, pymupdf.FZ_MIN_INF_RECT, pymupdf.FZ_MAX_INF_RECT, pymupdf.FZ_MAX_INF_RECT
    )
    scale = mupdf.FzMatrix(image.w(), 0, 0, image.h(), 0, 0)
    return mupdf.fz_get_pixmap_from_image(image, everything, scale)[0]


def stream_of(image: Any) -> bytes | None:
    """Return an image's bytes as they are embedded; None where MuPDF no longer has them."""
    from pymupdf import mupdf

    stream = mupdf.fz_compressed_image_buffer(image)
    if not stream.m_internal:
        return None
    buffer = mupdf.FzBuffer(mupdf.ll_fz_keep_buffer(stream.m_internal.buffer))
    return bytes(buffer.fz_buffer_extract_copy())


def drawn(listing: Any, box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
    """Return a part of a page as it is drawn, on white.

    The part is moved to the origin before it is drawn, so that the same drawing a fraction of a point further along gives
    the same pixels.

    Args:
        listing: The display list of the page at rotation 0.
        box: Which part.
        dpi: Resolution.
        max_pixels: Pixels at most; a larger part is drawn at a lower resolution.

    Raises:
        BadInputError: It can't be drawn.
    """
    from pymupdf import mupdf

    scale = min(dpi / 72, math.sqrt(max_pixels / max(1.0, box.area)))
    # Sizes and edges that are whole numbers of points stay clear of the rounding of pixels.
    width, height = (max(1, math.floor(side * scale + 0.87)) for side in (box.width, box.height))
    matrix = mupdf.FzMatrix(scale, 0, 0, scale, _OFF_GRID - box.x0 * scale, _OFF_GRID - box.y0 * scale)
    with refusing("a figure can't be drawn", FailureCode.IMAGE_REJECTED):
        pixmap = mupdf.fz_new_pixmap_with_bbox(
            mupdf.FzColorspace(mupdf.FzColorspace.Fixed_RGB), mupdf.FzIrect(0, 0, width, height), mupdf.FzSeparations(), 0
        )
        mupdf.fz_clear_pixmap_with_value(pixmap, 255)
        device = mupdf.fz_new_draw_device(matrix, pixmap)
        seen = mupdf.FzRect(box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1)
        mupdf.fz_run_display_list(listing.this, device, mupdf.FzMatrix(), seen, mupdf.FzCookie())
        mupdf.fz_close_device(device)
    return np.ascontiguousarray(_array(pixmap)[:, :, :3])


def as_read(pixels: NDArray[Any], matrix: tuple[float, float, float, float], rotation: int) -> NDArray[Any] | None:
    """Turn an image's pixels to how its reader sees them.

    Args:
        pixels: As stored.
        matrix: How the page's content turns and stretches the image's unit square, y downwards.
        rotation: The page's own, in degrees clockwise.

    Returns:
        The same pixels, turned and mirrored; None where the image is slanted.
    """
    if is_slanted(matrix):
        return None
    a, b, c, d = matrix
    if abs(a) > abs(b):
        pixels = pixels[:: 1 if d > 0 else -1, :: 1 if a > 0 else -1]
    else:
        pixels = np.swapaxes(pixels, 0, 1)[:: 1 if b > 0 else -1, :: 1 if c > 0 else -1]
    return turned(pixels, rotation)


def stands_as_stored(matrix: tuple[float, float, float, float], rotation: int) -> bool:
    """Say whether an image is upright, either on the page as written or on the page as its rotation shows it."""
    probe = np.arange(6).reshape(2, 3)
    views = (as_read(probe, matrix, 0), as_read(probe, matrix, rotation))
    return any(view is not None and np.array_equal(view, probe) for view in views)


def is_slanted(matrix: tuple[float, float, float, float]) -> bool:
    """Say whether an image's edges are not those of the page."""
    a, b, c, d = matrix
    return max(abs(b), abs(c)) > _SLANT * max(abs(a), abs(d)) and max(abs(a), abs(d)) > _SLANT * max(abs(b), abs(c))


def turned(pixels: NDArray[Any], rotation: int) -> NDArray[Any]:
    """Return pixels of an unrotated page as its reader sees them; ``rotation`` in degrees clockwise."""
    return np.ascontiguousarray(np.rot90(pixels, -(rotation // 90) % 4))


def scaled(pixels: Pixels, max_pixels: int) -> Pixels:
    """Return pixels at a lower resolution where they are more than ``max_pixels``."""
    height, width, _ = pixels.shape
    if width * height <= max_pixels:
        return pixels
    factor = math.sqrt(max_pixels / (width * height))
    size = max(1, int(width * factor)), max(1, int(height * factor))
    return np.asarray(Pillow.fromarray(pixels).resize(size, Pillow.Resampling.BOX))


def encode(pixels: Pixels) -> tuple[Figure, bytes]:
    """Return a figure and its lossless encoding."""
    height, width, _ = pixels.shape
    raw = pixels.tobytes()
    sink = io.BytesIO()
    Pillow.fromarray(pixels).save(sink, "PNG", compress_level=_PNG_EFFORT)
    sha1 = hashlib.sha1(f"{width}x{height}:".encode(), usedforsecurity=False)
    sha1.update(raw)
    return Figure(figure_id(width, height, raw), sha1.hexdigest(), width, height, "png"), sink.getvalue()


def is_blank(pixels: Pixels) -> bool:
    """Say whether a picture has one colour only."""
    first = pixels[0, 0]
    return bool((pixels[::_STRIDE, ::_STRIDE] == first).all() and (pixels == first).all())


def _array(pixmap: Any) -> Pixels:
    import pymupdf

    wrapped = pymupdf.Pixmap("raw", pixmap)
    flat = np.frombuffer(wrapped.samples, np.uint8).reshape(wrapped.height, wrapped.stride)
    return flat[:, : wrapped.width * wrapped.n].reshape(wrapped.height, wrapped.width, wrapped.n)


def _flattened(rgb: Pixels, alpha: Pixels) -> Pixels:
    if alpha.shape != rgb.shape[:2]:
        # The finer of the two decides, so that a sharp mask over a coarse image stays sharp.
        size = max(rgb.shape[1], alpha.shape[1]), max(rgb.shape[0], alpha.shape[0])
        alpha = np.asarray(Pillow.fromarray(np.ascontiguousarray(alpha)).resize(size, Pillow.Resampling.NEAREST))
        rgb = np.asarray(Pillow.fromarray(rgb).resize(size, Pillow.Resampling.NEAREST))
    mixed = np.empty_like(rgb)
    for top in range(0, rgb.shape[0], 256):
        band = slice(top, top + 256)
        weight = alpha[band].astype(np.uint16)[:, :, None]
        mixed[band] = (rgb[band].astype(np.uint16) * weight + 255 * (255 - weight) + 127) // 255
    return mixed
