"""Lays out what a synthetic manual says: columns, floats, tables over two pages, listings and notes."""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from schemas.documents import Role
from schemas.geometry import BBox
from tests.synthetic.art import ARTS, BLACK, HEBREW, Pen, symbol
from tests.synthetic.content import Box, Chapter, Heading, Icon, Paragraph, Picture, Shares, Steps, Table
from tests.synthetic.options import Options
from tests.synthetic.prose import words
from tests.synthetic.sheet import A4, Column, Fact, Sheet
from tests.synthetic.steps import units
from tests.synthetic.truth import TrueFigure, TruePlace, TrueRegion, TrueSection, TrueTable
from tests.synthetic.typeset import Face, icon_fact, text_of, write, written

if TYPE_CHECKING:
    import pymupdf

MARGIN_PT = 62.0
TOP_PT = 66.0
FOOT_PT = 60.0
GUTTER_PT = 22.0
PARAGRAPH_GAP_PT = 7.0
BLOCK_GAP_PT = 14.0
CAPTION_GAP_PT = 6.0
ROW_PT = 15.0
HEADING_SIZES = {1: 17.0, 2: 13.0, 3: 11.0}
PALE = (0.92, 0.92, 0.92)


class FullError(Exception):
    """The manual has all its pages; what is left over is left out."""


