"""Sets text of synthetic manuals: lines of words and icons, in faces that run from left to right or from right to left."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schemas.documents import Kind, Role
from schemas.geometry import BBox
from tests.synthetic.art import HEBREW, Pen, measured, symbol
from tests.synthetic.content import Icon
from tests.synthetic.sheet import Fact
from tests.synthetic.truth import TrueBlock, TrueFigure, TruePlace

if TYPE_CHECKING:
    import pymupdf

ICON_PT = 9.0


@dataclass(frozen=True, slots=True)
class Face:
    """A font at a size; lines stand ``leading`` apart. ``end`` is where lines begin that run from right to left."""

    font: str
    size: float
    gap: str = " "
    end: float = 0.0

    @property
    def leading(self) -> float:
        """Distance from base line to base line."""
        return round(1.25 * self.size, 2)

    def length(self, text: str) -> float:
        """How wide a text runs."""
        return sum(measured(run, font, self.size) for font, run in self.runs(text))

    def runs(self, text: str) -> list[tuple[str, str]]:
        """Cut a text by the font that it is set in: Latin letters in a Chinese or Hebrew text have a font of their own."""
        if self.font == HEBREW:
            return [
                ("helv" if run.isascii() else self.font, run) for run in re.findall(r"[\x21-\x7e]+|[^\x21-\x7e]+", text)
            ]
        if self.gap:
            return [(self.font, text)]
        return [("helv" if run.isascii() else self.font, run) for run in re.findall(r"[\x20-\x7e]+|[^\x20-\x7e]+", text)]

    def within(self, x: float, width: float) -> "Face":
        """Return the face for a column of text."""
        return replace(self, end=x + width)

    def set(self, pen: Pen, x: float, base: float, text: str) -> float:
        """Write a text; return where it ends."""
        runs = self.runs(text)
        if self.font == HEBREW:  # as they stand on the page, from left to right
            x = self.end - self.length(text)
            runs = [(font, run if font != HEBREW else run[::-1]) for font, run in reversed(runs)]
        for font, run in runs:
            pen.text((x, base), run, size=self.size, font=font)
            x += self.length(run)
        return x

    def wrap(self, tokens: Iterable[str | Icon], width: float) -> list[list[str | Icon]]:
        """Break tokens into lines."""
        lines: list[list[str | Icon]] = [[]]
        used = 0.0
        for token in tokens:
            wide = ICON_PT if isinstance(token, Icon) else self.length(token)
            gap = self.length(self.gap) if lines[-1] and self.gap else 0.0
            if lines[-1] and used + gap + wide > width:
                lines.append([])
                used = gap = 0.0
            lines[-1].append(token)
            used += gap + wide
        return lines


def write(
    page: "pymupdf.Page", x: float, y: float, lines: Sequence[Sequence[str | Icon]], face: Face
) -> tuple[BBox, list[tuple[Icon, BBox]]]:
    """Write lines from a top left corner.

    Returns:
        The box around them, and where their icons stand.
    """
    pen = Pen(page)
    icons: list[tuple[Icon, BBox]] = []
    for number, line in enumerate(lines):
        base = y + number * face.leading + face.size
        at, run = x, ""
        for token in line:
            if isinstance(token, str):
                run += (face.gap if run else "") + token
                continue
            if run:
                at = face.set(pen, at, base, run) + face.length(face.gap)
            icons.append((token, BBox(at, base - ICON_PT + 1.5, at + ICON_PT, base + 1.5)))
            at, run = at + ICON_PT + face.length(face.gap or " "), ""
        if run:
            face.set(pen, at, base, run)
    box = pen.done()
    for icon, icon_box in icons:
        symbol(page, icon_box, random.Random(icon.id))
    return box, icons


def text_of(lines: Iterable[Sequence[str | Icon]], gap: str) -> str:
    """Return what lines say, without their icons."""
    return gap.join(token.strip() if gap else token for line in lines for token in line if isinstance(token, str))


def written(
    name: str,
    number: int,
    kind: str,
    lines: Sequence[Sequence[str | Icon]],
    face: Face,
    x: float,
    y: float,
    path: tuple[str, ...],
    mentions: tuple[str, ...],
    page: "pymupdf.Page",
) -> list[Fact]:
    """Write a block from a top left corner; return what is true of it and of its icons."""
    box, icons = write(page, x, y, lines, face)
    block = TrueBlock(
        id=name, page=number, bbox=box, kind=kind, text=text_of(lines, face.gap), section=path, mentions=mentions
    )
    before: dict[str, str] = {}
    words: list[str] = []
    for token in (token for line in lines for token in line):
        if isinstance(token, Icon):
            before[token.id] = face.gap.join(words)
        else:
            words.append(token)
    return [
        block,
        *(icon_fact(icon.id, number, icon_box, TruePlace(within=name, words=before[icon.id])) for icon, icon_box in icons),
    ]


def icon_fact(name: str, number: int, box: BBox, stands: TruePlace) -> TrueFigure:
    """Return what is true of an icon."""
    return TrueFigure(id=name, page=number, bbox=box, kind=Kind.RASTER, role=Role.ICON, art="icon", stands=stands)
