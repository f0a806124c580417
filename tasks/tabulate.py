"""Read the cells of a table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    return [grid for table in found.tables if (grid := _grid(table)) is not None]


def _grid(table: Any) -> Grid | None:
    rows = tuple(tuple(escape((cell or "").strip()) for cell in row) for row in table.extract())
    boxes = tuple(tuple(BBox(*cell) if cell else None for cell in row.cells) for row in table.rows)
    wide = max((sum(bool(cell) for cell in row) for row in rows), default=0)
    if len(rows) < 2 or wide < 2:
        return None
    return Grid(BBox(*table.bbox).rounded(), rows, boxes)
