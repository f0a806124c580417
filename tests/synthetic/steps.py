"""Sets steps with pictures that have no caption: where a picture stands says which step it belongs to.

Lines that run from right to left have everything the other way round. Whether a picture at the side where they begin is read
before its step or behind it isn't certain then, and so isn't part of the truth.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from schemas.documents import Role
from schemas.geometry import BBox
from tests.synthetic.art import ARTS, HEBREW, Colour, Pen
from tests.synthetic.content import Icon, Step, Steps
from tests.synthetic.sheet import A4, Column, Draw, Fact, Sheet
from tests.synthetic.truth import TrueBlock, TrueFigure, TruePlace, TrueRegion, TrueTable
from tests.synthetic.typeset import Face, text_of, written

if TYPE_CHECKING:
    import pymupdf

_GAP_PT = 12.0
_ROW_GAP_PT = 12.0
_INSET_PT = 7.0
_NUMBER_PT = 18.0
_CELL_PT = 5.0
_WIDEST_PT = 130.0
_SIDE_PT = (10.0, 44.0)
"""Distance of a picture in the margin from the page's edge, and its width."""
_DRAWING_PT = 70.0
_TINT: Colour = (0.93, 0.95, 0.98)

Made = tuple[list[Draw], list[Draw]]
"""What lies behind, and what is drawn as it is read."""


@dataclass(frozen=True)
class Unit:
    """A part of steps that no column's end parts. ``set`` puts it where a column goes on."""

    height: float
    set: Callable[[Column, Sheet], Made]


def units(steps: Steps, size: float, width: float) -> list[Unit]:
    """Return the parts that steps are made of, for columns of a width."""
    setting = _Setting(steps, Face(steps.language.fonts[0], size, steps.language.gap), width)
    match steps.layout:
        case "ruled":
            return [setting.ruled()]
        case "rows":
            return [setting.row(step) for step in steps.steps]
        case "margin":
            return [setting.margin(step) for step in steps.steps[:2]]
        case "pair":
            return [setting.between(steps.steps[:2], 2)]
        case "between":
            return [setting.between(steps.steps[:2], 1)]
        case "span":
            return [setting.span()]
        case "list":
            return [setting.beside(step, right=True, number=number) for number, step in enumerate(steps.steps, 1)]
        case "boxed":
            return [setting.beside(step, right=bool(number % 2), boxed=True) for number, step in enumerate(steps.steps)]
        case "alternating":
            return [setting.beside(step, right=bool(number % 2)) for number, step in enumerate(steps.steps)]
        case side:
            return [setting.beside(step, right=side == "right") for step in steps.steps]


