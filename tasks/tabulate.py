"""Read the cells of a table."""

from dataclasses import dataclass
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
    letters = _Letters.of(page)
    return [grid for table in found.tables if (grid := _grid(table, letters)) is not None]


@dataclass(frozen=True, slots=True)
class _Letters:
    """The letters of a page: their centres, shape ``(letters, 2)``, and the line of text that each stands in."""

    centres: NDArray[np.float64]
    lines: list[tuple[int, int]]
    texts: list[str]

    @classmethod
    def of(cls, page: "pymupdf.Page") -> "_Letters":
        import pymupdf

        flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_USE_CID_FOR_UNKNOWN_UNICODE
        found = [
            (letter["bbox"], (number, row), letter["c"])
            for number, block in enumerate(page.get_text("rawdict", flags=flags)["blocks"])
            for row, line in enumerate(block.get("lines", ()))
            for span in line["spans"]
            for letter in span["chars"]
        ]
        boxes = np.array([box for box, _, _ in found], dtype=np.float64).reshape(-1, 4)
        return cls((boxes[:, :2] + boxes[:, 2:]) / 2, [line for _, line, _ in found], [text for _, _, text in found])

    def within(self, cell: BBox | None) -> str:
        """Return what is written in a cell."""
        if cell is None:
            return ""
        inside = ((self.centres >= (cell.x0, cell.y0)) & (self.centres <= (cell.x1, cell.y1))).all(axis=1)
        lines: dict[tuple[int, int], str] = {}
        for index in np.flatnonzero(inside).tolist():
            lines[self.lines[index]] = lines.get(self.lines[index], "") + self.texts[index]
        return "\n".join(words for line in lines.values() if (words := line.strip()))


def _grid(table: Any, letters: _Letters) -> Grid | None:
    boxes = tuple(tuple(BBox(*cell) if cell else None for cell in row.cells) for row in table.rows)
    # The table finder's own text is torn: it reads letters by their ink, not by their line.
    rows = tuple(tuple(escape(letters.within(box)) for box in row) for row in boxes)
    wide = max((sum(bool(cell) for cell in row) for row in rows), default=0)
    if len(rows) < 2 or wide < 2:
        return None
    return Grid(BBox(*table.bbox).rounded(), rows, boxes)
