"""Find the rules of a table in the pixels of a scanned page: long straight runs of ink."""

import io
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.geometry import BBox

LEAST_LENGTH_SHARE = 1 / 70
"""Minimum length of a rule, relative to the longer side of the page: 12 pt of A4, more than the strokes of letters."""
THICKNESS_SHARE = 1 / 300
"""Maximum thickness of a rule, relative to the longer side of the page: 2.8 pt of A4. What is thicker is a shade."""
MOST_RULES = 2000
"""Maximum rules of a page: more are the grain of a photograph."""
LARGEST_SIDE_PX = 2000
"""Longer side of the picture that is searched; larger ones are scaled down."""
INK_LEVELS = 25
"""Minimum difference of a rule from the background, of 255 levels: a hairline is grey in the pixels of a scan."""


class _Bar(NamedTuple):
    """A straight piece of ink, thin in the second direction."""

    start: int
    top: int
    end: int
    low: int


def rules_in(picture: bytes) -> list[BBox]:
    """Return the horizontal and vertical rules of an encoded picture of a page, in its pixels; [] for a photograph."""
    with Pillow.open(io.BytesIO(picture)) as opened:
        scale = max(1.0, max(opened.size) / LARGEST_SIDE_PX)
        grey = np.asarray(opened.convert("L").resize([round(side / scale) for side in opened.size], Pillow.Resampling.BOX))
    least, thick = (max(2, round(share * max(grey.shape))) for share in (LEAST_LENGTH_SHARE, THICKNESS_SHARE))
    across = [BBox(*bar) for bar in _bars(grey, least, thick)]
    down = [BBox(bar.top, bar.start, bar.low, bar.end) for bar in _bars(np.ascontiguousarray(grey.T), least, thick)]
    rules = [BBox(*(side * scale for side in box)) for box in across + down]
    return rules if len(rules) <= MOST_RULES else []


def _ink(grey: NDArray[np.uint8], thick: int) -> NDArray[np.bool_]:
    """Return the pixels that are darker than some above and some below them, at most ``thick`` rows away, on any shade."""
    padded = np.pad(grey, ((thick, thick), (0, 0)), mode="edge")
    height = len(grey)
    above, below = padded[:height].copy(), padded[2 * thick :].copy()
    for at in range(1, thick):
        np.maximum(above, padded[at : at + height], out=above)
        np.maximum(below, padded[2 * thick - at : 2 * thick - at + height], out=below)
    np.minimum(above, below, out=above)
    return above - np.minimum(above, grey) > INK_LEVELS


def _bars(grey: NDArray[np.uint8], least: int, thick: int) -> list[_Bar]:
    """Return horizontal bars of ink. Pieces at least half as long are joined where a vertical rule crosses."""
    bars: list[_Bar] = []
    for piece in sorted(_pieces(_ink(grey, thick), least // 2)):
        before = next((bar for bar in reversed(bars) if _continues(bar, piece, grey, thick)), None)
        if before is None:
            bars.append(piece)
        else:
            bars[bars.index(before)] = _joined(before, piece)
    return [bar for bar in bars if bar.end - bar.start >= max(least, bar.low - bar.top)]


def _pieces(ink: NDArray[np.bool_], least: int) -> list[_Bar]:
    """Return runs of at least ``least`` pixels, joined with those of the next row that they mostly overlap."""
    steps = np.diff(np.pad(ink, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (rows, starts), (_, ends) = np.nonzero(steps == 1), np.nonzero(steps == -1)
    long = ends - starts >= least
    closed_bars: list[_Bar] = []
    open_bars: list[_Bar] = []
    for row, start, end in zip(rows[long].tolist(), starts[long].tolist(), ends[long].tolist(), strict=True):
        closed_bars += [bar for bar in open_bars if bar.low < row]
        open_bars = [bar for bar in open_bars if bar.low >= row]
        run = _Bar(start, row, end, row + 1)
        over = next(
            (
                bar
                for bar in open_bars
                if 2 * (min(bar.end, end) - max(bar.start, start)) > min(bar.end - bar.start, end - start)
            ),
            None,
        )
        if over is None:
            open_bars.append(run)
        else:
            open_bars[open_bars.index(over)] = _joined(over, run)
    return closed_bars + open_bars


def _continues(bar: _Bar, piece: _Bar, grey: NDArray[np.uint8], thick: int) -> bool:
    """Return whether a piece is level with a bar, and what is between them as dark."""
    if max(bar.low, piece.low) - min(bar.top, piece.top) > thick or piece.start - bar.end > thick + 2:
        return False
    darkest = grey[bar.top : bar.low, bar.start : max(bar.end, piece.start)].min(axis=0).astype(np.int16)
    length = bar.end - bar.start
    return bool((darkest[length:] <= np.median(darkest[:length]) + INK_LEVELS).all())


def _joined(first: _Bar, second: _Bar) -> _Bar:
    return _Bar(
        min(first.start, second.start), min(first.top, second.top), max(first.end, second.end), max(first.low, second.low)
    )
