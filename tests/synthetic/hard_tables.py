"""Synthetic tables that are hard to read, with their cells: shaded heads, few rules, spans, stacked, rotated, over pages."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pymupdf

from schemas.documents import CellSpan

Rows = list[list[str]]
SIZE, STEP = 9.0, 15.0
"""Size of the type, and height of a row, in points."""
_LEFT, _TOP = 72.0, 160.0
_LABELS = (
    "Feed pump",
    "Oil filter",
    "Relief valve",
    "Guide rail",
    "Ball bearing",
    "Chain hoist",
    "Control cabinet",
    "Sensor",
)
_BETWEEN = "The values of the second series were taken a week later, after the filters had been changed."


@dataclass(frozen=True, slots=True)
class TrueCells:
    """The cells of a table in reading order of the document, on the page where it begins."""

    page: int
    rows: Rows
    spans: tuple[CellSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class HardTables:
    """A PDF, its tables, and a text that stands between the first two of them."""

    pdf: bytes
    tables: tuple[TrueCells, ...]
    between: str = ""


def neighbours_f1(read_rows: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> float:
    """Return the F1 of the pairs of cells side by side or one below the other, blanks left out, as of the ICDAR 2013 contest."""
    read_pairs, true_pairs = _neighbours(read_rows), _neighbours(true)
    return 2 * sum((read_pairs & true_pairs).values()) / max(1, sum(read_pairs.values()) + sum(true_pairs.values()))


def _neighbours(rows: Sequence[Sequence[str]]) -> "Counter[tuple[str, str, bool]]":
    texts = [["".join(cell.split()) for cell in row] for row in rows]
    pairs: Counter[tuple[str, str, bool]] = Counter()
    for across, lines in ((True, texts), (False, list(zip(*texts, strict=True)))):
        for line in lines:
            filled_cells = [cell for cell in line if cell]
            pairs.update((earlier_cell, later_cell, across) for earlier_cell, later_cell in pairwise(filled_cells))
    return pairs


class _Sheet:
    """Draws a table's words and rules, upright or turned by a quarter."""

    def __init__(self, document: pymupdf.Document, *, turned: bool = False, font: str = "helv") -> None:
        self.page = document.new_page(width=595, height=842)
        self._turned, self._font = turned, font

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (y, 770 - x) if self._turned else (x, y)

    def text(self, x: float, y: float, text: str, *, right: float | None = None, centre: float | None = None) -> None:
        width = pymupdf.get_text_length(text, self._font, SIZE)
        x = right - width if right is not None else centre - width / 2 if centre is not None else x
        turn = 90 if self._turned else 0
        self.page.insert_text(self._at(x, y), text, fontsize=SIZE, fontname=self._font, rotate=turn)

    def rule(self, x0: float, y0: float, x1: float, y1: float, width: float = 0.6) -> None:
        self.page.draw_line(self._at(x0, y0), self._at(x1, y1), width=width)

    def shade(self, x0: float, y0: float, x1: float, y1: float, tint: float = 0.85) -> None:
        box = pymupdf.Rect(self._at(x0, y0), self._at(x1, y1)).normalize()
        self.page.draw_rect(box, color=None, fill=(tint, tint, tint))

    def prose(
        self, y: float, text: str = "Each part was weighed twice before the series began, and once more after the last one."
    ) -> None:
        self.text(_LEFT, y, text)


def _edges(columns: int) -> list[float]:
    return [_LEFT, *(_LEFT + 150 + 75 * column for column in range(columns))]


def _numbers(pick: random.Random, count: int) -> list[str]:
    return [
        pick.choice(
            (f"{pick.randint(1, 9)},{pick.randint(100, 999)}", f"({pick.randint(10, 99)})", str(pick.randint(3, 240)))
        )
        for _ in range(count)
    ]


def _body(pick: random.Random, count: int, columns: int) -> Rows:
    return [
        [f"{pick.choice(_LABELS)} {pick.choice('ABCDEFGH')}{number}", *_numbers(pick, columns - 1)]
        for number in range(1, count + 1)
    ]


def _row(sheet: _Sheet, edges: Sequence[float], y: float, cells: Sequence[str]) -> None:
    for column, text in enumerate(cells):
        if text and column:
            sheet.text(0, y, text, right=edges[column + 1] - 6)
        elif text:
            sheet.text(edges[0] + 4, y, text)


def _set(sheet: _Sheet, rows: Rows, top: float, *, rules: str = "", head: int = 1, shaded: str = "") -> float:
    """Draw rows with their rules: ``head`` (over and under it, and at the end), ``rows``, ``grid``; return where they end."""
    edges = _edges(len(rows[0]))
    bottom = top + STEP * len(rows)
    if shaded in {"head", "both"}:
        sheet.shade(edges[0], top, edges[-1], top + head * STEP, 0.75)
    if shaded in {"bands", "both"}:
        for row_number in range(head + 1, len(rows), 2):
            sheet.shade(edges[0], top + row_number * STEP, edges[-1], top + (row_number + 1) * STEP, 0.92)
    heights = {"": [], "head": [0, head, len(rows)], "rows": range(head, len(rows) + 1), "grid": range(len(rows) + 1)}[
        rules
    ]
    for row_number in heights:
        sheet.rule(edges[0], top + row_number * STEP, edges[-1], top + row_number * STEP)
    for edge in edges if rules == "grid" else ():
        sheet.rule(edge, top, edge, bottom)
    for row_number, cells in enumerate(rows):
        _row(sheet, edges, top + row_number * STEP + 11, cells)
    return bottom