@dataclass(frozen=True)
class _Setting:
    """Steps in a face and a column's width. Boxes are measured from the column's corner, and mirrored last."""

    steps: Steps
    face: Face
    width: float

    @property
    def _runs_right_to_left(self) -> bool:
        return self.face.font == HEBREW

    @property
    def _picture_pt(self) -> float:
        return min(0.32 * self.width, _WIDEST_PT)

    def _text(self, name: str, words: Sequence[str], box: BBox, column: Column, sheet: Sheet, number: int = 0) -> Draw:
        """Return what writes words into a box of the column."""
        x0, y0, x1, _ = self._at(box, column)
        face = self.face.within(x0, x1 - x0)
        lines = face.wrap(words, x1 - x0)
        return partial(_numbered, number, self._runs_right_to_left, name, sheet.page, lines, face, x0, y0, self.steps.path)

    def _picture(self, step: Step, box: BBox, column: Column, sheet: Sheet, stands: TruePlace) -> Draw:
        """Return what draws a step's picture into a box of the column."""
        return partial(_drawn, step, self._at(box, column), sheet.page, stands)

    def _at(self, box: BBox, column: Column) -> BBox:
        x0, y0, x1, y1 = box
        if self._runs_right_to_left:
            x0, x1 = self.width - x1, self.width - x0
        return BBox(column.x + x0, column.y + y0, column.x + x1, column.y + y1)

    def _height(self, words: Sequence[str], width: float) -> float:
        return len(self.face.wrap(words, width)) * self.face.leading

    def _stands(self, step: Step, *, right: bool) -> TruePlace:
        if self._runs_right_to_left:
            return TruePlace(beside=step.id)
        return TruePlace(after=step.id) if right else TruePlace(before=step.id)

    def beside(self, step: Step, *, right: bool, number: int = 0, boxed: bool = False) -> Unit:
        """A step with its picture at one side."""
        margin, wide = _INSET_PT if boxed else 0.0, self._picture_pt
        high = wide * step.aspect
        indent = margin + (_NUMBER_PT if number else 0.0)
        left_x, end = (
            (indent, self.width - margin - wide - _GAP_PT) if right else (margin + wide + _GAP_PT, self.width - margin)
        )
        words = self._height(step.words, end - left_x)
        height = max(high, words) + 2 * margin
        # What is less high stands in the middle of what is higher, or at its top.
        middle = random.Random(step.id).random() < 0.5
        top = margin + (max(0.0, high - words) / 2 if middle else 0.0)
        over = margin + (max(0.0, words - high) / 2 if middle else 0.0)
        x = self.width - margin - wide if right else margin

        def put(column: Column, sheet: Sheet) -> Made:
            under: list[Draw] = []
            if boxed:
                under.append(partial(_background, self._at(BBox(0, 0, self.width, height), column)))
            text = self._text(step.id, step.words, BBox(left_x, top, end, height), column, sheet, number)
            # A drawing on a background has no edge that is certain.
            drawn_step = replace(step, art="photo") if boxed else step
            picture = self._picture(
                drawn_step, BBox(x, over, x + wide, over + high), column, sheet, self._stands(step, right=right)
            )
            return under, [text, picture] if right else [picture, text]

        return Unit(height, put)

    def margin(self, step: Step) -> Unit:
        """A paragraph over the column's width, its picture in the margin of the page."""
        away, wide = _SIDE_PT
        words = self._height(step.words, self.width)
        high = wide * (step.aspect + 0.25)  # higher than lines are: else it might be an icon in one

        def put(column: Column, sheet: Sheet) -> Made:
            right = column is sheet.columns[-1] and (len(sheet.columns) > 1 or random.Random(step.id).random() < 0.5)
            x = A4[0] - away - wide if right else away
            box = BBox(x, column.y, x + wide, column.y + high)
            text = self._text(step.id, step.words, BBox(0, 0, self.width, words), column, sheet)
            picture = partial(_drawn, step, box, sheet.page, self._stands(step, right=right))
            return [], [text, picture] if right else [picture, text]

        return Unit(max(words, high), put)

    def between(self, steps: Sequence[Step], count: int) -> Unit:
        """A picture, or two beside each other, between two paragraphs."""
        first, last = steps
        wide = min(0.4 * self.width, 1.5 * _WIDEST_PT)
        high = wide * first.aspect
        before, after = (self._height(step.words, self.width) for step in steps)
        lefts = ([(self.width - wide) / 2] if count == 1 else [0.0, wide + _GAP_PT])[:count]
        top = before + _ROW_GAP_PT
        bottom = top + high + _ROW_GAP_PT

        def put(column: Column, sheet: Sheet) -> Made:
            stands = TruePlace(after=first.id, before=last.id)
            pictures = [
                self._picture(step, BBox(left_x, top, left_x + wide, top + high), column, sheet, stands)
                for step, left_x in zip(steps, lefts, strict=False)
            ]
            first_text = self._text(first.id, first.words, BBox(0, 0, self.width, before), column, sheet)
            last_text = self._text(last.id, last.words, BBox(0, bottom, self.width, bottom + after), column, sheet)
            return [], [first_text, *pictures, last_text]

        return Unit(bottom + after, put)

    def span(self) -> Unit:
        """Steps under each other, a picture at their side as high as all of them."""
        wide = self._picture_pt
        right = random.Random(self.steps.id).random() < 0.5
        left_x, end = (0.0, self.width - wide - _GAP_PT) if right else (wide + _GAP_PT, self.width)
        x = self.width - wide if right else 0.0
        tops, height = [], 0.0
        for step in self.steps.steps:
            tops.append(height)
            height += self._height(step.words, end - left_x) + _ROW_GAP_PT / 2
        height -= _ROW_GAP_PT / 2

        def put(column: Column, sheet: Sheet) -> Made:
            first = self.steps.steps[0]
            stands = TruePlace(before=first.id)
            drawings = [self._picture(first, BBox(x, 0, x + wide, height), column, sheet, stands)]
            for step, top in zip(self.steps.steps, tops, strict=True):
                drawings.append(self._text(step.id, step.words, BBox(left_x, top, end, height), column, sheet))
            return [], drawings

        return Unit(height, put)

    def row(self, step: Step) -> Unit:
        """A name, what is to be done, and a picture, without rules."""
        edges = [self.width * share for share in (0.0, 0.26, 0.72, 1.0)]
        wide = edges[3] - edges[2] - _GAP_PT
        high = wide * step.aspect
        widths = [edges[1] - _GAP_PT, edges[2] - edges[1] - _GAP_PT]
        names = step.name.split()
        height = max(high, self._height(names, widths[0]), self._height(step.words, widths[1]))

        def put(column: Column, sheet: Sheet) -> Made:
            name = self._text(f"{step.id}.name", names, BBox(0, 0, widths[0], height), column, sheet)
            text = self._text(step.id, step.words, BBox(edges[1], 0, edges[1] + widths[1], height), column, sheet)
            box = BBox(self.width - wide, 0, self.width, high)
            return [], [name, text, self._picture(step, box, column, sheet, TruePlace(after=step.id))]

        return Unit(height, put)

    def ruled(self) -> Unit:
        """A table with a number, a picture and its use in each row."""
        edges = [self.width * share for share in (0.0, 0.12, 0.4, 1.0)]
        wide = edges[2] - edges[1] - 2 * _CELL_PT
        use = edges[3] - edges[2] - 2 * _CELL_PT
        highs = [wide * step.aspect for step in self.steps.steps]
        header = self.face.leading + 2 * _CELL_PT
        tops = [0.0, header]
        for step, high in zip(self.steps.steps, highs, strict=True):
            tops.append(tops[-1] + max(high, self._height(step.words, use)) + 2 * _CELL_PT)
        table = f"{self.steps.id}.table"

        def put(column: Column, sheet: Sheet) -> Made:
            x, y = column.x, column.y
            rows = [("No.", "Key", ["Use"]), *((str(at), "", step.words) for at, step in enumerate(self.steps.steps, 1))]
            cells = [
                [[number], [key], [text_of([line], self.face.gap) for line in self.face.wrap(words, use)]]
                for number, key, words in rows
            ]
            ruled = partial(
                _ruled,
                self.steps,
                table,
                sheet.page,
                [x + edge for edge in edges],
                [y + top for top in tops],
                cells,
                self.face,
            )
            pictures = [
                partial(
                    _drawn,
                    step,
                    BBox(x + edges[1] + _CELL_PT, y + top + _CELL_PT, x + edges[2] - _CELL_PT, y + top + _CELL_PT + high),
                    sheet.page,
                    TruePlace(row=(table, at, 1)),
                )
                for at, (step, top, high) in enumerate(zip(self.steps.steps, tops[1:], highs, strict=False), 1)
            ]
            return [], [ruled, *pictures]

        return Unit(tops[-1], put)


