"""The implementation of ``PdfPage`` with MuPDF: lines in the order of its content, images, paths, letters."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from backends.pdf.hidden import is_across, without_disturbing, without_unseen
from backends.pdf.opening import rejecting
from backends.pdf.pixels import MOST_PIXELS, EmbeddedImage, draw
from backends.pdf.tagged_tables import with_tagged_tables
from backends.pdf.text import image_blocks, lines_of, move_off_page, read_letters, replacement_texts, text_page, unit_square
from schemas.documents import LayoutLabel, Line, PageRegion
from schemas.drawings import MAX_SIDE_PT, PAGE_SHARE, Image, Letters, Mark, PageLine, Pixels, ReplacementText
from schemas.errors import FailureCode
from schemas.geometry import BBox, is_level, turned
from schemas.tags import escape

if TYPE_CHECKING:
    import pymupdf


SIZE_PT = 11.0
"""Type size of a value whose field doesn't say it."""

_SEEN_SHARE = 0.1
"""Minimum share of an image on the page, or visible in its clip. Of 6,058 images on 1,349 pages 35 have less; the same at 0.05
and 0.2.
"""

_SLIVER_PT = 12.0
"""Minimum visible side of an image with a smaller share: it may be a symbol of 32 pt from a row of ten."""

_SAMPLES_PER_PT = 0.5
"""Resolution, in pixels per point, at which the colour of painted areas is sampled; thinner ones count as black."""

_WHOLE_SHARE = 0.99
"""Share of an image from which on it is fully visible and kept as stored. Of those images 307 change at 0.95 (an invisible
twentieth is kept), 426 at 0.999 (a sliver less, and they are drawn again at another resolution).
"""


def with_fields(lines: Sequence[PageLine], page: "pymupdf.Page", number: int) -> list[PageLine]:
    """Return the lines of a page with the values of its fields, each in the block of its label; boxes ticked or not."""
    values = list(_values(page, number, 1 + max((line.block for line, _ in lines), default=0)))
    # The appearance of a field is in the page's text as well, and would repeat its value.
    drawn = [line for line in lines if not any(value.bbox.has_middle_of(line.line.bbox) for value in values)]
    labels = [line for line, is_visible in drawn if is_visible]
    return [*drawn, *(PageLine(_beside_label(value, labels), True) for value in values)]


def _beside_label(value: Line, lines: Sequence[Line]) -> Line:
    level = [line for line in lines if is_level(line.bbox, value.bbox)]
    if not level:
        return value
    # The label of a box is behind it, that of any other field before it.
    behind = [line for line in level if len(value.text) == 1 and line.bbox.x0 >= value.bbox.x1]
    before = [line for line in level if len(value.text) > 1 and line.bbox.x1 <= value.bbox.x0]
    nearest = min(behind or before or level, key=lambda line: abs(line.bbox.gap_x(value.bbox)))
    return value._replace(block=nearest.block)


def _values(page: "pymupdf.Page", number: int, block: int) -> Iterator[Line]:
    import pymupdf

    for widget in page.widgets() or ():
        kind, value = widget.field_type, str(widget.field_value or "")
        if kind in (pymupdf.PDF_WIDGET_TYPE_CHECKBOX, pymupdf.PDF_WIDGET_TYPE_RADIOBUTTON):
            is_on = value not in ("", "Off") and value == str(widget.on_state())
            is_radio = kind == pymupdf.PDF_WIDGET_TYPE_RADIOBUTTON
            text = ("◉" if is_on else "○") if is_radio else ("☑" if is_on else "☐")
        elif kind in (pymupdf.PDF_WIDGET_TYPE_TEXT, pymupdf.PDF_WIDGET_TYPE_COMBOBOX, pymupdf.PDF_WIDGET_TYPE_LISTBOX):
            text = " ".join(value.split())
        else:
            continue
        if text:
            size = float(widget.text_fontsize or SIZE_PT)
            yield Line(number, block, BBox(*widget.rect).rounded(), escape(text), size, bold=False)
            block += 1


