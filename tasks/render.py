"""The pixels of a figure, its name and its encoding."""

import hashlib
import io
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.documents import Figure
from schemas.geometry import BBox
from schemas.ids import figure_id

if TYPE_CHECKING:
    import pymupdf

Pixels = NDArray[np.uint8]
"""RGB, shape ``(height, width, 3)``."""

_PNG_EFFORT = 3


def native(document: "pymupdf.Document", xref: int, mask_xref: int) -> Pixels:
    """Return an embedded image as stored, its mask flattened on white.

    Args:
        document: The open PDF.
        xref: The image.
        mask_xref: Its soft mask; 0 where it has none.
    """
    import pymupdf

    pixmap = pymupdf.Pixmap(document, xref)
    if pixmap.colorspace is None or pixmap.colorspace.n != 3:
        pixmap = pymupdf.Pixmap(pymupdf.csRGB, pixmap)
    rgb = _array(pixmap)[:, :, :3]
    if not mask_xref:
        return _flattened(rgb, _array(pixmap)[:, :, 3]) if pixmap.alpha else np.ascontiguousarray(rgb)
    mask = pymupdf.Pixmap(document, mask_xref)
    alpha = _array(mask)[:, :, 0]
    if alpha.shape != rgb.shape[:2]:
        alpha = np.asarray(Pillow.fromarray(alpha).resize((rgb.shape[1], rgb.shape[0]), Pillow.Resampling.BILINEAR))
    return _flattened(rgb, alpha)


def drawn(page: "pymupdf.Page", box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
    """Return a part of a page as a reader sees it, on white.

    The part is moved to the origin before it is drawn, so the same drawing a fraction of a point further along gives the
    same pixels.

    Args:
        page: The page at rotation 0.
        box: Which part.
        dpi: Resolution.
        max_pixels: Pixels at most; a larger part is drawn at a lower resolution.
    """
    import pymupdf

    scale = min(dpi / 72, math.sqrt(max_pixels / max(1.0, box.area)))
    matrix = pymupdf.Matrix(scale, 0, 0, scale, -box.x0 * scale, -box.y0 * scale)
    pixmap = page.get_pixmap(matrix=matrix, clip=pymupdf.Rect(box), colorspace=pymupdf.csRGB, alpha=False)
    return np.ascontiguousarray(_array(pixmap))


def turned(pixels: Pixels, rotation: int) -> Pixels:
    """Return pixels of an unrotated page as its reader sees them; ``rotation`` in degrees clockwise."""
    return np.ascontiguousarray(np.rot90(pixels, -(rotation // 90) % 4))


def encode(pixels: Pixels) -> tuple[Figure, bytes]:
    """Return a figure and its lossless encoding."""
    height, width, _ = pixels.shape
    raw = pixels.tobytes()
    sink = io.BytesIO()
    Pillow.fromarray(pixels).save(sink, "PNG", compress_level=_PNG_EFFORT)
    name = figure_id(width, height, raw)
    sha1 = hashlib.sha1(f"{width}x{height}:".encode() + raw, usedforsecurity=False).hexdigest()
    return Figure(name, sha1, width, height, "png"), sink.getvalue()


def decode(data: bytes) -> tuple[int, int, bytes]:
    """Return width, height and RGB bytes of an encoded figure."""
    with Pillow.open(io.BytesIO(data)) as picture:
        rgb = picture.convert("RGB")
        return rgb.width, rgb.height, rgb.tobytes()


def _array(pixmap: "pymupdf.Pixmap") -> Pixels:
    flat = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.stride)
    return flat[:, : pixmap.width * pixmap.n].reshape(pixmap.height, pixmap.width, pixmap.n)


def _flattened(rgb: Pixels, alpha: Pixels) -> Pixels:
    weight = alpha.astype(np.uint16)[:, :, None]
    mixed = (rgb.astype(np.uint16) * weight + 255 * (255 - weight) + 127) // 255
    return mixed.astype(np.uint8)
