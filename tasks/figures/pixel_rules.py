"""Find the rules of a table, and the skew of the page, in the pixels of a scanned page."""

import io
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy  # its submodules are loaded when they are used
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.documents import RecognisedLine
from schemas.drawings import InkedRun, Pixels
from schemas.geometry import BBox, skewed, straight

LEAST_LENGTH_SHARE = 1 / 70
"""Minimum length of a rule, relative to the longer side of the page: 12 pt of A4, more than the strokes of letters."""
THICKNESS_SHARE = 1 / 300
"""Maximum thickness of a rule, relative to the longer side of the page: 2.8 pt of A4. What is thicker is a shade."""
MOST_RULES = 300
"""Maximum rules of a page: more are the grain of a photograph."""
INK_LEVELS = 25
"""Minimum difference of a rule from the background, of 255 levels: a hairline is grey in the pixels of a scan."""


def rules_in(pixels: Pixels) -> list[BBox]:
    """Return the horizontal and vertical rules of the picture of a page, in its pixels; [] for a photograph."""
    grey = np.asarray(Pillow.fromarray(pixels).convert("L"))
    least, thick = (max(2, round(share * max(grey.shape))) for share in (LEAST_LENGTH_SHARE, THICKNESS_SHARE))
    # A closing by a square fills the places where rules cross, too.
    crossed = _ink_in(grey, (thick + 1, thick + 1))
    # A vertical rule is a horizontal one of the transposed picture.
    upright = (BBox(y0, x0, y1, x1) for x0, y0, x1, y1 in _bars(grey.T, crossed.T, least, thick))
    rules = [*_bars(grey, crossed, least, thick), *upright]
    return rules if len(rules) <= MOST_RULES else []