def read_page(pdf: "pymupdf.Document", number: int, *, at: int | None = None) -> "MuPdfPage":
    """Read one page; see ``PdfDocument.read_page``. Watermarks, which disturb the rest, are read apart.

    ``at`` is the index of the page in a document that has it alone.
    """
    with rejecting("the page can't be read", FailureCode.PAGE_UNREADABLE, number):
        page = pdf[number - 1 if at is None else at]
        rotation = int(page.rotation)
        if rotation:
            page.set_rotation(0)
        rect = page.rect
        box = BBox(0.0, 0.0, float(rect.width), float(rect.height))
        listing = page.get_displaylist()
        text = text_page(listing)
        blocks, text_blocks = image_blocks(text)
        painted = {at: painted_box for at, block in blocks if (painted_box := _painted(block, box)) is not None}
        images = list(_images([(at, block) for at, block in blocks if at not in painted], box))
        # This overwrites the boxes of images, which are read above.
        move_off_page(blocks)
        content = text.extractDICT()["blocks"]
        lines, white = lines_of(content, number, text_blocks)
        rows = [row for block in content for row in block["lines"] if row["spans"]]
        alone = without_disturbing(pdf, number, rows) if at is None else None
        if alone is not None:
            clean = read_page(alone, number, at=0)
            clean.rotation = rotation
            last = max((line.block for line, _ in clean.lines), default=0)
            across = [PageLine(line._replace(block=last + 1), shows) for line, shows in lines if is_across(line)]
            clean.lines = [*clean.lines, *across]
            return clean
        lines = without_unseen(lines, white, [image for image, _ in images], listing, box)
        lines = with_fields(lines, page, number)
        # A larger sheet keeps its text, but nothing of it is drawn.
        drawn = max(box.width, box.height) <= MAX_SIDE_PT
        paths = [*page.get_cdrawings(extended=True), *_rectangles([*painted.values()], box, listing)] if drawn else []
    marks, frames = marks_of(paths, box)
    handles = [handle for _, handle in images]
    return MuPdfPage(
        number, box, rotation, lines, tuple(image for image, _ in images), marks, frames, handles, listing, page
    )