@dataclass
class Flow:
    """Fills sheets with chapters, up to a number of pages."""

    options: Options
    pick: random.Random
    title: str
    most: int

    def __post_init__(self) -> None:
        self.sheets: list[Sheet] = []
        self.sections: list[TrueSection] = []
        self._shares = Shares(self.pick)
        self._logo_seed = self.pick.randrange(10**6) if self.options.logo else None
        self._waiting: list[Picture] = []
        self._columns = 1
        self._at = self._turns = 0
        self._chapter = ""
        self._text = 0.0

    def front(self, contents: bool = True) -> None:
        """Make the title page, and the one with the contents."""
        sheet = self._sheet("", "")
        sheet.logo_seed = None
        sheet.backed = self.options.backed > 0
        sheet.columns = [Column(MARGIN_PT, A4[0] - 2 * MARGIN_PT, 220, 780)]
        for name, text, size, y in (
            ("title", self.title, 26.0, 220.0),
            ("edition", "Service manual, second edition", 14.0, 270.0),
        ):
            sheet.columns[0].read.append(
                partial(written, name, sheet.page, "paragraph", [[text]], Face("hebo", size), MARGIN_PT, y, (), ())
            )
        if contents:
            sheet = self._sheet(self.title, "2")
            sheet.columns[:] = [Column(MARGIN_PT, A4[0] - 2 * MARGIN_PT, TOP_PT, 780)]
            self.sections.append(TrueSection(level=1, title="Contents", page=2, path=("Contents",)))
            sheet.columns[0].read.append(
                partial(
                    written,
                    "contents",
                    2,
                    "heading",
                    [["Contents"]],
                    Face("hebo", HEADING_SIZES[1]),
                    MARGIN_PT,
                    TOP_PT,
                    ("Contents",),
                    (),
                )
            )
            sheet.columns[0].read.append(partial(_contents, self.sections))

    def chapters(self, chapters: Iterable[Chapter]) -> None:
        """Lay out chapters, until the pages are full."""
        try:
            for chapter in chapters:
                self._columns, self._chapter = chapter.columns, chapter.title
                self._text = 9.0 if chapter.columns == 2 else 10.0
                self._new_page(heading=chapter.items[0])
                for item in chapter.items[1:]:
                    self._put(item)
                while self._waiting:
                    self._new_page()
        except FullError:
            pass

    # Pages

    def _sheet(self, header: str, footer: str) -> Sheet:
        if len(self.sheets) == self.most:
            raise FullError
        sheet = Sheet(len(self.sheets) + 1, header, footer, *A4, stream=self.options.stream, logo_seed=self._logo_seed)
        self.sheets.append(sheet)
        return sheet

    def _new_page(self, heading: object = None) -> None:
        options, due = self.options, self._shares.due
        number = len(self.sheets) + 1
        sheet = self._sheet(
            f"{self.title}: {self._chapter}" if number % 2 and max(self._chapter) < "\u0100" else self.title, str(number)
        )
        sheet.stray = due("stray", options.stray)
        if self._columns == 1 and due("turned", options.turned):
            self._turns += 1
            sheet.turned = (90, 270, 180)[self._turns % 3]
            if sheet.turned != 180:
                sheet.width, sheet.height = sheet.height, sheet.width
        elif due("cropped", options.cropped):
            sheet.cropped = True
        elif heading is None and due("scanned", options.scanned):
            sheet.scanned = True
        elif due("backed", options.backed):
            sheet.backed = True
        top = TOP_PT
        if isinstance(heading, Heading):
            top = self._head(sheet, heading)
        wide = [picture for picture in self._waiting if picture.wide and self._columns == 2]
        if wide:
            self._waiting.remove(wide[0])
            full = Column(MARGIN_PT, sheet.width - 2 * MARGIN_PT, top, sheet.height - FOOT_PT)
            height, draw = self._drawn(wide[0], full, sheet)
            sheet.over.append(partial(draw, y=top))
            top += height + BLOCK_GAP_PT
        width = (sheet.width - 2 * MARGIN_PT - (self._columns - 1) * GUTTER_PT) / self._columns
        sheet.columns = [
            Column(MARGIN_PT + number * (width + GUTTER_PT), width, top, sheet.height - FOOT_PT)
            for number in range(self._columns)
        ]
        self._at = 0
        self._float_in()

    def _head(self, sheet: Sheet, heading: Heading) -> float:
        face = Face(heading.language.fonts[1], HEADING_SIZES[1], heading.language.gap)
        face = face.within(MARGIN_PT, sheet.width - 2 * MARGIN_PT)
        tokens = words(heading.title, heading.language)
        lines = face.wrap(tokens, sheet.width - 2 * MARGIN_PT)
        sheet.over.append(
            partial(written, heading.id, sheet.page, "heading", lines, face, MARGIN_PT, TOP_PT, heading.path, ())
        )
        self.sections.append(TrueSection(level=1, title=heading.title, page=sheet.page, path=heading.path))
        return TOP_PT + len(lines) * face.leading + BLOCK_GAP_PT

    def _float_in(self) -> None:
        """Set one waiting float at the head of the column."""
        waiting = [picture for picture in self._waiting if not (picture.wide and self._columns == 2)]
        if waiting:
            self._waiting.remove(waiting[0])
            self._set(waiting[0])

    @property
    def _sheet_now(self) -> Sheet:
        return self.sheets[-1]

    @property
    def _column(self) -> Column:
        return self._sheet_now.columns[self._at]

    def _advance(self) -> None:
        if self._at + 1 < len(self._sheet_now.columns):
            self._at += 1
            self._float_in()
        else:
            self._new_page()

    def _room(self, height: float) -> None:
        """Go on to where there is room for something."""
        for _ in range(4):
            if self._column.y + height <= self._column.bottom:
                return
            self._advance()

    # Things

    def _put(self, item: object) -> None:
        match item:
            case Heading():
                self._put_heading(item)
            case Paragraph():
                self._put_paragraph(item)
            case Picture():
                self._put_picture(item)
            case Table():
                self._put_table(item)
            case Box():
                self._put_box(item)
            case Steps():
                self._put_steps(item)

    def _put_heading(self, heading: Heading) -> None:
        face = Face(heading.language.fonts[1], HEADING_SIZES[heading.level], heading.language.gap)
        lines = face.wrap(words(heading.title, heading.language), self._column.width)
        height = len(lines) * face.leading + 4
        self._room(height + BLOCK_GAP_PT + 3 * 1.25 * self._text)
        column, sheet = self._column, self._sheet_now
        if column.read:
            column.y += 6
        face = face.within(column.x, column.width)
        column.read.append(
            partial(written, heading.id, sheet.page, "heading", lines, face, column.x, column.y, heading.path, ())
        )
        self.sections.append(TrueSection(level=heading.level, title=heading.title, page=sheet.page, path=heading.path))
        column.y += height + 3

    def _put_paragraph(self, paragraph: Paragraph) -> None:
        face = Face(paragraph.language.fonts[0], self._text, paragraph.language.gap)
        lines = face.wrap(paragraph.words, self._column.width)
        part = 0
        while lines:
            column, sheet = self._column, self._sheet_now
            fit = int((column.bottom - column.y + 0.01) // face.leading)
            if fit < min(2, len(lines)) or (0 < len(lines) - fit < 2 and fit < 3):
                self._advance()
                lines = face.wrap([token for line in lines for token in line], self._column.width)
                continue
            now, lines = lines[:fit], lines[fit:]
            part += 1
            text = text_of(now, face.gap)
            mentions = tuple(name for name, label in paragraph.mentions if _names(text, label))
            name = paragraph.id if part == 1 else f"{paragraph.id}.{part}"
            face = face.within(column.x, column.width)
            column.read.append(
                partial(written, name, sheet.page, "paragraph", now, face, column.x, column.y, paragraph.path, mentions)
            )
            column.y += len(now) * face.leading + (0 if lines else PARAGRAPH_GAP_PT)

    def _put_picture(self, picture: Picture) -> None:
        if picture.floating:
            column = self._column
            height, draw = self._drawn(picture, column, self._sheet_now)
            if not picture.wide and column.bottom - column.y >= height + BLOCK_GAP_PT + 60 and self.pick.random() < 0.5:
                column.bottom -= height
                column.foot.insert(0, partial(draw, y=column.bottom))
                column.bottom -= BLOCK_GAP_PT
            else:
                self._waiting.append(picture)
            return
        height, _ = self._drawn(picture, self._column, self._sheet_now)
        self._room(height + BLOCK_GAP_PT / 2)
        self._set(picture)

    def _set(self, picture: Picture) -> None:
        column = self._column
        height, draw = self._drawn(picture, column, self._sheet_now)
        if column.read:
            column.y += BLOCK_GAP_PT / 2
        column.read.append(partial(draw, y=column.y))
        column.y += height + BLOCK_GAP_PT

    def _drawn(self, picture: Picture, column: Column, sheet: Sheet) -> tuple[float, Callable[..., list[Fact]]]:
        """Return how high a figure with its caption is, and what draws both from a given height downwards."""
        share = min(1.0, picture.share * 1.5) if column.width < 260 else picture.share
        width = min(column.width * share, 400.0)
        height = min(width * picture.aspect, 210.0)
        language = picture.language
        face = Face(language.fonts[2], self._text - 1, language.gap)
        lines = face.wrap(words(picture.caption, language), column.width) if picture.caption else []
        spoken = len(lines) * face.leading + (CAPTION_GAP_PT if lines else 0)
        left_x = column.x + (column.width - width) / 2
        art, kind = ARTS[picture.art]
        seed = f"{picture.id} {self._logo_seed} {self.title}"

        def draw(page: "pymupdf.Page", y: float) -> list[Fact]:
            top = y + spoken if picture.above else y
            box = art(page, BBox(left_x, top, left_x + width, top + height), random.Random(seed))
            facts: list[Fact] = [
                TrueFigure(
                    id=picture.id,
                    page=sheet.page,
                    bbox=box,
                    kind=kind,
                    role=Role.CONTENT,
                    art=picture.art,
                    caption=picture.caption,
                    label=picture.label,
                )
            ]
            if not lines:
                return facts
            caption_y = y if picture.above else y + height + CAPTION_GAP_PT
            path = () if picture.floating else picture.path
            wide = max(face.length(text_of([line], face.gap)) for line in lines)
            x = column.x + (column.width - wide) / 2
            caption = written(f"{picture.id}.caption", sheet.page, "caption", lines, face, x, caption_y, path, (), page)
            return [*caption, *facts] if picture.above else [*facts, *caption]

        return height + spoken, draw

    def _put_table(self, table: Table) -> None:
        face = Face(table.language.fonts[0], self._text - 1, table.language.gap)
        bold = Face(table.language.fonts[1], self._text - 1, table.language.gap)
        lines = bold.wrap(words(table.caption, table.language), self._column.width)
        spoken = len(lines) * bold.leading + CAPTION_GAP_PT
        least = min(len(table.rows), 6 if table.style == "long" else 99) * ROW_PT + spoken
        self._room(least + 6)
        column = self._column
        column.y += 4
        column.read.append(
            partial(
                written,
                f"{table.id}.caption",
                self._sheet_now.page,
                "caption",
                lines,
                bold,
                column.x,
                column.y,
                table.path,
                (),
            )
        )
        column.y += spoken
        todo = list(range(1, len(table.rows)))
        while todo:
            column, sheet = self._column, self._sheet_now
            fit = int((column.bottom - column.y - 2) // ROW_PT) - 1
            if fit < 1:
                self._advance()
                continue
            now, todo = todo[:fit], todo[fit:]
            column.read.append(partial(_table, table, now, sheet.page, column.x, column.y, column.width, face, bold))
            column.y += (len(now) + 1) * ROW_PT + BLOCK_GAP_PT
            if todo:
                self._advance()

    def _put_steps(self, steps: Steps) -> None:
        self._column.y += BLOCK_GAP_PT / 2
        step_units = units(steps, self._text, self._column.width)
        for at in range(len(step_units)):
            width = self._column.width
            self._room(step_units[at].height)
            if self._column.width != width:  # a turned page is wider
                step_units = units(steps, self._text, self._column.width)
                self._room(step_units[at].height)
            unit = step_units[at]
            column, sheet = self._column, self._sheet_now
            under, drawings = unit.set(column, sheet)
            sheet.under += under
            column.read += drawings
            column.y += unit.height + BLOCK_GAP_PT

    def _put_box(self, box: Box) -> None:
        column = self._column
        face = Face("cour", self._text - 1) if box.kind == "listing" else Face(box.language.fonts[0], self._text)
        inset = 8.0 if box.kind == "listing" else 30.0
        lines: list[list[str | Icon]] = []
        for line in box.lines:
            lines.extend(
                [[line]] if box.kind == "listing" else face.wrap(words(line, box.language), column.width - inset - 8)
            )
        height = len(lines) * face.leading + 12
        self._room(height + 6)
        column, sheet = self._column, self._sheet_now
        column.y += 3
        bounds = BBox(column.x, column.y, column.x + column.width, column.y + height)
        column.read.append(partial(_box, box, lines, sheet.page, bounds, face, inset))
        column.y += height + BLOCK_GAP_PT


def _names(text: str, label: str) -> bool:
    return re.search(rf"(?:Figure|Fig\.|Abb\.|图) ?{re.escape(label)}(?![-.]?\d)", text) is not None


def _face_of(title: str, size: float) -> Face:
    """Return a face that has the letters of a title."""
    if max(title) < "\u0100":
        return Face("helv", size)
    if "\u0590" <= max(title) < "\u0600":
        face = Face(HEBREW, size)
        return face.within(MARGIN_PT, face.length(title))
    return Face("china-s", size, "")


def _contents(sections: Sequence[TrueSection], page: "pymupdf.Page") -> list[Fact]:
    """Write the table of contents: what the sections are is known once all pages are laid out."""
    facts: list[Fact] = []
    listed = [section for section in sections if section.level <= 2 and section.title != "Contents"]
    for index, section in enumerate(listed[:44]):
        face = _face_of(section.title, 10.0)
        y = TOP_PT + 34 + index * 15
        x = MARGIN_PT + 14 * (section.level - 1)
        right = A4[0] - MARGIN_PT
        length = right - x - face.length(section.title) - Face("helv", 10.0).length(str(section.page)) - 8
        dots = "." * max(3, int(length / Face("helv", 10.0).length(".")))
        write(page, right - Face("helv", 10.0).length(str(section.page)), y, [[str(section.page)]], Face("helv", 10.0))
        write(page, x + face.length(section.title) + 4, y, [[dots]], Face("helv", 10.0))
        facts.extend(written(f"contents{index}", 2, "contents", [[section.title]], face, x, y, (), (), page))
    return facts


def _table(
    table: Table,
    rows: Sequence[int],
    number: int,
    x: float,
    y: float,
    width: float,
    face: Face,
    bold: Face,
    page: "pymupdf.Page",
) -> list[Fact]:
    """Draw a part of a table, its header on top."""
    pen = Pen(page)
    shares = (0.5, 0.3, 0.2) if len(table.rows[0]) == 3 else (0.42, 0.26, 0.16, 0.16)
    edges = [x + width * sum(shares[:index]) for index in range(len(shares) + 1)]
    facts: list[Fact] = []
    _rule_table(pen, BBox(x, y, x + width, y + (len(rows) + 1) * ROW_PT), edges, shaded=table.style == "shaded")
    pictures: list[tuple[int, int, str]] = []
    icons: list[tuple[str, BBox, int]] = []
    for index, row in enumerate((0, *rows)):
        base = y + index * ROW_PT + 10.5
        for column, text in enumerate(table.rows[row]):
            if text:
                used = bold if row == 0 and table.language.gap else face
                used.set(pen, edges[column] + 4, base, text)
        if row in table.pictures:
            name = f"{table.id}.{row}"
            left_x = edges[-2] + 6
            icons.append((name, BBox(left_x, base - 9, left_x + 11, base + 2), row))
            pictures.append((row, len(shares) - 1, name))
    box = pen.done()
    for name, icon_box, row in icons:
        symbol(page, icon_box, random.Random(name))
        facts.append(icon_fact(name, number, icon_box, TruePlace(row=(table.id, row, len(shares) - 1))))
    page_rows = tuple(table.rows[row] for row in ((0, *rows) if rows[0] == 1 else rows))
    part = TrueTable(
        id=table.id,
        regions=(TrueRegion(page=number, bbox=box),),
        rows=page_rows,
        caption=table.caption,
        label=table.label,
        section=table.path,
        pictures=tuple(pictures),
    )
    return [part, *facts]


def _rule_table(pen: Pen, box: BBox, edges: Sequence[float], *, shaded: bool) -> None:
    """Draw what parts the rows and columns of a table: every second row shaded, or rules both ways."""
    left_x, top, right, bottom = box
    rows = round(box.height / ROW_PT)
    if shaded:
        for row in range(0, rows, 2):
            pen.box(BBox(left_x, top + row * ROW_PT, right, top + (row + 1) * ROW_PT), ink=None, fill=PALE)
        for height in (top, top + ROW_PT, bottom):
            pen.lines([(left_x, height), (right, height)])
        return
    for row in range(rows + 1):
        pen.lines([(left_x, top + row * ROW_PT), (right, top + row * ROW_PT)], width=0.6)
    for edge in edges:
        pen.lines([(edge, top), (edge, bottom)], width=0.6)


def _box(
    box: Box,
    lines: Sequence[Sequence[str | Icon]],
    number: int,
    bounds: BBox,
    face: Face,
    inset: float,
    page: "pymupdf.Page",
) -> list[Fact]:
    """Draw a listing on its background, or a note in its frame with a symbol of warning."""
    pen = Pen(page)
    if box.kind == "listing":
        pen.box(bounds, ink=None, fill=PALE)
    else:
        pen.box(bounds, ink=BLACK, fill=(1.0, 0.97, 0.88), width=0.6)
        left_x, top = bounds.x0 + 7, bounds.y0 + 7
        pen.shape([(left_x, top + 14), (left_x + 8, top), (left_x + 16, top + 14)], fill=(1.0, 0.8, 0.1))
        pen.text((left_x + 8, top + 12), "!", size=9, font="hebo", centred=True)
    pen.done()
    return written(box.id, number, box.kind, lines, face, bounds.x0 + inset, bounds.y0 + 5, box.path, (), page)
