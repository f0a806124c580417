"""Images, pieces of drawings and rules of a page. Points, top left origin, rotation 0."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.documents import FoundBy, Line
from schemas.geometry import BBox

Pixels = NDArray[np.uint8]
"""RGB, shape ``(height, width, 3)``."""

LettersOf = Callable[[Line], tuple[str, Sequence[Sequence[float]]]]
"""Gives a line's letters, as the page has them, and the box of each."""

MAX_SIDE_PT = 14_400
"""The largest page without user units: 200 inches. A larger one keeps its text and is never drawn."""

PAGE_SHARE = 0.85
"""Minimum share of a page for an image to be a scan or a background. Of 409 pages 14 get worse at 0.43."""

EDGE_SHARE = 0.1
"""Height of the margin with running heads and page numbers, as a share of the page.

At 0.05 running heads become text on 359 of 409 pages; at 0.2 text becomes running heads on 90.
"""

RULE_PT = 2.5
"""Maximum thickness of a rule."""


class PageLine(NamedTuple):
    """A line in content order; invisible text isn't painted, as behind a scan."""

    line: Line
    is_visible: bool


class Letters(NamedTuple):
    """The letters of a line with their boxes, and its direction, ``(1, 0)`` for horizontal; None if parallel to no side."""

    text: str
    boxes: Sequence[Sequence[float]]
    direction: tuple[int, int] | None


class ReplacementText(NamedTuple):
    """The replacement text of an image (ISO 32000-2, 14.9.4), and the image's box."""

    bbox: BBox
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image as it is drawn.

    ``block`` is its position in content order, ``matrix`` maps the unit square, ``cut``: a part lies off the page,
    ``is_mask``: an image mask (ISO 32000-2, 8.9.6.2), painted in one colour. ``mask_px`` is the size of its soft mask.
    """

    number: int
    block: int
    bbox: BBox
    width: int
    height: int
    matrix: tuple[float, float, float, float]
    cut: bool = False
    is_mask: bool = False
    mask_px: tuple[int, int] | None = None


class InkedRun(NamedTuple):
    """Words of a line in the pixels of a page, without a wide gap between them: start, end, and the mean width of the strokes.

    ``slant`` is above 1 if more strokes lean to the right than to the left.
    """

    text: str
    start: float = 0.0
    end: float = 1.0
    stroke: float = 0.0
    slant: float = 0.0


class Mark(NamedTuple):
    """A piece of a drawing with its clip and fill; ``strokes`` counts curves and slanted lines."""

    bbox: BBox
    strokes: int
    filled: bool
    white: bool
    frame: BBox | None = None
    colour: tuple[float, ...] | None = None

    @property
    def is_rule(self) -> bool:
        """A straight horizontal or vertical line, however thick it was drawn."""
        if self.strokes:
            return False
        x0, y0, x1, y1 = self.bbox
        return x1 - x0 <= RULE_PT or y1 - y0 <= RULE_PT


class RulePiece(NamedTuple):
    """A straight piece of a rule or of a box's edge: its position on the other axis, start and end."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rules of a table: vertical pieces ``down``, horizontal ones ``across``."""

    bbox: BBox
    down: tuple[RulePiece, ...]
    across: tuple[RulePiece, ...]
    found_by: FoundBy