@dataclass(eq=False)
class MuPdfPage:
    """Implements ``PdfPage``; keeps the page's display list."""

    number: int
    box: BBox
    rotation: int
    lines: Sequence[PageLine]
    images: tuple[Image, ...]
    marks: tuple[Mark, ...]
    frames: tuple[BBox, ...]
    _handles: Sequence[Any]
    _listing: "pymupdf.DisplayList"
    _page: "pymupdf.Page"
    _letters: dict[Line, Letters | None] = field(default_factory=dict)

    def regions(self, rotation: int, *, is_scan: bool = False) -> list[PageRegion] | None:
        """Return the blocks that a layout model sees; see the port."""
        return page_regions(self._page, rotation, is_scan=is_scan)

    def letters(self, line: Line) -> Letters | None:
        """Return the positions of a line's letters; see the port."""
        with rejecting("the page can't be read", FailureCode.PAGE_UNREADABLE, self.number):
            if line not in self._letters:
                self._letters[line] = read_letters(self._text, line)
            return self._letters[line]

    @cached_property
    def _text(self) -> "pymupdf.TextPage":
        text = text_page(self._listing)
        move_off_page(image_blocks(text)[0])
        return text

    def replacement_texts(self) -> list[ReplacementText]:
        """Return the replacement texts of images; see the port."""
        with rejecting("the page can't be read", FailureCode.PAGE_UNREADABLE, self.number):
            return replacement_texts(self._listing)

    def embedded(self, image: Image) -> EmbeddedImage:
        """Return the embedded image of one of the page's images."""
        return EmbeddedImage(self._handles[image.number])

    def draw(self, box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
        """Return the pixels of a part of the page; see the port."""
        return draw(self._listing, box, dpi=dpi, max_pixels=max_pixels)


def _painted(block: Any, page: BBox) -> BBox | None:
    """Return the rectangle painted by an image mask of one pixel; None for any other image.

    Older Ghostscript, as ``ps2pdf`` runs it, writes rules and filled areas so: 4 of 100 documents of Debian have 27 to 1,597.
    """
    handle, matrix = block.i_image(), block.i_transform()
    if not handle.imagemask() or (handle.w(), handle.h()) != (1, 1):
        return None
    if not math.isclose(abs(matrix.a * matrix.d - matrix.b * matrix.c), unit_square(matrix).area, rel_tol=1e-3):
        return None  # slanted
    rect = block.m_internal.bbox
    return BBox(rect.x0, rect.y0, rect.x1, rect.y1) & page


def _rectangles(boxes: Sequence[BBox], page: BBox, listing: "pymupdf.DisplayList") -> Iterator[dict[str, Any]]:
    """Yield rectangles as paths for ``marks_of``; an area has the median colour of its pixels."""
    pixels: Pixels | None = None
    for box in boxes:
        fill = (0.0, 0.0, 0.0)
        if min(box.width, box.height) > 1 / _SAMPLES_PER_PT:
            if pixels is None:
                pixels = draw(listing, page, dpi=round(72 * _SAMPLES_PER_PT), max_pixels=MOST_PIXELS)
            x0, y0, x1, y1 = (round(side * _SAMPLES_PER_PT) for side in box)
            fill = tuple((np.median(pixels[y0:y1, x0:x1], axis=(0, 1)) / 255).tolist())
        yield {"type": "f", "fill": fill, "rect": tuple(box), "items": [("re", tuple(box))]}


def _images(blocks: Sequence[tuple[int, Any]], page: BBox) -> Iterator[tuple[Image, Any]]:
    """Yield the visible images, each with MuPDF's handle."""
    number = 0
    for block_number, block in blocks:
        rect, handle = block.m_internal.bbox, block.i_image()
        matrix = block.i_transform()
        image_box = unit_square(matrix)  # MuPDF's own box is cut to the page and to the clip already
        visible_box = BBox(rect.x0, rect.y0, rect.x1, rect.y1) & image_box & page
        page_box = image_box & page
        if image_box.area <= 0 or page_box.area < _SEEN_SHARE * image_box.area:
            continue  # outside the crop box
        if visible_box.area < _SEEN_SHARE * page_box.area and min(visible_box.width, visible_box.height) < _SLIVER_PT:
            continue  # the clip hides almost all of it
        mask = handle.mask()
        image = Image(
            number=number,
            block=block_number,
            bbox=visible_box.rounded(),
            width=int(handle.w()),
            height=int(handle.h()),
            matrix=(matrix.a, matrix.b, matrix.c, matrix.d),
            cut=visible_box.area < _WHOLE_SHARE * image_box.area,
            is_mask=bool(handle.imagemask()),
            mask_px=(int(mask.w()), int(mask.h())) if mask.m_internal else None,
        )
        yield image, handle
        number += 1


def page_regions(page: "pymupdf.Page", rotation: int, *, is_scan: bool = False) -> list[PageRegion] | None:
    """Return the blocks of a page; None if the model fails on it.

    The model sees the page as its reader does. Afterwards a rotated page is upright, with its contents turned.

    Args:
        page: The page, whose rotation was set to 0.
        rotation: How it is turned for its reader, in degrees.
        is_scan: It is a picture, in which the model looks for further pictures.
    """
    import pymupdf

    back = pymupdf.Matrix(1, 1)
    if rotation:
        page.set_rotation(rotation)
        # The matrix is read before the rotation is removed, after which it is the identity.
        back = page.derotation_matrix
        page.remove_rotation()
    try:
        groups = layout_model("text+post-seg-image" if is_scan else TEXT_MODEL).predict(page, return_raw=True) or []
    except Exception:  # noqa: BLE001  whatever the model fails on, rules read the page
        return None
    regions = [_region(group, back) for group in groups]
    return regions if rotation else with_tagged_tables(regions, page)


TEXT_MODEL = "text"
"""What the layout model looks at on a page that is no scan."""


@cache
def layout_model(looks_at: str) -> Any:
    """Load the layout model, in this process, with one thread: processes share the cores already.

    PyMuPDF passes no number of threads on, and ONNX Runtime has no other setting that reaches its sessions (decision 23). It
    starts one a core, and their waiting is 40 % of the CPU time of a page.
    """
    import onnxruntime
    from pymupdf.layout import DocumentLayoutAnalyzer

    def options_of_one_thread() -> "onnxruntime.SessionOptions":
        options = default_options()
        options.intra_op_num_threads = 1
        return options

    default_options = onnxruntime.SessionOptions
    onnxruntime.SessionOptions = options_of_one_thread
    try:
        return DocumentLayoutAnalyzer.get_model(input_type=looks_at)
    finally:
        onnxruntime.SessionOptions = default_options


def _region(group: dict[str, Any], back: "pymupdf.Matrix") -> PageRegion:
    grid = group.get("table_grid")
    box = _box(group["group_bbox"], back)
    x0, y0, _, _ = turned(box, (round(back.a), round(back.b)))
    return PageRegion(
        box,
        LayoutLabel(group["class_name"]),
        tuple(_box(box, back) for box in group["bboxes"]),
        () if grid is None else tuple(float(y0 + at) for at in grid.h_lines),
        () if grid is None else tuple(float(x0 + at) for at in grid.v_lines),
    )


def _box(sides: Sequence[float], back: "pymupdf.Matrix") -> BBox:
    import pymupdf

    return BBox(*(pymupdf.Rect(*sides[:4]) * back)).rounded()


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
    # Rules by direction, line and style, so that only parts that look like one rule are joined.
    rules: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for path in paths:
        kind, level = path["type"], path.get("level", 0)
        area, frame = clips.around(level)
        if kind == "clip":
            clips.add(level, BBox(*path["scissor"]) & area, frame)
            continue
        if kind == "group" or (path.get("fill") is None and path.get("stroke_opacity", 1) == 0):
            continue
        # A path's line extends beyond it on both sides.
        style, margin = _style(path, frame), 0.0 if path.get("color") is None else (path.get("width") or 0.0) / 2
        is_split = len(marks) + len(rules) <= _MOST_MARKS
        for box, strokes in _parts(path["items"], path["rect"]) if is_split else ((BBox(*path["rect"]), 1),):
            x0, y0, x1, y1 = visible_box = box.grown(margin) & area
            across, down = x1 - x0, y1 - y0
            if across < 0 or down < 0:
                continue
            if strokes or min(across, down) > _HAIR_PT:
                marks.append(Mark(visible_box, strokes, *style))
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
        # A clip holds for the deeper levels that follow it, until a path at its own level or above.
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


def _whole(rules: dict[tuple[Any, ...], list[tuple[float, float]]]) -> Iterator[Mark]:
    """Yield rules, given their parts along each line."""
    for (upright, low, high, *style), parts in rules.items():
        for start, end in parts:
            yield Mark(BBox(low, start, high, end) if upright else BBox(start, low, end, high), 0, *style)


def _join(parts: list[tuple[float, float]], start: float, end: float) -> None:
    """Add a part of a rule to those along the same line, joined with the one before if they touch."""
    if parts and start <= parts[-1][1] + _JOINT_PT and end >= parts[-1][0] - _JOINT_PT:
        start, end = min(start, parts[-1][0]), max(end, parts.pop()[1])
    parts.append((start, end))


def _parts(items: Sequence[Any], path_box: Sequence[float]) -> Iterator[tuple[BBox, int]]:
    """Split a path where its pen was lifted, since one path can draw a whole series of bars; count curves and slanted lines.

    Args:
        items: The path's items.
        path_box: Its box, which is the only part of most paths.
    """
    points: list[Sequence[float]] = []
    strokes = 0
    uncut = True
    for item in items:
        kind = item[0]
        if kind in {"re", "qu"}:
            corners = (item[1][:2], item[1][2:]) if kind == "re" else item[1]
            yield _around(corners), int(kind == "qu" and not _upright(corners))
            uncut = False
            continue
        # The pen was lifted if an item begins elsewhere than the one before ended.
        if points and item[1] != points[-1]:
            yield _around(points), strokes
            points, strokes, uncut = [], 0, False
        points += item[1:]
        if kind == "c":
            strokes += 1
        else:
            strokes += _is_slanted((*item[1], *item[2]))
    if points:
        yield BBox(*path_box) if uncut else _around(points), strokes


def _is_slanted(line: Sequence[float]) -> bool:
    x0, y0, x1, y1 = line
    across, down = abs(x0 - x1), abs(y0 - y1)
    return across > _SLANT * down and down > _SLANT * across


def _upright(points: Sequence[Sequence[float]]) -> bool:
    return len({round(x) for x, _ in points}) <= 2 and len({round(y) for _, y in points}) <= 2


def _around(points: Sequence[Sequence[float]]) -> BBox:
    xs, ys = zip(*points, strict=True)
    return BBox(min(xs), min(ys), max(xs), max(ys))
