"""The pixels of a figure as the reader sees them, its name and its encoding."""

import hashlib
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.documents import Figure
from schemas.drawings import Pixels
from schemas.ids import figure_id

Matrix = tuple[float, float, float, float]
"""How the page rotates and scales an image's unit square, y downwards."""

_PNG_EFFORT = 1
_SLANT = 0.01
"""Tolerated rise of an image's upper edge, relative to its width, that is still horizontal."""

_STRIDE = 16  # a sample of pixels is enough for most pictures that are not blank


def as_displayed(pixels: NDArray[Any], matrix: Matrix, rotation: int) -> NDArray[Any] | None:
    """Rotate and mirror an image's pixels as the reader sees them.

    Args:
        pixels: As stored.
        matrix: How it is drawn.
        rotation: The page's own, in degrees clockwise.

    Returns:
        The same pixels, rotated and mirrored; None if the image is slanted.
    """
    if is_slanted(matrix):
        return None
    a, b, c, d = matrix
    if abs(a) > abs(b):
        pixels = pixels[:: 1 if d > 0 else -1, :: 1 if a > 0 else -1]
    else:
        pixels = np.swapaxes(pixels, 0, 1)[:: 1 if b > 0 else -1, :: 1 if c > 0 else -1]
    return rotated_pixels(pixels, rotation)


def stands_as_stored(matrix: Matrix, rotation: int) -> bool:
    """Return whether an image is upright, either on the page as written or on the page as its rotation shows it."""
    probe = np.arange(6).reshape(2, 3)
    views = (as_displayed(probe, matrix, 0), as_displayed(probe, matrix, rotation))
    return any(view is not None and np.array_equal(view, probe) for view in views)


def is_slanted(matrix: Matrix) -> bool:
    """Return whether an image's edges are not parallel to those of the page."""
    a, b, c, d = matrix
    return max(abs(b), abs(c)) > _SLANT * max(abs(a), abs(d)) and max(abs(a), abs(d)) > _SLANT * max(abs(b), abs(c))


def matrix_signs(matrix: Matrix) -> tuple[int, ...]:
    """Return how an image is rotated and mirrored, whatever its size: the sign of each entry, 0 if it is negligible."""
    largest = max(map(abs, matrix))
    return tuple(0 if abs(part) <= _SLANT * largest else 1 if part > 0 else -1 for part in matrix)


def rotated_pixels(pixels: NDArray[Any], rotation: int) -> NDArray[Any]:
    """Return pixels of an unrotated page as its reader sees them; ``rotation`` in degrees clockwise."""
    return np.ascontiguousarray(np.rot90(pixels, -(rotation // 90) % 4))


def scaled(pixels: Pixels, max_pixels: int) -> Pixels:
    """Return pixels at a lower resolution if they are more than ``max_pixels``."""
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
    """Return whether a picture has one colour only."""
    first = pixels[0, 0]
    return bool((pixels[::_STRIDE, ::_STRIDE] == first).all() and (pixels == first).all())
