"""Read the cells of a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.geometry import BBox
from schemas.tags import escape

if TYPE_CHECKING:
    import pymupdf


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it stands on a page; ``boxes`` has None where a cell is part of its neighbour."""

    bbox: BBox
    rows: tuple[tuple[str, ...], ...]
    boxes: tuple[tuple[BBox | None, ...], ...]


def tabulate(page: "pymupdf.Page", clip: BBox) -> list[Grid]:
    """Read the tables in a part of a page whose rules promise one.

    Args:
        page: The page at rotation 0.
        clip: Where to look.

    Returns:
        Tables of two rows and two columns at least; [] where the rules were no table.
    """
    # use_layout=False: the layout model would cost a hundred times the parse.
    found = page.find_tables(clip=tuple(clip.grown(3)), use_layout=False)
    if not found.tables:
        return []
    words = _Words.of(page)
    return [grid for table in found.tables if (grid := _grid(table, words)) is not None]


@dataclass(frozen=True, slots=True)
class _Words:
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
    def of(cls, page: "pymupdf.Page") -> "_Words":
        import pymupdf

        flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_USE_CID_FOR_UNKNOWN_UNICODE
        boxes: list[tuple[float, float, float, float]] = []
        words = cls(np.empty((0, 2)), [], [], [], [])
        blocks = page.get_text("rawdict", flags=flags)["blocks"]
        for number, line in enumerate(line for block in blocks for line in block.get("lines", ())):
            words.line_boxes.append(BBox(*line["bbox"]))
            inside = False
            for letter in (letter for span in line["spans"] for letter in span["chars"]):
                if letter["c"].isspace():
                    inside = False
                    continue
                if not inside:
                    words.starts.append(len(boxes))
                    words.texts.append("")
                    words.lines.append(number)
                    inside = True
                words.texts[-1] += letter["c"]
                boxes.append(letter["bbox"])
        sides = np.array(boxes, dtype=np.float64).reshape(-1, 4)
        return replace(words, centres=(sides[:, :2] + sides[:, 2:]) / 2)

    def set_into(self, cells: Sequence[BBox], table: BBox) -> list[str]:
        """Return what is written in each cell of a table.

        A word goes to the cell that holds most of its letters. A word in no cell goes to the nearest one if its line stands
        in the table: that line is the table's, and nothing of it may be lost.
        """
        holder = np.full(len(self.centres), -1)
        for number, cell in enumerate(cells):
            inside = ((self.centres >= (cell.x0, cell.y0)) & (self.centres <= (cell.x1, cell.y1))).all(axis=1)
            holder[inside & (holder < 0)] = number
        written: list[dict[int, list[str]]] = [{} for _ in cells]
        for start, end, text, line in zip(self.starts, [*self.starts[1:], None], self.texts, self.lines, strict=True):
            held = holder[start:end]
            if (held >= 0).any():
                number = int(np.bincount(held[held >= 0]).argmax())
            elif _holds(table, self.line_boxes[line]):
                x, y = self.centres[start:end].mean(axis=0)
                number = min(range(len(cells)), key=lambda place: _apart(cells[place], x, y))
            else:
                continue
            written[number].setdefault(line, []).append(text)
        return ["\n".join(map(" ".join, lines.values())) for lines in written]


def _holds(table: BBox, line: BBox) -> bool:
    x, y = (line.x0 + line.x1) / 2, (line.y0 + line.y1) / 2
    return table.x0 - 1 <= x <= table.x1 + 1 and table.y0 - 1 <= y <= table.y1 + 1


def _apart(cell: BBox, x: float, y: float) -> float:
    return max(cell.x0 - x, x - cell.x1, 0.0) + max(cell.y0 - y, y - cell.y1, 0.0)


def _grid(table: Any, words: _Words) -> Grid | None:
    boxes = tuple(tuple(BBox(*cell) if cell else None for cell in row.cells) for row in table.rows)
    wide = max((sum(bool(cell) for cell in row) for row in boxes), default=0)
    if len(boxes) < 2 or wide < 2:
        return None
    box = BBox(*table.bbox).rounded()
    # The table finder's own text is torn: it reads letters by their ink, not by their line.
    written = iter(words.set_into([cell for row in boxes for cell in row if cell is not None], box))
    rows = tuple(tuple(escape(next(written)) if cell is not None else "" for cell in row) for row in boxes)
    return Grid(box, rows, boxes) if max(sum(map(bool, row)) for row in rows) >= 2 else None
