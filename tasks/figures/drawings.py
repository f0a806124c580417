"""Join the marks of a page into drawings: what lies within a few points of each other."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import scipy  # its submodules are loaded when they are used: a search needs none
from numpy.typing import NDArray

from schemas.documents import Line
from schemas.drawings import Mark
from schemas.geometry import BBox, union
from tasks.figures.parts import Part

JOIN_PT = 6.0
"""Maximum gap between two marks of one drawing. Of 2,191 pages 34 change at 4.02 (maps and tables fall apart), 50 at 9 (a table
joins the one below it).
"""
CELL_PT = 2.0
"""Cell of the grid on which marks are joined. Of 2,191 pages 27 change at 1.34 (tables fall apart), 34 at 3 (tables join)."""


def join_marks(page: BBox, marks: Sequence[Mark], body: Sequence[Line]) -> list[Part]:
    """Return the drawings of a page.

    A white background joins the marks on it, but has no extent of its own; a white box around a paragraph is ignored.
    """
    drawn_marks = [
        mark
        for mark in marks
        if not mark.white or mark.is_rule or not any(mark.bbox.has_middle_of(line.bbox) for line in body)
    ]
    parts: list[Part] = []
    for group in _together(page, [mark.bbox for mark in drawn_marks]):
        inked = [drawn_marks[index] for index in group if not drawn_marks[index].white]
        if inked:
            parts.append(Part(union(mark.bbox for mark in inked), tuple(inked)))
    return parts


def _together(page: BBox, boxes: Sequence[BBox]) -> list[list[int]]:
    """Group boxes within a few points of each other, in linear time.

    The boxes are painted on a coarse grid, reduced to the columns and rows where a box begins or ends; connected cells are one
    group.
    """
    if not boxes:
        return []
    sides = np.fromiter(chain.from_iterable(boxes), float, 4 * len(boxes)).reshape(-1, 2, 2)
    last_cell = np.array((page.x1, page.y1)) // CELL_PT + 3
    cells = np.clip((sides + np.array(((-1,), (1,))) * JOIN_PT / 2) // CELL_PT, 0, last_cell).astype(int)
    cells[:, 1] += 1
    across, down = _closed_up(cells[:, :, 0]), _closed_up(cells[:, :, 1])
    # Painting each box cell by cell took most of the time: mark its corners, and sum them up.
    edges = np.zeros((down.max() + 1, across.max() + 1), dtype=int)
    for row, column, step in ((0, 0, 1), (0, 1, -1), (1, 0, -1), (1, 1, 1)):
        np.add.at(edges, (down[:, row], across[:, column]), step)
    labels, _ = scipy.ndimage.label(edges.cumsum(axis=0).cumsum(axis=1) > 0)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels[down[:, 0], across[:, 0]].tolist()):
        groups.setdefault(label, []).append(index)
    return list(groups.values())


def _closed_up(ends: NDArray[np.int_]) -> NDArray[np.int_]:
    """Renumber the columns or rows of a grid, keeping those where something begins or ends."""
    is_end = np.zeros(ends.max() + 1, dtype=int)
    is_end[ends] = 1
    return (is_end.cumsum() - 1)[ends]
