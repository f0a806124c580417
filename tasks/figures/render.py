"""Figures as pixels: what the reader sees is decoded or drawn once, encoded, named and kept once."""

import hashlib
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.documents import Figure, Kind, LayoutLabel, Line, PageRegion, Role, lines_in
from schemas.drawings import Image, Pixels
from schemas.errors import BadInputError
from schemas.geometry import BBox, overlap
from schemas.ids import figure_id
from schemas.ports import PdfImage, PdfPage
from tasks.figures.parts import PictureRegion
from tasks.tables.align import levels_of

Matrix = tuple[float, float, float, float]
"""How the page rotates and scales an image's unit square, y downwards."""

_PNG_EFFORT = 1
_SLANT = 0.01
"""Tolerated rise of an image's upper edge, relative to its width, that is still horizontal."""

_PROBE = tuple(range(6))
_STRIDE = 16  # a sample of pixels is enough for most pictures that are not blank


def as_displayed(pixels: NDArray[Any], matrix: Matrix, rotation: int) -> NDArray[Any]:
    """Rotate and mirror an image's pixels as the reader sees them.

    Args:
        pixels: As stored.
        matrix: How it is drawn; not slanted.
        rotation: The page's own, in degrees clockwise.
    """
    a, b, c, d = matrix
    if abs(a) > abs(b):
        pixels = pixels[:: 1 if d > 0 else -1, :: 1 if a > 0 else -1]
    else:
        pixels = np.swapaxes(pixels, 0, 1)[:: 1 if b > 0 else -1, :: 1 if c > 0 else -1]
    return rotated_pixels(pixels, rotation)


def _displayed_probe(matrix: Matrix, rotation: int) -> tuple[int, ...]:
    """Return six different pixels of unequal sides as displayed: they tell every rotation and mirroring apart."""
    return tuple(as_displayed(np.array(_PROBE).reshape(2, 3), matrix, rotation).ravel().tolist())


def is_slanted(matrix: Matrix) -> bool:
    """Return whether an image's edges are not parallel to those of the page."""
    a, b, c, d = matrix
    return max(abs(b), abs(c)) > _SLANT * max(abs(a), abs(d)) and max(abs(a), abs(d)) > _SLANT * max(abs(b), abs(c))


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
    # The size is hashed, too: the same bytes may be a picture of another shape.
    sha1 = hashlib.sha1(f"{width}x{height}:".encode(), usedforsecurity=False)
    sha1.update(raw)
    return Figure(figure_id(width, height, raw), sha1.hexdigest(), width, height, "png"), sink.getvalue()


def is_blank(pixels: Pixels) -> bool:
    """Return whether a picture has one colour only."""
    first = pixels[0, 0]
    return bool((pixels[::_STRIDE, ::_STRIDE] == first).all() and (pixels == first).all())


KeepFigure = Callable[[str, bytes], None]
"""Receives a figure's name in the store (``<figure_id>.png``) and its bytes."""


class FigureCollector:
    """The figures of a document so far."""

    def __init__(self, keep_figure: KeepFigure) -> None:
        self.figures: dict[str, Figure] = {}
        self._keep_figure = keep_figure
        self._blank: set[str] = set()
        # A reference to an image keeps it equal to its later occurrences.
        self._seen: dict[tuple[PdfImage, tuple[int, ...]], tuple[Figure | BadInputError, str | None]] = {}

    def figure_of(self, region: PictureRegion, box: BBox, role: Role, page: PdfPage) -> tuple[Figure, str | None]:
        """Return the figure of a picture, and the digest of its embedded stream if it is exactly one image.

        Args:
            region: The picture.
            box: Its box as stored.
            role: Its role.
            page: The page that draws it.

        Raises:
            BadInputError: It is too large, or can't be decoded or drawn.
        """
        image = region.image
        # A background is kept as the page shows it: figures cut out of it include the words on it.
        if role is Role.BACKGROUND or image is None or image.cut or image.is_mask or is_slanted(image.matrix):
            return self._drawn(page, box), None
        return self._embedded(image, page, upright=region.kind is Kind.SCAN)

    def is_blank(self, figure: Figure) -> bool:
        """Return whether a figure has only one colour."""
        return figure.figure_id in self._blank

    def _embedded(self, image: Image, page: PdfPage, *, upright: bool) -> tuple[Figure, str | None]:
        """Return the figure of one image; ``upright``: as the page shows it, however it is stored."""
        embedded, displayed = page.embedded(image), _displayed_probe(image.matrix, page.rotation)
        # It may be upright on the page as written, too.
        is_plain = not upright and _PROBE in (displayed, _displayed_probe(image.matrix, 0))
        cache_key = embedded, _PROBE if is_plain else displayed
        if cache_key not in self._seen:
            self._seen[cache_key] = self._decoded(embedded, None if is_plain else image.matrix, page.rotation)
        figure, raw_sha1 = self._seen[cache_key]
        # A failure is kept as well, so that a broken image on many pages is decoded once, and reported for each.
        if isinstance(figure, BadInputError):
            raise figure
        return figure, raw_sha1

    def _decoded(self, embedded: PdfImage, turn: Matrix | None, rotation: int) -> tuple[Figure | BadInputError, str | None]:
        try:
            pixels = embedded.pixels()
        except BadInputError as error:
            return error, None
        if turn is not None:
            pixels = as_displayed(pixels, turn, rotation)
        raw_sha1 = stream_sha1(embedded)
        return self._keep(scaled(pixels, MAX_FIGURE_PIXELS)), raw_sha1

    def _drawn(self, page: PdfPage, box: BBox) -> Figure:
        pixels = page.draw(box, dpi=RENDER_DPI, max_pixels=MAX_FIGURE_PIXELS)
        return self._keep(rotated_pixels(pixels, page.rotation))

    def _keep(self, pixels: Pixels) -> Figure:
        figure, data = encode(pixels)
        if figure.figure_id not in self.figures:
            self.figures[figure.figure_id] = figure
            self._keep_figure(f"{figure.figure_id}.{figure.ext}", data)
            if is_blank(pixels):
                self._blank.add(figure.figure_id)
        return figure


def stream_sha1(image: PdfImage) -> str | None:
    """Return the SHA-1 of an image's embedded bytes; None without any."""
    stream = image.stream()
    return None if stream is None else hashlib.sha1(stream, usedforsecurity=False).hexdigest()


RENDER_DPI = 150
"""Resolution of figures that are more than one embedded image."""

MAX_FIGURE_PIXELS = 16_000_000
"""Pixels of a figure; larger ones are scaled. It is in the key of a parse."""

MARGIN_PT = 2.0
"""Room around a formula, whose letters may reach beyond their boxes."""


def formula_regions(
    regions: Sequence[PageRegion], located: Sequence[PictureRegion], lines: Sequence[Line]
) -> list[PictureRegion]:
    """Return the formulas of several rows, such as fractions, that are in no picture yet and aren't code."""
    formulas: list[PictureRegion] = []
    for region in regions:
        if region.label is LayoutLabel.FORMULA and not any(overlap(region.bbox, picture.bbox) for picture in located):
            inner = lines_in(region.bbox, lines)
            if len(levels_of(inner)) > 1 and not any(line.mono for line in inner):
                formulas.append(PictureRegion(region.bbox.grown(MARGIN_PT), Kind.VECTOR))
    return formulas