def _plain(pick: random.Random, *, rules: str, shaded: str = "", font: str = "helv", turned: bool = False) -> HardTables:
    document = pymupdf.open()
    sheet = _Sheet(document, turned=turned, font=font)
    rows = [["Part", "Mass", "Load", "Result"], *_body(pick, pick.randint(5, 12), 4)]
    if not turned:
        sheet.prose(100)
    end = _set(sheet, rows, _TOP, rules=rules, shaded=shaded)
    if not turned:
        sheet.prose(end + 40)
    return HardTables(document.tobytes(), (TrueCells(1, rows),))


def _grouped(pick: random.Random, *, rules: str) -> HardTables:
    """Draw two groups of columns under one name each, between rules alone or in a grid with labels merged over two rows."""
    document = pymupdf.open()
    sheet = _Sheet(document)
    sheet.prose(100)
    body = _body(pick, 2 * pick.randint(3, 5), 5)
    heads = [["Part", "First series", "", "Second series", ""], ["", "cold", "warm", "cold", "warm"]]
    spans = [CellSpan(0, 1, 1, 2), CellSpan(0, 3, 1, 2)]
    edges = _edges(5)
    bottom = _TOP + STEP * (len(body) + 2)
    if rules == "grid":
        for at in range(1, len(body), 2):
            body[at][0] = ""
        spans = [CellSpan(0, 0, 2, 1), *spans, *(CellSpan(row, 0, 2, 1) for row in range(2, len(body) + 2, 2))]
        for row_number in range(len(body) + 3):
            sheet.rule(
                edges[0] if row_number % 2 == 0 else edges[1], _TOP + row_number * STEP, edges[-1], _TOP + row_number * STEP
            )
        for column, edge in enumerate(edges):
            sheet.rule(edge, _TOP + STEP * (column in {2, 4}), edge, bottom)
    else:
        for height in (_TOP, _TOP + 2 * STEP, bottom):
            sheet.rule(edges[0], height, edges[-1], height, 0.8)
        for column in (1, 3):
            sheet.rule(edges[column] + 20, _TOP + STEP, edges[column + 2], _TOP + STEP, 0.4)
    for column in (1, 3):
        sheet.text(0, _TOP + 11, heads[0][column], centre=(edges[column] + edges[column + 2]) / 2)
    # Above rules alone the name of the first column is level with those of the others.
    if rules != "grid":
        heads[0][0], heads[1][0] = "", "Part"
    else:
        sheet.text(edges[0] + 4, _TOP + 11, "Part")
    for row_number, cells in enumerate([heads[1], *body], 1):
        _row(sheet, edges, _TOP + row_number * STEP + 11, cells)
    sheet.prose(bottom + 40)
    return HardTables(document.tobytes(), (TrueCells(1, [*heads, *body], tuple(spans)),))


def _stacked(pick: random.Random) -> HardTables:
    document = pymupdf.open()
    sheet = _Sheet(document)
    sheet.prose(100)
    tables = [[["Part", "Mass", "Load"], *_body(pick, pick.randint(3, 6), 3)] for _ in range(2)]
    end = _set(sheet, tables[0], _TOP, rules="head")
    sheet.prose(end + 22, _BETWEEN)
    end = _set(sheet, tables[1], end + 34, rules="head")
    sheet.prose(end + 40)
    return HardTables(document.tobytes(), tuple(TrueCells(1, rows) for rows in tables), _BETWEEN)


def _over_pages(pick: random.Random) -> HardTables:
    """Draw a table over three pages, its two head rows on each."""
    document = pymupdf.open()
    heads = [["Part", "Series", ""], ["", "cold", "warm"]]
    body = _body(pick, 60 + pick.randint(0, 9), 3)
    edges = _edges(3)
    for start in range(0, len(body), 30):
        sheet, part = _Sheet(document), body[start : start + 30]
        top = 90 if start else _TOP
        if not start:
            sheet.prose(100)
        for row_number in range(len(part) + 3):
            sheet.rule(
                edges[0] if row_number != 1 else edges[1], top + row_number * STEP, edges[-1], top + row_number * STEP
            )
        for column, edge in enumerate(edges):
            sheet.rule(edge, top + STEP * (column == 2), edge, top + STEP * (len(part) + 2))
        sheet.text(0, top + 11, "Series", centre=(edges[1] + edges[3]) / 2)
        sheet.text(edges[0] + 4, top + 11, "Part")
        for row_number, cells in enumerate([heads[1], *part], 1):
            _row(sheet, edges, top + row_number * STEP + 11, cells)
    return HardTables(document.tobytes(), (TrueCells(1, [*heads, *body], (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2))),))


STYLES: dict[str, Callable[[random.Random], HardTables]] = {
    "rules at head and end": lambda pick: _plain(pick, rules="head"),
    "rules between rows": lambda pick: _plain(pick, rules="rows"),
    "shaded head": lambda pick: _plain(pick, rules="", shaded="head"),
    "shaded head and bands": lambda pick: _plain(pick, rules="", shaded="both"),
    "bands": lambda pick: _plain(pick, rules="head", shaded="bands"),
    "monospace": lambda pick: _plain(pick, rules="", font="cour"),
    "rotated, ruled": lambda pick: _plain(pick, rules="grid", turned=True),
    "rotated, rules at head and end": lambda pick: _plain(pick, rules="head", turned=True),
    "grouped, ruled, labels over rows": lambda pick: _grouped(pick, rules="grid"),
    "grouped, rules at head and end": lambda pick: _grouped(pick, rules="head"),
    "stacked": _stacked,
    "over pages": _over_pages,
}
"""Each way to set a table; the same seed gives the same table."""