def _ink_in(grey: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return where a closing fills ink: what fits between two sides of a rectangle of that size, but no shades."""
    return np.asarray(scipy.ndimage.black_tophat(grey, size=size) > INK_LEVELS)


def _bars(grey: NDArray[np.uint8], crossed: NDArray[np.bool_], least: int, thick: int) -> list[BBox]:
    """Return horizontal bars of ink; pieces at least half as long are joined where a vertical rule crosses."""
    ink = _ink_in(grey, (thick + 1, 1))
    run, reach = least // 2 | 1, (thick + 2) | 1
    pieces = scipy.ndimage.maximum_filter1d(scipy.ndimage.minimum_filter1d(ink.astype(np.uint8), run), run)
    closed_pieces = scipy.ndimage.minimum_filter1d(scipy.ndimage.maximum_filter1d(pieces, reach), reach)
    labels, _ = scipy.ndimage.label(pieces | (closed_pieces & crossed), np.ones((3, 3)))
    boxes = [
        BBox(columns.start, rows.start, columns.stop, rows.stop) for rows, columns in scipy.ndimage.find_objects(labels)
    ]
    return [box for box in boxes if box.width >= max(least, box.height)]


WHITE_SHARE = 0.15
"""Share of the height of a line's box, above and below, in which its ink isn't measured."""
INK_SHARE = 0.35
"""Minimum difference of a letter from the background, relative to that of the line's darkest pixel."""


GAP_SHARE = 1.2
"""Minimum width of a gap between two cells, relative to the height of the letters."""
ITALIC_SLOPE = 0.2
"""How far italic letters lean to the right, relative to their height."""


def ink_of(picture: bytes, lines: Sequence[RecognisedLine], boxes: Sequence[BBox]) -> list[list[InkedRun]]:
    """Return the runs of each line of an encoded picture, whose boxes there are given, relative to the length of the box."""
    with Pillow.open(io.BytesIO(picture)) as opened:
        grey = np.asarray(opened.convert("L")).astype(np.float32)
    return [_ink(grey, line, box) for line, box in zip(lines, boxes, strict=True)]


def _ink(grey: NDArray[np.float32], line: RecognisedLine, box: BBox) -> list[InkedRun]:
    x0, y0, x1, y1 = (max(0, round(side)) for side in box)
    pixels = np.rot90(grey[y0:y1, x0:x1], line.turn // 90)
    if not pixels.size:
        return [InkedRun(line.text)]
    white = round(WHITE_SHARE * len(pixels))
    ink = np.abs(pixels - np.median(pixels))
    is_inked = ink > INK_SHARE * ink.max()
    # A rule between two cells is as high as the box, letters aren't.
    inked = np.flatnonzero(is_inked[white : len(ink) - white].any(axis=0) & ~is_inked.all(axis=0))
    ink = ink[white : len(ink) - white]
    if not inked.size:
        return [InkedRun(line.text)]
    pieces = np.split(inked, np.flatnonzero(np.diff(inked) > GAP_SHARE * len(ink)) + 1)
    words = line.text.split()
    # The widest gaps are those between words.
    gaps = np.sort(np.argsort(-np.diff(inked), kind="stable")[: len(words) - 1])
    bounds = [0, *np.searchsorted(gaps, np.cumsum([len(piece) for piece in pieces[:-1]])).tolist(), len(words)]
    if len(set(bounds)) < len(bounds):
        pieces, bounds = [inked], [0, len(words)]
    return [
        _run(" ".join(words[first:last]), ink, piece[0], piece[-1] + 1)
        for piece, (first, last) in zip(pieces, pairwise(bounds), strict=True)
    ]


def _run(text: str, ink: NDArray[np.float32], start: int, end: int) -> InkedRun:
    length, run_ink = ink.shape[1], ink[:, start:end]
    # A row of pixels that crosses a stroke becomes darker and brighter again: ink is shared by as many strokes.
    edges = np.abs(np.diff(run_ink, axis=1, prepend=0, append=0)).sum()
    to_right, to_left = (_upright_edges(run_ink, slope) for slope in (ITALIC_SLOPE, -ITALIC_SLOPE))
    stroke = float(2 * run_ink.sum() / edges)
    return InkedRun(text, start / length, end / length, stroke / length, to_right / (to_left or 1))


def _upright_edges(ink: NDArray[np.float32], slope: float) -> float:
    """Return how much the ink of columns that lean differs from one to the next."""
    rows, columns = np.indices(ink.shape)
    leaning = columns + np.rint(slope * rows).astype(int)
    return float(np.square(np.diff(np.bincount((leaning - leaning.min()).ravel(), ink.ravel()))).sum())


SKEW_VERSION = "1"

LARGEST_DEGREES = 6.0
"""Maximum skew that is searched for."""
LEAST_DEGREES = 0.25
"""Skew from which on a page is straightened. Of 48 upright pages the angle is 0.0, of 144 turned ones within 0.15 but for two."""
STEP_DEGREES = 0.1
PEAK_RATIO = 3.0
"""Minimum ratio of the sharpness at the angle to the median of all angles: at least 3.1 of pages, at most 2.8 of photographs."""
SHARPER_RATIO = 1.15
"""Minimum ratio of the sharpness at the angle to that of the picture as it is."""
LEAST_SIDE_PX, LARGEST_RATIO = 600, 2.0
"""Minimum side and maximum aspect ratio of what may be a page."""
SEARCHED_SIDE_PX = 1000
"""Longer side of the picture in which the angle is searched."""
STRAIGHT_SIDE_PX = 2000
"""Maximum longer side of a straightened picture: models and the search for rules take no larger ones."""
INK_LEVEL = 192
"""Level below which a pixel is ink, of 255 levels."""
MARGIN_SHARE = 0.05
"""Margin around the ink of a straightened page, relative to its longer side."""
EDGE_LEVELS = 40
"""Minimum difference of two pixels at an edge, of 255 levels."""
MOST_POINTS = 60_000
"""Points of edges that are counted, in each direction. Bounds the work."""

_Points = tuple[NDArray[np.float32], NDArray[np.float32]]


class Straightened(NamedTuple):
    """A page's picture without its skew, uncompressed, and how to find places in the given one.

    ``degrees`` are the skew, clockwise; ``corner`` is the picture's, in its pixels from the middle of the page; ``scale`` is from
    its pixels to those of the given picture, of which ``middle`` is the middle.
    """

    picture: bytes
    degrees: float
    corner: tuple[float, float]
    middle: tuple[float, float]
    scale: float

    @property
    def level_box(self) -> BBox:
        """Where its sides are in the given picture, if that were straight."""
        with Pillow.open(io.BytesIO(self.picture)) as opened:
            return self._level(BBox(0, 0, *opened.size))

    def as_given(self, box: BBox) -> BBox:
        """Return the box in the given picture around a box in the straightened one."""
        return skewed(self._level(box), self.degrees, self.middle)

    def as_straight(self, box: BBox) -> BBox:
        """Return the box in the straightened picture around which ``as_given`` made the given one."""
        (dx, dy), (x, y), scale = self.corner, self.middle, self.scale
        return _moved(straight(box, self.degrees, self.middle), 1 / scale, -x / scale - dx, -y / scale - dy)

    def _level(self, box: BBox) -> BBox:
        (dx, dy), (x, y), scale = self.corner, self.middle, self.scale
        return _moved(box, scale, x + scale * dx, y + scale * dy)


def _moved(box: BBox, scale: float, across: float, down: float) -> BBox:
    x0, y0, x1, y1 = (scale * side for side in box)
    return BBox(x0 + across, y0 + down, x1 + across, y1 + down)


def straightened(picture: bytes) -> Straightened | None:
    """Return the encoded picture of a page without its skew; None if it has none, may be no page, or can't be decoded."""
    try:
        return _straightened(picture)
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError):
        return None  # The model that gets it says what is wrong with it.


def _straightened(picture: bytes) -> Straightened | None:
    with Pillow.open(io.BytesIO(picture)) as opened:
        given_size = opened.size
        if min(given_size) < LEAST_SIDE_PX or max(given_size) > LARGEST_RATIO * min(given_size):
            return None
        # This lets a JPEG be decoded at a lower resolution. The given size is read before, since boxes are in its pixels.
        opened.draft("RGB", (STRAIGHT_SIDE_PX, STRAIGHT_SIDE_PX))
        degrees = _skew(opened)
        if not degrees:
            return None
        # The picture is scaled before it is turned, so that the larger one after the turn has the permitted size.
        turn = math.radians(abs(degrees))
        width, height = (given_size[axis] * math.cos(turn) + given_size[1 - axis] * math.sin(turn) for axis in (0, 1))
        scale = max(1.0, math.ceil(max(width, height)) / STRAIGHT_SIDE_PX)
        small = opened.convert("RGB").resize([round(side / scale) for side in given_size], Pillow.Resampling.BOX)
        straight = small.rotate(degrees, Pillow.Resampling.BICUBIC, expand=True, fillcolor="white")
    content, bitmap = _content(straight), io.BytesIO()
    straight.crop(content).save(bitmap, "BMP")
    corner = content.x0 - straight.width / 2, content.y0 - straight.height / 2
    return Straightened(bitmap.getvalue(), degrees, corner, (given_size[0] / 2, given_size[1] / 2), scale)


def _content(straight: Pillow.Image) -> BBox:
    """Return the box of a straightened picture with all its ink and a margin: in a wide margin a layout model sees less."""
    picture_box = BBox(0, 0, *straight.size)
    ink = straight.convert("L").point([255 * (level < INK_LEVEL) for level in range(256)]).getbbox()
    return BBox(*ink or picture_box).grown(round(MARGIN_SHARE * max(straight.size))) & picture_box


def _skew(page: Pillow.Image) -> float:
    """Return by how many degrees the lines and rules of a page are turned clockwise; 0.0 if they aren't, or none are seen.

    Edges are projected along each angle: where it is that of the lines, they fall on few rows.
    """
    scale = max(1.0, max(page.size) / SEARCHED_SIDE_PX)
    small = page.convert("L").resize([round(side / scale) for side in page.size], Pillow.Resampling.BOX)
    grey = np.asarray(small).astype(np.int16)
    along, beside = _edges(grey), _edges(grey.T)
    if not len(along[0]) or not len(beside[0]):
        return 0.0
    angles = np.arange(-LARGEST_DEGREES, LARGEST_DEGREES + STEP_DEGREES / 2, STEP_DEGREES)
    sharpness = _sharpness(along, beside, angles)
    degrees, upright = round(float(angles[sharpness.argmax()]), 1), sharpness[len(angles) // 2]
    is_sure = sharpness.max() >= max(PEAK_RATIO * np.median(sharpness), SHARPER_RATIO * upright)
    return degrees if is_sure and abs(degrees) >= LEAST_DEGREES else 0.0


def _edges(grey: NDArray[np.int16]) -> _Points:
    """Return the places of edges between a row and the next, along the rows and across them, from the middle."""
    rows, columns = np.nonzero(np.abs(np.diff(grey, axis=0)) > EDGE_LEVELS)
    some = slice(None, None, max(1, len(rows) // MOST_POINTS))
    return (columns[some] - grey.shape[1] / 2).astype(np.float32), rows[some].astype(np.float32)


def _sharpness(along: _Points, beside: _Points, degrees: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each angle how much the counts of edges differ from row to row, and from column to column."""
    return np.array(
        [
            _contrast(along, math.tan(math.radians(turn))) + _contrast(beside, -math.tan(math.radians(turn)))
            for turn in degrees
        ]
    )


def _contrast(points: _Points, slope: float) -> float:
    columns, rows = points
    shifted = (rows - np.float32(slope) * columns).astype(np.int32)
    counts = np.bincount(shifted - shifted.min()).astype(np.float64)
    return float(np.square(np.diff(counts)).sum()) / len(rows)
