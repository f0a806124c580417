"""Turn the paths that MuPDF finds on a page into marks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from schemas.drawings import PAGE_SHARE, Mark
from schemas.geometry import BBox

_MOST_MARKS = 100_000
"""Marks of a page beyond which a path is one mark, however many pieces it has: a map may have millions."""

_HAIR_PT = 1.0
"""Thickness up to which what is straight is a rule, whose pieces are joined, or a clip frames nothing but one. Of 409 pages
none changes at 0.5 or 2.
"""

_JOINT_PT = 0.5
"""Widest gap between two pieces of one rule. Of 409 pages 2 change at 0.25 (their tables end a fraction of a point elsewhere),
none at 1.
"""

_SLANT = 0.02
"""Share of its length that a level or upright line may rise or lean. Of 409 pages none changes at 0.01 or 0.04."""

_WHITE = 0.97
"""Least red, green and blue of what can't be seen on paper. Of 409 pages 1 changes at 0.9 (a light shade at the edge of a
figure is lost), none at 0.995.
"""


def marks_of(paths: Sequence[dict[str, Any]], page: BBox) -> tuple[tuple[Mark, ...], tuple[BBox, ...]]:
    """Return what is drawn, cut to its clip, and the outermost clips smaller than the page.

    Rules come last and whole: one is often drawn in pieces, as the frame of a listing along each of its lines.

    Args:
        paths: PyMuPDF's ``get_cdrawings(extended=True)``.
        page: The page as drawn.
    """
    clips = _Clips(page)
    marks: list[Mark] = []
    rules: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for path in paths:
        kind, level = path["type"], path.get("level", 0)
        area, frame = clips.around(level)
        if kind == "clip":
            clips.add(level, BBox(*path["scissor"]) & area, frame)
            continue
        if kind == "group" or (path.get("fill") is None and path.get("stroke_opacity", 1) == 0):
            continue
        look, margin, whole = _look(path, frame), _margin(path), path["rect"]
        for box, strokes in _pieces(path["items"], whole) if len(marks) + len(rules) <= _MOST_MARKS else ((whole, 1),):
            x0, y0, x1, y1 = seen = _cut(box, margin, area)
            across, down = x1 - x0, y1 - y0
            if across < 0 or down < 0:
                continue
            if strokes or min(across, down) > _HAIR_PT:
                marks.append(Mark(BBox(*seen), strokes, *look))
            elif down > across:
                _join(rules.setdefault((True, x0, x1, *look), []), y0, y1)
            else:
                _join(rules.setdefault((False, y0, y1, *look), []), x0, x1)
    return (*marks, *_whole(rules)), tuple(clips.frames)


class _Clips:
    """The clips that are in force while the paths of a page are gone through, outermost first."""

    def __init__(self, page: BBox) -> None:
        self.frames: dict[BBox, None] = {}
        self._page = page
        self._open: list[tuple[int, BBox, BBox | None]] = []

    def around(self, level: int) -> tuple[BBox, BBox | None]:
        """Return what is visible of a path at a level, and the frame that it is drawn in."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        return self._open[-1][1:] if self._open else (self._page, None)

    def add(self, level: int, cut: BBox, frame: BBox | None) -> None:
        """Add a clip inside a frame; the outermost one that is smaller than the page is a frame itself."""
        # Where each rule is drawn in a clip of its own, there are hundreds, and none frames a picture.
        if frame is None and min(cut.width, cut.height) > _HAIR_PT and cut.area < PAGE_SHARE * self._page.area:
            frame = cut.rounded()
            self.frames[frame] = None
        self._open.append((level, cut, frame))


def _look(path: dict[str, Any], frame: BBox | None) -> tuple[bool, bool, BBox | None, tuple[float, ...] | None]:
    """Return whether a path is filled, whether it is white, its frame, and what fills it."""
    fill, stroke = path.get("fill"), path.get("color")
    is_filled = fill is not None and min(fill) <= _WHITE
    is_white = not is_filled and (stroke is None or min(stroke) > _WHITE)
    return is_filled, is_white, frame, fill if is_filled else None


def _margin(path: dict[str, Any]) -> float:
    """Return how far a path's line reaches beyond it."""
    return 0.0 if path.get("color") is None else (path.get("width") or 0.0) / 2


def _whole(rules: dict[tuple[Any, ...], list[tuple[float, float]]]) -> Iterator[Mark]:
    """Yield rules, given the pieces along each line."""
    for (upright, low, high, *look), pieces in rules.items():
        for start, end in pieces:
            yield Mark(BBox(low, start, high, end) if upright else BBox(start, low, end, high), 0, *look)


def _cut(box: Sequence[float], margin: float, area: BBox) -> tuple[float, float, float, float]:
    """Return a box with its line's width, as far as its clip shows it."""
    x0, y0, x1, y1 = box
    left, top, right, bottom = area
    if margin:
        x0, y0, x1, y1 = x0 - margin, y0 - margin, x1 + margin, y1 + margin
    return left if left > x0 else x0, top if top > y0 else y0, right if right < x1 else x1, bottom if bottom < y1 else y1


def _join(pieces: list[tuple[float, float]], start: float, end: float) -> None:
    """Add a piece of a rule to those along the same line; one that goes on is one with the piece before."""
    if pieces and start <= pieces[-1][1] + _JOINT_PT and end >= pieces[-1][0] - _JOINT_PT:
        start, end = min(start, pieces[-1][0]), max(end, pieces.pop()[1])
    pieces.append((start, end))


def _pieces(items: Sequence[Any], whole: Sequence[float]) -> Iterable[tuple[Sequence[float], int]]:
    """Cut a path where its pen was lifted: one path can hold a whole series of bars. Curves and slanted lines are counted.

    Args:
        items: What the path is made of.
        whole: Its box, which most paths have for their only piece.
    """
    if len(items) == 1 and items[0][0] == "l":
        return ((whole, int(_is_slanted(whole))),)
    return _lifted(items, whole)


def _lifted(items: Sequence[Any], whole: Sequence[float]) -> Iterator[tuple[Sequence[float], int]]:
    points: list[tuple[float, float]] = []
    strokes = 0
    uncut = True
    for item in items:
        kind = item[0]
        if kind in {"re", "qu"}:
            corners = _corners(item[1])
            yield _around(corners), int(kind == "qu" and not _upright(corners))
            uncut = False
            continue
        if points and item[1] != points[-1]:
            yield _around(points), strokes
            points, strokes, uncut = [], 0, False
        points += item[1:]
        if kind == "c":
            strokes += 1
        else:
            strokes += _is_slanted((*item[1], *item[2]))
    if points:
        yield whole if uncut else _around(points), strokes


def _is_slanted(line: Sequence[float]) -> bool:
    x0, y0, x1, y1 = line
    across, down = abs(x0 - x1), abs(y0 - y1)
    return across > _SLANT * down and down > _SLANT * across


def _corners(shape: Any) -> list[tuple[float, float]]:
    if isinstance(shape[0], float | int):
        x0, y0, x1, y1 = shape
        return [(x0, y0), (x1, y1)]
    return [tuple(point) for point in shape]


def _upright(points: Sequence[tuple[float, float]]) -> bool:
    return len({round(x) for x, _ in points}) <= 2 and len({round(y) for _, y in points}) <= 2


def _around(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)
