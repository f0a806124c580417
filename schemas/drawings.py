"""What a page draws beside its text: images, pieces of drawings, and the rules of tables. Points, top left origin, rotation 0."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.documents import Line
from schemas.geometry import BBox

Pixels = NDArray[np.uint8]
"""RGB, shape ``(height, width, 3)``."""

LettersOf = Callable[[Line], tuple[str, Sequence[Sequence[float]]]]
"""Gives a line's letters, as the page has them, and the box of each."""

MAX_SIDE_PT = 14_400
"""The largest page that PDF allows without user units: 200 inches. A larger one keeps its text and is never drawn."""

PAGE_SHARE = 0.85
"""Share of a page from which an image is the page itself: a scan, or a background. Of 409 pages 14 change at 0.43 (screenshots
are taken for scans or backgrounds of their pages), none at 0.95.
"""

EDGE_SHARE = 0.1
"""Share of a page, from each side, in which running heads, page numbers and logos stand. Of 409 pages 359 change at 0.05
(running heads and page numbers are text), 90 at 0.2 (text is taken for running heads); of 1,014 pages 202 at 0.067 and 171 at
0.15; of 400 with something small at an edge 4 figures change at 0.067, none at 0.15.
"""

RULE_PT = 2.5
"""Thickness up to which a straight mark is a rule. Of 409 pages 1 changes at 1.25 (a table with thick rules loses its header),
none at 5.
"""


class PageLine(NamedTuple):
    """A line as the page's content has it; what is not visible is text that isn't painted, as behind a scan."""

    line: Line
    is_visible: bool


class Letters(NamedTuple):
    """The letters of a line and the box of each.

    ``direction`` is which way the line is written, ``(1, 0)`` for a level one; None where that is along no side of the page.
    """

    text: str
    boxes: Sequence[Sequence[float]]
    direction: tuple[int, int] | None


class ReplacementText(NamedTuple):
    """The words that an image shows, as the PDF gives them (ISO 32000-2, 14.9.4), and the box of the whole image."""

    bbox: BBox
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image as it is drawn.

    ``block`` is its place in the order of the page's content, ``matrix`` how the unit square is turned and stretched,
    ``cut`` means that a part of it lies off the page, ``is_mask`` that it is an image mask (ISO 32000-2, 8.9.6.2): a shape to
    be painted, without colours of its own. ``mask_px`` is the size of the mask that the image is painted through.
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


class Mark(NamedTuple):
    """A piece of a drawing.

    ``strokes`` counts its curves and slanted lines; ``frame`` is the clip that it is drawn in, ``colour`` what fills it.
    """

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


class Side(NamedTuple):
    """A straight piece of a rule or of a box's edge: how far along the other axis it stands, and from where to where it goes."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rules of a table: ``down`` are vertical pieces, ``across`` horizontal ones."""

    bbox: BBox
    down: tuple[Side, ...]
    across: tuple[Side, ...]