def _numbered(
    number: int,
    right_to_left: bool,
    name: str,
    page_no: int,
    lines: Sequence[Sequence[str | Icon]],
    face: Face,
    x: float,
    y: float,
    path: tuple[str, ...],
    page: "pymupdf.Page",
) -> list[Fact]:
    """Write a step, its number beside it where it has one."""
    if not number:
        return written(name, page_no, "step", lines, face, x, y, path, (), page)
    pen = Pen(page)
    digit = f"{number}."
    pen.text((face.end + _NUMBER_PT - 10 if right_to_left else x - _NUMBER_PT, y + face.size), digit, size=face.size)
    box = pen.done()
    facts = written(name, page_no, "step", lines, face, x, y, path, (), page)
    return [
        fact.model_copy(update={"bbox": fact.bbox | box, "text": f"{digit} {fact.text}"})
        if isinstance(fact, TrueBlock)
        else fact
        for fact in facts
    ]


def _drawn(step: Step, box: BBox, page_no: int, stands: TruePlace, page: "pymupdf.Page") -> list[Fact]:
    art, kind = ARTS[step.art if box.width >= _DRAWING_PT else "photo"]
    drawn = art(page, box, random.Random(step.id + step.name))
    name = f"{step.id}.picture"
    return [TrueFigure(id=name, page=page_no, bbox=drawn, kind=kind, role=Role.CONTENT, art=art.__name__, stands=stands)]


def _background(box: BBox, page: "pymupdf.Page") -> list[Fact]:
    pen = Pen(page)
    pen.box(box, ink=None, fill=_TINT)
    pen.done()
    return []


def _ruled(
    steps: Steps,
    name: str,
    page_no: int,
    xs: Sequence[float],
    ys: Sequence[float],
    cells: Sequence[Sequence[Sequence[str]]],
    face: Face,
    page: "pymupdf.Page",
) -> list[Fact]:
    """Draw a table but for its pictures."""
    pen = Pen(page)
    for y in ys:
        pen.lines([(xs[0], y), (xs[-1], y)], width=0.6)
    for x in xs:
        pen.lines([(x, ys[0]), (x, ys[-1])], width=0.6)
    for top, row in zip(ys, cells, strict=False):
        for x, lines in zip(xs, row, strict=False):
            for at, line in enumerate(filter(None, lines)):
                face.set(pen, x + _CELL_PT, top + _CELL_PT + face.size + at * face.leading, line)
    box = pen.done()
    return [
        TrueTable(
            id=name,
            regions=(TrueRegion(page=page_no, bbox=box),),
            rows=tuple(tuple(face.gap.join(cell) for cell in row) for row in cells),
            caption="",
            label="",
            section=steps.path,
            pictures=tuple((at, 1, f"{step.id}.picture") for at, step in enumerate(steps.steps, 1)),
        )
    ]
