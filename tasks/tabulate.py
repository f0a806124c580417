"""Read the cells of a table."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.geometry import BBox, union
from schemas.tags import escape

if TYPE_CHECKING:
    import pymupdf

_SAME_PT = 3.0
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it stands on a page; ``boxes`` has None where a cell is part of its neighbour."""

    bbox: BBox
    rows: tuple[tuple[str, ...], ...]
    boxes: tuple[tuple[BBox | None, ...], ...]


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


def tabulate(words: "Words", ruling: Ruling, rotation: int = 0) -> Grid | None:
    """Read the table that rules draw.

    Args:
        words: What is written on the page.
        ruling: The rules.
        rotation: How the page is turned for its reader, who sees rows where the unturned page has columns.

    Returns:
        A table of two rows and two columns at least; None where the rules draw none.
    """
    cells = _turned(_cells(ruling), rotation)
    if len(cells) < 2 or max(sum(cell is not None for cell in row) for row in cells) < 2:
        return None
    box = union(cell for row in cells for cell in row if cell is not None).rounded()
    written = iter(words.set_into([cell for row in cells for cell in row if cell is not None], box))
    rows = tuple(tuple(escape(next(written)) if cell is not None else "" for cell in row) for row in cells)
    return Grid(box, rows, cells) if max(sum(map(bool, row)) for row in rows) >= 2 else None


def _cells(ruling: Ruling) -> tuple[tuple[BBox | None, ...], ...]:
    """Return the cells between rules, row by row; None where a cell is part of one above it or left of it."""
    if not ruling.across:
        return ()
    # A table may be open at its sides: it ends where its rules do.
    xs = _levels([*(side.at for side in ruling.down), *(end for side in ruling.across for end in side[1:])])
    ys = _levels([*(side.at for side in ruling.across), *(end for side in ruling.down for end in side[1:])])
    taken = np.zeros((len(ys) - 1, len(xs) - 1), dtype=bool)
    walls = np.array([_standing(ruling.down, x, ys) for x in xs], dtype=bool).T
    floors = np.array([_standing(ruling.across, y, xs) for y in ys], dtype=bool)
    cells: list[list[BBox | None]] = [[None] * taken.shape[1] for _ in range(taken.shape[0])]
    for row, column in np.ndindex(taken.shape):
        if taken[row, column]:
            continue
        right = column + 1
        while right < taken.shape[1] and not walls[row, right] and not taken[row, right]:
            right += 1
        low = row + 1
        while (
            low < taken.shape[0]
            and not floors[low, column:right].any()
            and not walls[low, column + 1 : right].any()
            and not taken[low, column:right].any()
        ):
            low += 1
        taken[row:low, column:right] = True
        cells[row][column] = BBox(xs[column], ys[row], xs[right], ys[low])
    return tuple(map(tuple, cells))


def _turned(cells: tuple[tuple[BBox | None, ...], ...], rotation: int) -> tuple[tuple[BBox | None, ...], ...]:
    """Return the cells as the page's reader sees them; turned by a quarter, the first column becomes the first row."""
    for _ in range(rotation % 360 // 90):
        cells = tuple(zip(*reversed(cells), strict=True))
    return cells


def _levels(places: Iterable[float]) -> list[float]:
    """Return places that are a few points apart as one, sorted."""
    groups: list[list[float]] = []
    for place in sorted(places):
        if groups and place - groups[-1][-1] <= _SAME_PT:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [sum(group) / len(group) for group in groups]


def _standing(sides: Iterable[Side], at: float, levels: Sequence[float]) -> list[bool]:
    """Say between which levels pieces of rules together part two cells."""
    near = sorted(side for side in sides if abs(side.at - at) <= _SAME_PT)
    return [_covered(near, start, end) >= 0.6 * (end - start) for start, end in pairwise(levels)]


def _covered(sides: Sequence[Side], start: float, end: float) -> float:
    covered, reached = 0.0, start
    for side in sides:
        if side.end > start and side.start < end:
            covered += max(0.0, min(side.end, end) - max(side.start, reached))
            reached = max(reached, side.end)
    return covered


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a page, whole: a word that runs over the edge of its cell is not torn.

    Attributes:
        centres: Of the letters, shape ``(letters, 2)``.
        starts: Where each word's letters begin among them.
        texts: Each word.
        lines: The line of text that each stands in.
        line_boxes: Where each line stands.
    """

    centres: NDArray[np.float64]
    starts: list[int]
    texts: list[str]
    lines: list[int]
    line_boxes: list[BBox]

    @classmethod
    def of(cls, listing: "pymupdf.DisplayList") -> "Words":
        """Read the words of a page from what it draws at rotation 0."""
        import pymupdf

        flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_USE_CID_FOR_UNKNOWN_UNICODE
        boxes: list[tuple[float, float, float, float]] = []
        words = cls(np.empty((0, 2)), [], [], [], [])
        blocks = pymupdf.TextPage(listing.get_textpage(flags)).extractRAWDICT()["blocks"]
        for number, line in enumerate(line for block in blocks for line in block["lines"]):
            words.line_boxes.append(BBox(*line["bbox"]))
            letters = [letter for span in line["spans"] for letter in span["chars"]]
            for word in _WORD.finditer("".join([letter["c"] for letter in letters])):
                words.starts.append(len(boxes))
                words.texts.append(word[0])
                words.lines.append(number)
                boxes += [letter["bbox"] for letter in letters[word.start() : word.end()]]
        sides = np.array(boxes, dtype=np.float64).reshape(-1, 4)
        return replace(words, centres=(sides[:, :2] + sides[:, 2:]) / 2)

    def set_into(self, cells: Sequence[BBox], table: BBox) -> list[str]:
        """Return what is written in each cell of a table.

        A word goes to the cell that holds most of its letters. A word in no cell goes to the nearest one if its line stands
        in the table: that line is the table's, and nothing of it may be lost.
        """
        if not self.starts:
            return [""] * len(cells)
        holder = np.full(len(self.centres), -1)
        across, down = self.centres.T
        for number, cell in enumerate(cells):
            inside = (across >= cell.x0) & (across <= cell.x1) & (down >= cell.y0) & (down <= cell.y1)
            holder[inside & (holder < 0)] = number
        least, most = (extreme.reduceat(holder, self.starts).tolist() for extreme in (np.minimum, np.maximum))
        in_table = [holds(table, box) for box in self.line_boxes]
        written: list[dict[int, list[str]]] = [{} for _ in cells]
        ends = [*self.starts[1:], len(holder)]
        for start, end, text, line, low, number in zip(self.starts, ends, self.texts, self.lines, least, most, strict=True):
            if low < number:
                held = holder[start:end]
                number = int(np.bincount(held[held >= 0]).argmax())  # noqa: PLW2901
            elif number < 0:
                if not in_table[line]:
                    continue
                x, y = self.centres[start:end].mean(axis=0)
                number = min(range(len(cells)), key=lambda place: _apart(cells[place], x, y))  # noqa: PLW2901
            written[number].setdefault(line, []).append(text)
        return ["\n".join(map(" ".join, lines.values())) for lines in written]


def holds(outer: BBox, inner: BBox) -> bool:
    """Say whether something stands in a table or a picture, give or take a point.

    What reads a table's words and what takes its lines out of the text must agree on this, or words are lost or said twice.
    """
    return outer.grown(1).has_middle_of(inner)


def _apart(cell: BBox, x: float, y: float) -> float:
    return max(cell.x0 - x, x - cell.x1, 0.0) + max(cell.y0 - y, y - cell.y1, 0.0)
