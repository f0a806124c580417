"""Convert MuPDF's paths of a page to marks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from schemas.drawings import PAGE_SHARE, Mark
from schemas.geometry import BBox

_MOST_MARKS = 100_000
"""Marks of a page beyond which a path is one mark, however many parts it has: a map may have millions."""

_HAIR_PT = 1.0
"""Maximum thickness of a straight mark whose parts are joined to a rule, or of a clip around one."""

_JOINT_PT = 0.5
"""Maximum gap between two parts of one rule."""

_SLANT = 0.02
"""Tolerated rise of a horizontal or vertical line, relative to its length."""

_WHITE = 0.97
"""Minimum red, green and blue of what is invisible on paper."""


def marks_of(paths: Sequence[dict[str, Any]], page: BBox) -> tuple[tuple[Mark, ...], tuple[BBox, ...]]:
    """Return a page's marks, cut to their clips, and the outermost clips smaller than the page.

    Rules come last and are joined: one is often drawn in parts, as the frame of a listing along each of its lines.

    Args:
        paths: PyMuPDF's ``get_cdrawings(extended=True)``.
        page: The page's box.
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
        style, margin, path_box = _style(path, frame), _margin(path), path["rect"]
        for box, strokes in _parts(path["items"], path_box) if len(marks) + len(rules) <= _MOST_MARKS else ((path_box, 1),):
            x0, y0, x1, y1 = visible_box = _cut(box, margin, area)
            across, down = x1 - x0, y1 - y0
            if across < 0 or down < 0:
                continue
            if strokes or min(across, down) > _HAIR_PT:
                marks.append(Mark(BBox(*visible_box), strokes, *style))
            elif down > across:
                _join(rules.setdefault((True, x0, x1, *style), []), y0, y1)
            else:
                _join(rules.setdefault((False, y0, y1, *style), []), x0, x1)
    return (*marks, *_whole(rules)), tuple(clips.frames)


class _Clips:
    """The clips in force while the paths of a page are processed, outermost first."""

    def __init__(self, page: BBox) -> None:
        self.frames: dict[BBox, None] = {}
        self._page = page
        self._open: list[tuple[int, BBox, BBox | None]] = []

    def around(self, level: int) -> tuple[BBox, BBox | None]:
        """Return the visible area of a path at a level, and its frame."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        return self._open[-1][1:] if self._open else (self._page, None)

    def add(self, level: int, cut: BBox, frame: BBox | None) -> None:
        """Add a clip inside a frame; the outermost one that is smaller than the page is a frame itself."""
        # Clips around single rules don't frame a picture; there may be hundreds.
        if frame is None and min(cut.width, cut.height) > _HAIR_PT and cut.area < PAGE_SHARE * self._page.area:
            frame = cut.rounded()
            self.frames[frame] = None
        self._open.append((level, cut, frame))


def _style(path: dict[str, Any], frame: BBox | None) -> tuple[bool, bool, BBox | None, tuple[float, ...] | None]:
    """Return whether a path is filled, whether it is white, its frame, and its fill colour."""
    fill, stroke = path.get("fill"), path.get("color")
    is_filled = fill is not None and min(fill) <= _WHITE
    is_white = not is_filled and (stroke is None or min(stroke) > _WHITE)
    return is_filled, is_white, frame, fill if is_filled else None


def _margin(path: dict[str, Any]) -> float:
    """Return how far a path's line extends beyond it."""
    return 0.0 if path.get("color") is None else (path.get("width") or 0.0) / 2


def _whole(rules: dict[tuple[Any, ...], list[tuple[float, float]]]) -> Iterator[Mark]:
    """Yield rules, given their parts along each line."""
    for (upright, low, high, *style), parts in rules.items():
        for start, end in parts:
            yield Mark(BBox(low, start, high, end) if upright else BBox(start, low, end, high), 0, *style)


def _cut(box: Sequence[float], margin: float, area: BBox) -> tuple[float, float, float, float]:
    """Return a box with its line's width, cut to its clip."""
    x0, y0, x1, y1 = box
    u0, v0, u1, v1 = area
    if margin:
        x0, y0, x1, y1 = x0 - margin, y0 - margin, x1 + margin, y1 + margin
    return (u0 if u0 > x0 else x0, v0 if v0 > y0 else y0, u1 if u1 < x1 else x1, v1 if v1 < y1 else y1)


def _join(parts: list[tuple[float, float]], start: float, end: float) -> None:
    """Add a part of a rule to those along the same line, joined with the one before if they touch."""
    if parts and start <= parts[-1][1] + _JOINT_PT and end >= parts[-1][0] - _JOINT_PT:
        start, end = min(start, parts[-1][0]), max(end, parts.pop()[1])
    parts.append((start, end))


def _parts(items: Sequence[Any], path_box: Sequence[float]) -> Iterable[tuple[Sequence[float], int]]:
    """Split a path where its pen was lifted, since one path can draw a whole series of bars; count curves and slanted lines.

    Args:
        items: The path's items.
        path_box: Its box, which is the only part of most paths.
    """
    if len(items) == 1 and items[0][0] == "l":
        return ((path_box, int(_is_slanted(path_box))),)
    return _lifted(items, path_box)


def _lifted(items: Sequence[Any], path_box: Sequence[float]) -> Iterator[tuple[Sequence[float], int]]:
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
        yield path_box if uncut else _around(points), strokes


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
