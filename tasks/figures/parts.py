"""What the search for pictures works on: parts of drawings, the pictures made of them, and the text of their page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from schemas.documents import Kind, Line
from schemas.drawings import Image, Mark
from schemas.figure_labels import LabelKind, caption_label
from schemas.geometry import BBox
from tasks.figures.anchor import caption_lines, running_text

TOUCH_PT = 1.5
"""How far apart two sides are that are one. Of 2,191 pages 67 change at 1 (strips of one picture fall apart), 8 at 2.25
(screenshots one under the other join).
"""
BORDER_PT = 5.0
"""How far a border may reach inside the box that it surrounds. Of 2,191 pages 82 change at 3.35 (boxes of listings are
tables), 1 at 7.5 (a small table is a picture).
"""
LABEL_GAP_PT = 8.0
"""Widest gap between a drawing and its labels, bars and their values, keys and their names, a diagram and its ends. Of
2,191 pages 24 change at 5.4 (maps lose names at their edge), 27 at 12 (drawings take in titles over them).
"""
CHART_GAP_PT = 24.0
"""Widest gap between a chart and the names of its bars, or the keys of its legend. Of 2,191 pages none changes at 16 or 36."""
SYMBOL_PT = 26.0
"""Largest shorter side of an icon in a line, and longest side of the symbol of a note. Of 2,191 pages 8 change at 17
(icons are pictures by themselves), 17 at 39 (logos beside a title are icons).
"""
PANEL_GAP_PT = 36.0
"""Widest gap between panels of one picture, and between images on an ornament that are one. Of 2,191 pages none changes
at 24 or 54.
"""
MOST_LABEL_CHARACTERS = 200
"""Characters on an image that are its labels: more are text, and the image is their background. Of 2,191 pages none
changes at 134, 1 at 300 (a link on a band is drawn with the band).
"""
MOSTLY_SHARE = 0.8
"""Share of a box that lies in another, if most of it does. Of 2,191 pages 2 change at 0.55 (slivers join a photograph),
7 at 0.9 (a photograph takes in the band over it).
"""
LEAST_SHOWN_PT = 12.0
"""Largest side of what shows nothing by itself: a rule, a dash. Of 400 pages with rounded boxes none changes at 8.04 or
18; 75 do without it.
"""
RULES_OF_DRAWING = 3
"""Rules that make a drawing, where there is nothing else. Of 400 pages with rounded boxes none changes at 2 or 4; 1
does without it.
"""
AROUND_SHARE = 0.9
"""Share of a box's sides that its border or background has at least. Of 2,191 pages 3 change at 0.75 (a boxed listing
takes in the lines around it), 5 at 0.95 (boxes of listings are pictures).
"""
CORNER_STROKES = 8
"""Most curves of a box with round corners: two at each. Of 400 pages with rounded boxes none changes at 7 or 9; 22 do
without it.
"""

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Region:
    """A picture on the page.

    ``image`` is set where it is exactly one image; ``inline`` where it stands in a line of text; ``framed`` where it was
    placed on the page as one graphic, so that its edges are known; ``background`` where it is what a heading is written on.
    """

    bbox: BBox
    kind: Kind
    image: Image | None = None
    inline: bool = False
    captioned: bool = False
    framed: bool = False
    background: bool = False


@dataclass(frozen=True)
class Part:
    """Something drawn in one place: images, marks, or both. ``framed`` where they share a clip, as a placed graphic does."""

    bbox: BBox
    marks: tuple[Mark, ...] = ()
    images: tuple[Region, ...] = ()
    framed: bool = False

    @cached_property
    def strokes(self) -> int:
        """Its curves and slanted lines."""
        return sum(mark.strokes for mark in self.marks)

    @cached_property
    def rules(self) -> int:
        """Its horizontal and vertical lines."""
        return sum(mark.is_rule for mark in self.marks)

    @cached_property
    def shapes(self) -> int:
        """Its marks that are visible and no rules."""
        return sum(not mark.is_rule and not mark.white for mark in self.marks)

    @property
    def is_inline_image(self) -> bool:
        """Whether it is an image in a line of text, and nothing else."""
        return bool(self.images) and self.images[0].inline and not self.marks

    @property
    def is_visible(self) -> bool:
        """Whether it may be a picture by itself: it has an image, or more than a rule or two."""
        if self.images:
            return True
        if not (self.bbox.height > LEAST_SHOWN_PT and self.bbox.width > LEAST_SHOWN_PT):
            return False
        return self.strokes + self.shapes + self.rules // RULES_OF_DRAWING >= 1


@dataclass(frozen=True)
class PageText:
    """The lines of a page that are shown; ``body`` are those of its paragraphs, ``captions`` those that begin a figure's."""

    lines: Sequence[Line]
    body: Sequence[Line]
    captions: Sequence[Line]

    @classmethod
    def of(cls, lines: Sequence[Line]) -> "PageText":
        """Find the paragraphs and the captions among the lines of a page that are shown."""
        return cls(lines, running_text(lines), caption_lines(lines, LabelKind.FIGURE))

    @cached_property
    def running(self) -> frozenset[Line]:
        """The lines of paragraphs, to be looked up."""
        return frozenset(self.body)

    @cached_property
    def labels(self) -> list[BBox]:
        """Where the lines stand that may be labels of a drawing: neither of a paragraph nor the first of a caption."""
        return [line.bbox for line in self.lines if line not in self.running and caption_label(line.text) is None]

    def within(self, box: BBox) -> list[Line]:
        """Return the lines whose middle lies in a box."""
        return [line for line in self.lines if box.has_middle_of(line.bbox)]

    def body_within(self, box: BBox) -> list[Line]:
        """Return the lines of paragraphs whose middle lies in a box."""
        return [line for line in self.body if box.has_middle_of(line.bbox)]


def near(one: float, other: float) -> bool:
    """Return whether two coordinates are one side, give or take the width of a line."""
    return abs(one - other) <= TOUCH_PT


def same_sides(one: BBox, other: BBox) -> bool:
    """Return whether two boxes have the same four sides."""
    return all(map(near, one, other))


def mostly_within(inner: BBox, outer: BBox) -> bool:
    """Return whether most of a box lies in another."""
    return (inner & outer).area >= MOSTLY_SHARE * inner.area


def goes_around(mark: Mark, box: BBox) -> bool:
    """Return whether a mark is as large as a box: its border, its background or its shadow."""
    return mark.bbox.width >= AROUND_SHARE * box.width and mark.bbox.height >= AROUND_SHARE * box.height


def is_rounded_box(mark: Mark, box: BBox) -> bool:
    """Return whether a mark is a box with round corners that goes around all of ``box``."""
    return goes_around(mark, box) and 0 < mark.strokes <= CORNER_STROKES


def clusters(things: Sequence[Thing], belong: Callable[[Thing, Thing], bool]) -> list[list[Thing]]:
    """Group things that belong together, directly or by way of others."""
    groups: list[list[Thing]] = []
    for thing in things:
        own = [group for group in groups if any(belong(thing, other) for other in group)]
        joined = [*(other for group in own for other in group), thing]
        groups = [group for group in groups if group not in own] + [joined]
    return groups
