"""Data that the search for pictures works on: parts of drawings, regions, and the text of the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from schemas.documents import Kind, Line
from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from schemas.text import LabelKind, caption_label
from tasks.figures.anchor import caption_lines, running_text

TOUCH_PT = 1.5
"""Tolerated difference of two sides that are one. Of 2,191 pages 67 change at 1 (strips of one picture fall apart), 8 at 2.25
(screenshots one below the other join).
"""
BORDER_PT = 5.0
"""How far a border may reach inside its box. Of 2,191 pages 82 change at 3.35 (boxes of listings become tables), 1 at 7.5."""
LABEL_GAP_PT = 8.0
"""Maximum gap between a drawing and its labels. Of 2,191 pages 24 change at 5.4 (maps lose names at their edge), 27 at 12
(drawings include titles above them).
"""
CHART_GAP_PT = 24.0
"""Maximum gap between a chart and the names of its bars, or the keys of its legend."""
SYMBOL_PT = 26.0
"""Maximum shorter side of an icon in a line. Of 2,191 pages 8 change at 17 (icons become pictures), 17 at 39 (logos beside a
title become icons).
"""
PANEL_GAP_PT = 36.0
"""Maximum gap between panels of one picture, and between images on an ornament that are one."""
MOST_LABEL_CHARACTERS = 200
"""Maximum characters on an image that are its labels: with more it is a background of text."""
MOSTLY_SHARE = 0.8
"""Minimum share of a box that lies in another if most of it does."""
LEAST_SHOWN_PT = 12.0
"""Maximum side of marks that show nothing by themselves, such as a rule or a dash."""
AROUND_SHARE = 0.9
"""Minimum share of a box's sides that its border or background covers."""

Member = TypeVar("Member")


@dataclass(frozen=True, slots=True)
class PictureRegion:
    """A picture on the page.

    ``image`` is set if it is exactly one image; ``inline`` if it is in a line of text; ``framed`` if it was placed on the page
    as one graphic, so that its edges are known; ``background`` if a heading is written on it.
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
    """Images and marks drawn in one place. ``framed`` if they share a clip, as in a placed graphic."""

    bbox: BBox
    marks: tuple[Mark, ...] = ()
    images: tuple[PictureRegion, ...] = ()
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
        """Its visible marks that are not rules."""
        return sum(not mark.is_rule for mark in self.marks)

    @property
    def is_inline_image(self) -> bool:
        """Whether it is an image in a line of text, and nothing else."""
        return bool(self.images) and self.images[0].inline and not self.marks

    @property
    def is_visible(self) -> bool:
        """Whether it may be a picture by itself: it has an image, or is more than a thin mark."""
        return bool(self.images) or min(self.bbox.width, self.bbox.height) > LEAST_SHOWN_PT


@dataclass(frozen=True)
class PageText:
    """The visible lines of a page; ``body`` are those of its paragraphs, ``captions`` those that begin a figure's caption."""

    lines: Sequence[Line]
    body: Sequence[Line]
    captions: Sequence[Line]

    @classmethod
    def of(cls, lines: Sequence[Line]) -> "PageText":
        """Find the paragraphs and the captions among the visible lines of a page."""
        return cls(lines, running_text(lines), caption_lines(lines, LabelKind.FIGURE))

    @cached_property
    def running(self) -> frozenset[Line]:
        """The lines of paragraphs, as a set."""
        return frozenset(self.body)

    @cached_property
    def labels(self) -> list[BBox]:
        """The boxes of lines that may be labels of a drawing: neither of a paragraph nor the first of a caption."""
        return [line.bbox for line in self.lines if line not in self.running and caption_label(line.text) is None]


def near(first: float, second: float) -> bool:
    """Return whether two coordinates are one side."""
    return abs(first - second) <= TOUCH_PT


def same_sides(first: BBox, second: BBox) -> bool:
    """Return whether two boxes have the same four sides."""
    return all(map(near, first, second))


def mostly_within(inner: BBox, outer: BBox) -> bool:
    """Return whether most of a box lies in another."""
    return (inner & outer).area >= MOSTLY_SHARE * inner.area


def goes_around(mark: Mark, box: BBox) -> bool:
    """Return whether a mark is as large as a box: its border, its background or its shadow."""
    return mark.bbox.width >= AROUND_SHARE * box.width and mark.bbox.height >= AROUND_SHARE * box.height


def clusters(members: Sequence[Member], belong: Callable[[Member, Member], bool]) -> list[list[Member]]:
    """Group things that belong together, directly or through others."""
    groups: list[list[Member]] = []
    for member in members:
        linked_groups = [group for group in groups if any(belong(member, group_member) for group_member in group)]
        joined = [*(group_member for group in linked_groups for group_member in group), member]
        groups = [group for group in groups if group not in linked_groups] + [joined]
    return groups
