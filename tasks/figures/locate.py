"""Find what a reader sees as one picture: images, strips of images, drawings, and drawings over images.

Geometry alone; no pixels are read. Points, top left origin, rotation 0.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from schemas.documents import Kind, Line
from schemas.drawings import PAGE_SHARE, RULE_PT, Image, Mark, Ruling, Side
from schemas.geometry import BBox, distance, gap, is_level, union
from schemas.labels import LabelKind, caption_label
from tasks.figures.anchor import anchor, caption_lines, has_word, running_text, whole_caption
from tasks.tables.tabulate import cells_of

_TOUCH_PT = 1.5
_GLUE_PT = 6.0
_CELL_PT = 2.0
_FEW_BOXES = 16
_LABEL_GAP_PT = 8.0
_PANEL_BORDER_PT = 5.0
_SMALLEST_PT = 25.0
_FLATTEST_PT = 20.0
"""Least side of a drawing of many strokes: of 168 that are lower than 25 pt, in 500 PDFs, 166 are symbols beside a note."""
_LONGEST_SHAPE = 4.0
"""How much longer than high such a drawing is at most: a line of letters that are drawn as curves is longer."""
_ICON_PT = 26.0
_LABEL_CHARACTERS = 200
_VALUE = re.compile(r"[<>≈~±+−–-]?[$€£¥]?\d[\d.,]*[%kKMB]?")
_ALGORITHM = re.compile(r"\s*(?:algorithm|algorithmus|algorithme|algoritmo)\s+\d", re.IGNORECASE)
_EDGE_SHARE = 0.1
_PANEL_GAP_PT = 36.0
_DIAGRAM_STROKES = 8
_END_SHARE = 0.25
_FEWEST_ENDS = 3
_BAR_SHARE = 0.15
_BAR_GAP = 1.2
_MOST_BARS = 100
_BAR_NAME_GAP_PT = 24.0
_KEY_PT = 12.0
_FEWEST_KEYS = 3
_TINT_SHARE = 0.9
_TINTED_ROWS = 3
_WHITE_ROW_PT = 8.0
_GROUND_LINES = 3
_GROUND_PARAGRAPHS = 6
_GROUND_SHARE = 0.35
_SHADOW_SHARE = 0.25
_BLEED_SHARE = 0.5
_CORNER_STROKES = 8
_BAR_ENDS_PT = 2.0
_LAYOUT_LINES = 10
_TEXT_BOX_SHARE = 0.5
_FEWEST_RULES = 6
_MOST_RULES = 1_000
_SAME_SIDE_PT = 3.0
_WORDED_ROWS_SHARE = 0.7
"""Least share of a table's rows with drawings in which another cell has words."""
_NEAR_CAPTION_PT = 40.0
_STEP_CHARACTERS = 15
"""Least length of a line that a picture beside it may belong to."""


@dataclass(frozen=True, slots=True)
class Region:
    """A picture on the page.

    ``image`` is set where it is exactly one image; ``inline`` where it stands in a line of text; ``framed`` where it was
    placed on the page as one graphic, so that its edges are known; ``ground`` where it is what a heading is written on.
    """

    bbox: BBox
    kind: Kind
    image: Image | None = None
    inline: bool = False
    captioned: bool = False
    framed: bool = False
    ground: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """What was found on a page: pictures in no particular order, and where rules promise a table."""

    regions: tuple[Region, ...]
    tables: tuple[Ruling, ...]


@dataclass(frozen=True)
class _Part:
    """Something drawn in one place: images, marks, or both. ``framed`` where they share a clip, as a placed graphic does."""

    bbox: BBox
    marks: tuple[Mark, ...] = ()
    images: tuple[Region, ...] = ()
    framed: bool = False

    @cached_property
    def strokes(self) -> int:
        return sum(mark.strokes for mark in self.marks)

    @cached_property
    def rules(self) -> int:
        return sum(mark.is_rule for mark in self.marks)

    @cached_property
    def shapes(self) -> int:
        return sum(not mark.is_rule and not mark.white for mark in self.marks)


def locate(
    page: BBox, images: Sequence[Image], marks: Sequence[Mark], frames: Sequence[BBox], lines: Sequence[Line]
) -> Located:
    """Find the pictures of a page.

    Args:
        page: The page as drawn.
        images: Everything that the page draws as an image, cut to the page.
        marks: Everything that it draws as a path, cut to its clip.
        frames: Clips smaller than the page: placed graphics, often.
        lines: Its lines of text that are shown.
    """
    if not (images or marks):
        return Located((), ())
    if not (images or frames) and _are_hairs(marks):
        return Located(tuple(_algorithms(marks, lines)), ())
    body = running_text(lines)
    captions = caption_lines(lines, LabelKind.FIGURE)
    pieced = _pieced_together(images, frames)
    whole = [region for region in pieced if region.bbox.area >= PAGE_SHARE * page.area]
    pictures = [_inline(region, lines) for region in pieced if region not in whole]
    seen = [mark for mark in marks if mark.bbox.area < PAGE_SHARE * page.area]
    placed, pictures, seen = _placed_graphics(page, frames, seen, pictures, lines, captions)
    drawn = [piece for part in _drawings(page, seen, body) for piece in _out_of_cells(part, lines, captions)]
    drawn = _bars_joined(drawn, lines)
    drawn = [part for part in drawn if not _is_panel(part, lines, pictures)]
    tables = [(part, ruling) for part in drawn if (ruling := _promised(part, lines)) is not None]
    parts = _overlaid(pictures, [part for part in drawn if not any(part is table for table, _ in tables)], lines)
    inline = [region for part in parts for region in part.images if region.inline and not part.marks]
    parts = [*placed, *(part for part in parts if not (part.images and part.images[0].inline and not part.marks))]
    if not images and not any(map(_shows, parts)):
        return Located((*_algorithms(seen, lines), *_legends(parts, lines)), tuple(ruling for _, ruling in tables))
    spoken = [whole_caption(caption, lines) for caption in captions]
    said = {line for caption in spoken for line in caption}
    barriers = [
        line.bbox
        for line in (body if spoken else ())
        if line not in said and not any(part.bbox.has_middle_of(line.bbox) for part in placed)
    ]
    edge = [part for part in parts if _is_at_edge(part.bbox, page)]
    steps = [
        line.bbox for line in (lines if spoken else ()) if line not in said and len(line.text.strip()) >= _STEP_CHARACTERS
    ]
    groups, told = _captioned([part for part in parts if part not in edge], spoken, barriers, steps)
    groups += _captioned(edge, [told_ for number, told_ in enumerate(spoken) if number not in told], barriers, steps)[0]
    figures = [_figure(_hanging(group), lines) for group in groups]
    free = [part for part in parts if not any(part in group for group in groups)]
    free = [part for part in free if not _is_box_round_words(part, lines)]
    free = [kept for part in free for kept in _without_bleed(part, page, pieced)]
    running = frozenset(body)
    free = [kept for part in free for kept in _without_ground(part, lines, body)]
    figures = [replace(_with_labels(figure, lines, running), captioned=True) for figure in figures]
    alone = _panels_joined([part for part in free if _is_picture(part, lines, running)], page, frames, body)
    keys = [key for part in free if (key := _key(part, lines, running)) is not None]
    cells = [cell for _, ruling in tables for row in cells_of(ruling) for cell in row if cell is not None] if alone else []
    figures += [
        replace(
            _with_labels(
                _with_keys(_figure(panels, lines), keys),
                _of_one_cell(panels, cells, lines),
                running,
                charted=any(_has_bars(part, lines) for part in panels),
            ),
            ground=_is_ground(panels, lines),
        )
        for panels in alone
    ]
    figures = _with_shadows(figures, lines)
    figures += [*_algorithms(seen, lines), *_legends(free, lines)]
    scans = [replace(region, kind=Kind.SCAN) for region in whole]
    return Located((*scans, *_joined([*figures, *inline])), tuple(ruling for _, ruling in tables))


def _are_hairs(marks: Sequence[Mark]) -> bool:
    """Say whether all that a page draws are rules that stand alone, as under its head and over its foot.

    What lies together is then too low for a picture or a table: what most pages of a manual need not be searched for.
    """
    if not all(mark.is_rule for mark in marks):
        return False
    top = low = -math.inf
    for _, y0, _, y1 in sorted((mark.bbox for mark in marks), key=itemgetter(1)):
        if y0 > low + 2 * _GLUE_PT:
            top = y0
        low = max(low, y1)
        if low - top > 2 * _PANEL_BORDER_PT:
            return False
    return True


def _algorithms(marks: Sequence[Mark], lines: Sequence[Line]) -> list[Region]:
    """Return what stands between rules under the title of an algorithm: its indentation and formulas are lost in text.

    LaTeX sets three rules of one width: over the title, under it and at the end.
    """
    titles = [line.bbox for line in lines if _ALGORITHM.match(line.text)]
    rules = [mark.bbox for mark in marks if mark.is_rule and mark.bbox.width > mark.bbox.height] if titles else []
    found: list[Region] = []
    for title in titles:
        alike = sorted((rule for rule in rules if _is_ruled_with(title, rule)), key=lambda rule: rule.y0)
        over = [rule for rule in alike if 0 <= title.y0 - rule.y0 <= title.height]
        under = [rule for rule in alike if rule.y0 >= title.y1 - RULE_PT and over and _near(rule.x1, over[-1].x1)]
        if over and len(under) >= 2 and under[0].y0 - title.y1 <= title.height:
            found.append(Region(over[-1] | under[1], Kind.VECTOR, captioned=True))
    return found


def _is_ruled_with(title: BBox, rule: BBox) -> bool:
    return _near(title.x0, rule.x0) and rule.x1 >= title.x1


def _captioned(
    parts: Sequence[_Part], captions: Sequence[Sequence[Line]], barriers: Sequence[BBox], steps: Sequence[BBox]
) -> tuple[list[list[_Part]], set[int]]:
    """Return the parts of each captioned picture, and the places of the captions that have one."""
    anchors = anchor(
        [union(line.bbox for line in caption) for caption in captions],
        [part.bbox for part in parts],
        barriers,
        showing=[_shows(part) for part in parts],
        steps=steps,
    )
    return [[parts[index] for index in members] for members in anchors.by_caption.values()], set(anchors.by_caption)


def _is_at_edge(box: BBox, page: BBox) -> bool:
    """Say whether something stands where pages have their logo: a caption asks for anything else first."""
    return box.height <= _EDGE_SHARE / 2 * page.height and (
        box.y1 <= page.y0 + _EDGE_SHARE * page.height or box.y0 >= page.y1 - _EDGE_SHARE * page.height
    )


def _pieced_together(images: Sequence[Image], frames: Sequence[BBox]) -> list[Region]:
    """Join strips and tiles that touch and share a side into the picture that they make."""
    groups: list[tuple[BBox, list[Image]]] = []
    for image in sorted(images, key=lambda image: (image.bbox.y0, image.bbox.x0)):
        touching = [group for group in groups if _continues(image.bbox, group[0], frames)]
        members = [*(member for group in touching for member in group[1]), image]
        box = union([image.bbox, *(group[0] for group in touching)])
        groups = [group for group in groups if group not in touching] + [(box, members)]
    groups = _rows_joined(groups, frames)
    return [
        Region(box, Kind.RASTER, members[0]) if len(members) == 1 else Region(box, Kind.COMPOSITE)
        for box, members in groups
    ]


def _rows_joined(groups: list[tuple[BBox, list[Image]]], frames: Sequence[BBox]) -> list[tuple[BBox, list[Image]]]:
    """Join rows of tiles once each row is whole."""
    merged = True
    while merged:
        merged = False
        for first in range(len(groups)):
            for second in range(first + 1, len(groups)):
                one, other = groups[first], groups[second]
                if (len(one[1]) > 1 or len(other[1]) > 1) and _continues(one[0], other[0], frames):
                    joined = (one[0] | other[0], [*one[1], *other[1]])
                    groups = [group for index, group in enumerate(groups) if index not in (first, second)] + [joined]
                    merged = True
                    break
            if merged:
                break
    return groups


def _continues(one: BBox, other: BBox, frames: Sequence[BBox]) -> bool:
    stacked = (
        _near(one.x0, other.x0) and _near(one.x1, other.x1) and abs(gap(one.y0, one.y1, other.y0, other.y1)) <= _TOUCH_PT
    )
    beside = (
        _near(one.y0, other.y0) and _near(one.y1, other.y1) and abs(gap(one.x0, one.x1, other.x0, other.x1)) <= _TOUCH_PT
    )
    return (stacked or beside) and not (_has_cell(one, other, frames) and _has_cell(other, one, frames))


def _has_cell(box: BBox, other: BBox, frames: Sequence[BBox]) -> bool:
    """Say whether a box stands in a clip, larger than itself, that another doesn't: that of a table's cell."""
    return any(
        frame.area >= 2 * box.area and frame.has_middle_of(box) and not frame.has_middle_of(other) for frame in frames
    )


def _near_all(one: BBox, other: BBox) -> bool:
    return all(map(_near, one, other))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _TOUCH_PT


def _inline(region: Region, lines: Sequence[Line]) -> Region:
    """Mark a small image that stands in a line of text."""
    box = region.bbox
    if region.image is None or min(box.width, box.height) > _ICON_PT or max(box.width, box.height) > 4 * _ICON_PT:
        return region
    for line in lines:
        beside = gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1) <= 1.5 * line.size
        if beside and is_level(box, line.bbox) and box.height <= 2.6 * line.bbox.height:
            return replace(region, inline=True)
    return region


def _placed_graphics(
    page: BBox,
    frames: Sequence[BBox],
    marks: Sequence[Mark],
    pictures: Sequence[Region],
    lines: Sequence[Line],
    captions: Sequence[Line],
) -> tuple[list[_Part], list[Region], list[Mark]]:
    """Take what is drawn inside one clip as one part.

    Returns:
        Those parts, and the pictures and marks that belong to none. A clip round one image is that image; one that holds
        a caption, or nothing but boxes and text, is a piece of the page's layout.
    """
    parts: list[_Part] = []
    free_pictures, free_marks = list(pictures), list(marks)
    for frame in sorted(frames, key=lambda frame: -frame.area):
        if min(frame.width, frame.height) < _SMALLEST_PT or any(frame.has_middle_of(line.bbox) for line in captions):
            continue
        inked = [mark for mark in free_marks if mark.frame == frame and not mark.white]
        inner = [region for region in free_pictures if _mostly_within(region.bbox, frame)]
        if not inked and len(inner) < 2:
            continue
        texts = [line.bbox & frame for line in lines if frame.has_middle_of(line.bbox)]
        if not captions and _is_print_area(inked, len(texts), len(lines)):
            continue
        if len(inner) > 1 and _is_text_box(inked, frame, page):
            # A text box with rules over and under it holds pictures, but also their title, their source and notes.
            parts.append(_Part(union(region.bbox for region in inner), (), tuple(inner)))
            free_pictures = [region for region in free_pictures if region not in inner]
            continue
        part = _Part(
            union([*(mark.bbox for mark in inked), *(region.bbox & frame for region in inner), *texts]),
            tuple(inked),
            tuple(inner),
            framed=True,
        )
        if not (part.strokes or len(inner) > 1 or part.shapes + part.rules >= 4 or _is_outline(part, texts)):
            continue
        parts.append(part)
        free_pictures = [region for region in free_pictures if region not in inner]
        free_marks = [mark for mark in free_marks if mark.frame != frame]
    return parts, free_pictures, free_marks


def _is_print_area(marks: Sequence[Mark], held: int, lines: int) -> bool:
    """Say whether a clip is that of the page's whole text: a browser that prints clips to the sheet's inside.

    Nothing in such a page is drawn but rules and boxes, as those of tables; a diagram has slanted lines or curves.
    """
    thick = [mark for mark in marks if min(mark.bbox.width, mark.bbox.height) > RULE_PT]
    full = held >= _LAYOUT_LINES or not thick  # the last page of a chapter may have a line or two
    return bool(marks) and not any(mark.strokes for mark in thick) and full and 0 < held >= 0.9 * lines


def _is_text_box(marks: Sequence[Mark], frame: BBox, page: BBox) -> bool:
    """Say whether a clip is that of a box in the page's layout: all that is drawn in it are rules over and under its content."""
    ruled = marks and all(mark.is_rule and mark.bbox.width >= 0.8 * frame.width for mark in marks)
    return bool(ruled) and frame.area <= _TEXT_BOX_SHARE * page.area


def _is_outline(part: _Part, texts: Sequence[BBox]) -> bool:
    """Say whether a part is a bare outline, such as a square that a manual shows how to draw."""
    return not texts and part.shapes > 0 and not any(mark.filled for mark in part.marks)


def _drawings(page: BBox, marks: Sequence[Mark], body: Sequence[Line]) -> list[_Part]:
    """Group marks that lie within a few points of each other."""
    # A white ground joins what stands on it, but has no extent of its own; a white box round a paragraph is nothing.
    kept = [
        mark
        for mark in marks
        if not mark.white or mark.is_rule or sum(mark.bbox.has_middle_of(line.bbox) for line in body) <= 1
    ]
    parts: list[_Part] = []
    for group in _together(page, [mark.bbox for mark in kept]):
        inked = [kept[index] for index in group if not kept[index].white]
        if inked:
            parts.append(_Part(union(mark.bbox for mark in inked), tuple(inked)))
    return parts


def _together(page: BBox, boxes: Sequence[BBox]) -> list[list[int]]:
    """Group boxes that lie within a few points of each other; linear in their number.

    Unless they are few, the boxes are painted on a coarse grid, of which only the columns and rows are kept where a box begins
    or ends; what is connected there belongs together.
    """
    if not boxes:
        return []
    if len(boxes) <= _FEW_BOXES:
        return _touching([_cells(box, page) for box in boxes])
    sides = np.fromiter(chain.from_iterable(boxes), float, 4 * len(boxes)).reshape(-1, 2, 2)
    most = np.array((page.x1, page.y1)) // _CELL_PT + 3
    cells = np.clip((sides + np.array(((-1,), (1,))) * _GLUE_PT / 2) // _CELL_PT, 0, most).astype(int)
    cells[:, 1] += 1
    across, down = _closed_up(cells[:, :, 0]), _closed_up(cells[:, :, 1])
    # Painted by their corners, whose sums are the boxes: one by one they took most of the time.
    edges = np.zeros((down.max() + 1, across.max() + 1), dtype=int)
    for row, column, step in ((0, 0, 1), (0, 1, -1), (1, 0, -1), (1, 1, 1)):
        np.add.at(edges, (down[:, row], across[:, column]), step)
    labels, _ = ndimage.label(edges.cumsum(axis=0).cumsum(axis=1) > 0)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels[down[:, 0], across[:, 0]].tolist()):
        groups.setdefault(label, []).append(index)
    return list(groups.values())


def _cells(box: BBox, page: BBox) -> tuple[float, float, float, float]:
    """Return the cells of the grid that a box covers, from the first one to that behind the last."""
    x0, y0, x1, y1 = box.grown(_GLUE_PT / 2)
    right, foot = page.x1 // _CELL_PT + 3, page.y1 // _CELL_PT + 3
    first = min(max(x0 // _CELL_PT, 0), right), min(max(y0 // _CELL_PT, 0), foot)
    return *first, min(max(x1 // _CELL_PT, 0), right) + 1, min(max(y1 // _CELL_PT, 0), foot) + 1


def _touching(boxes: Sequence[tuple[float, float, float, float]]) -> list[list[int]]:
    """Group boxes that overlap or share a part of a side, by comparing each with all others: of few, the grid takes longer."""
    groups: list[list[int]] = []
    for number, (x0, y0, x1, y1) in enumerate(boxes):
        near: list[list[int]] = []
        for group in groups:
            for other in group:
                left, top, right, bottom = boxes[other]
                across = (x1 if x1 < right else right) - (x0 if x0 > left else left)
                down = (y1 if y1 < bottom else bottom) - (y0 if y0 > top else top)
                if across >= 0 and down >= 0 and (across or down):
                    near.append(group)
                    break
        groups = [*(group for group in groups if group not in near), sorted([*chain.from_iterable(near), number])]
    return sorted(groups)


def _closed_up(ends: NDArray[np.int_]) -> NDArray[np.int_]:
    """Number the columns of a grid, or its rows, that are kept, by those where something begins or ends."""
    kept = np.zeros(ends.max() + 1, dtype=int)
    kept[ends] = 1
    return (kept.cumsum() - 1)[ends]


def _within(inner: BBox, outer: BBox) -> bool:
    return inner.x0 >= outer.x0 and inner.y0 >= outer.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1


def _mostly_within(inner: BBox, outer: BBox) -> bool:
    return (inner & outer).area >= 0.8 * inner.area


def _is_panel(part: _Part, lines: Sequence[Line], pictures: Sequence[Region]) -> bool:
    """Say whether a drawing is the ground of a listing or a note: shaded from edge to edge, with a border at most."""
    if not any(mark.filled for mark in part.marks):
        return False
    box = part.bbox
    core = box.grown(-_PANEL_BORDER_PT)
    sign = [mark for mark in part.marks if max(mark.bbox.width, mark.bbox.height) <= _ICON_PT]
    if sign and _is_sign(union(mark.bbox for mark in sign), box):
        part = replace(part, marks=tuple(mark for mark in part.marks if mark not in sign))
    inner = [mark for mark in part.marks if _meets(mark.bbox, core)]
    shaded = all(mark.filled and mark.bbox.width >= 0.9 * box.width for mark in inner)
    if part.strokes or not inner or not shaded or any(_mostly_within(picture.bbox, box) for picture in pictures):
        return False
    return any(box.has_middle_of(line.bbox) for line in lines)


def _is_box_round_words(part: _Part, lines: Sequence[Line]) -> bool:
    """Say whether all that is drawn is round words: rules along their sides, as an address has, or a box with round corners.

    Rules over and under words alone may be those of a small table, whose look tells more than its words one by one.
    """
    box = part.bbox
    if part.images or not any(box.has_middle_of(line.bbox) for line in lines):
        return False
    if all(_is_rounded_box(mark, box) for mark in part.marks):
        return True
    core = box.grown(-_PANEL_BORDER_PT)
    beside = [mark for mark in part.marks if mark.is_rule and not _meets(mark.bbox, core)]
    return len(beside) == len(part.marks) and any(mark.bbox.height > RULE_PT for mark in beside)


def _is_rounded_box(mark: Mark, box: BBox) -> bool:
    around = mark.bbox.width >= 0.9 * box.width and mark.bbox.height >= 0.9 * box.height
    return around and 0 < mark.strokes <= _CORNER_STROKES


def _without_bleed(part: _Part, page: BBox, images: Sequence[Region]) -> list[_Part]:
    """Leave out a drawing that goes on over the page's edge, as its ground does; what pictures there are in it stay.

    What a drawing shows has its place on the page; of a pattern or a bow that bleeds most pieces are cut off there. One that
    lies over an image of the page may be what there is to be seen of that image, and stays.
    """
    own = [picture.bbox for picture in part.images]
    if any((image.bbox & part.bbox).area >= 0.5 * part.bbox.area for image in images if image.bbox not in own):
        return [part]
    inside = page.grown(-_TOUCH_PT)
    cut = sum(not _within(mark.bbox, inside) for mark in part.marks)
    if not part.marks or cut < _BLEED_SHARE * len(part.marks):
        return [part]
    groups: list[list[Region]] = []
    for picture in part.images:
        near = [group for group in groups if any(distance(picture.bbox, other.bbox) <= _PANEL_GAP_PT for other in group)]
        joined = [picture, *(other for group in near for other in group)]
        groups = [group for group in groups if group not in near] + [joined]
    return [_Part(union(picture.bbox for picture in group), (), tuple(group)) for group in groups]


def _without_ground(part: _Part, lines: Sequence[Line], body: Sequence[Line]) -> list[_Part]:
    """Leave out the ground that paragraphs stand on where one clip holds it; what pictures stand on it beside them stay."""
    if not part.framed or part.marks or sum(part.bbox.has_middle_of(line.bbox) for line in body) <= _GROUND_PARAGRAPHS:
        return [part]
    kept: list[_Part] = []
    for picture in part.images:
        inner = [line for line in lines if picture.bbox.has_middle_of(line.bbox)]
        if sum(len(line.text) for line in inner) < _LABEL_CHARACTERS and not any(line in body for line in inner):
            kept.append(_Part(picture.bbox, (), (picture,)))
    return kept


def _is_sign(box: BBox, panel: BBox) -> bool:
    """Say whether something small stands at the left or the right of a note, as a sign of warning does."""
    small = max(box.width, box.height) <= _ICON_PT
    return small and (box.x1 <= panel.x0 + 2 * _ICON_PT or box.x0 >= panel.x1 - 2 * _ICON_PT)


def _out_of_cells(part: _Part, lines: Sequence[Line], captions: Sequence[Line]) -> list[_Part]:
    """Take a table with drawings in its cells apart: its rules, and what is drawn in each cell.

    The rules are connected and reach round the whole; each drawing lies in one cell and has words beside it in its row. A
    chart with a grid has neither: its curves cross the grid, and its words stand outside. What the caption of a figure
    stands under is left whole.
    """
    if not part.strokes or any(_is_captioned_by(part.bbox, caption.bbox) for caption in captions):
        return [part]
    rules, others = _lattice(part)
    ruled = replace(part, marks=tuple(rules))
    if not rules or not _is_table(ruled, lines):
        return [part]
    rows = [[cell for cell in row if cell is not None] for row in cells_of(_ruling(ruled, filled=False))]
    cells = [cell for row in rows for cell in row]
    drawn: dict[BBox, list[Mark]] = {}
    for mark in others:
        holder = next((cell for cell in cells if _within(mark.bbox, cell.grown(_TOUCH_PT))), None)
        if _is_shade(mark, cells):
            rules.append(mark)
        elif holder is None:
            return [part]
        else:
            drawn.setdefault(holder, []).append(mark)
    words = [line.bbox for line in lines if part.bbox.has_middle_of(line.bbox) and has_word(line)]
    worded = {cell for cell in cells if any(cell.has_middle_of(word) for word in words)}
    pictured = [row for row in rows if any(cell in drawn for cell in row)]
    beside = [row for row in pictured if any(cell in worded and cell not in drawn for cell in row)]
    if len(beside) < _WORDED_ROWS_SHARE * len(pictured):
        return [part]
    inner = [_Part(union(mark.bbox for mark in marks), tuple(marks)) for marks in drawn.values()]
    return [replace(part, marks=tuple(rules)), *inner]


def _is_captioned_by(box: BBox, caption: BBox) -> bool:
    across, down = gap(box.x0, box.x1, caption.x0, caption.x1), gap(box.y0, box.y1, caption.y0, caption.y1)
    return across < 0 and down <= _NEAR_CAPTION_PT


def _lattice(part: _Part) -> tuple[list[Mark], list[Mark]]:
    """Return those rules of a drawing that meet and reach round all of it, with the boxes of cells, and its other marks."""
    border = [mark for mark in part.marks if _is_rounded_box(mark, part.bbox)]
    straight = [mark for mark in part.marks if mark.is_rule or not (mark.strokes or mark.filled or mark.white)]
    if _FEWEST_RULES <= len(straight) <= _MOST_RULES:
        for group in _touching([mark.bbox.grown(_TOUCH_PT / 2) for mark in straight]):
            rules = [*(straight[index] for index in group), *border]
            if len(group) >= _FEWEST_RULES and _near_all(union(mark.bbox for mark in rules), part.bbox):
                own = set(map(id, rules))
                return rules, [mark for mark in part.marks if id(mark) not in own]
    return [], list(part.marks)


def _is_shade(mark: Mark, cells: Sequence[BBox]) -> bool:
    """Say whether a mark is what a cell or a row of cells is filled with."""
    covered = [cell for cell in cells if mark.bbox.has_middle_of(cell)]
    if mark.strokes or not covered:
        return False
    return all(abs(one - other) <= _SAME_SIDE_PT for one, other in zip(mark.bbox, union(covered), strict=True))


def _promised(part: _Part, lines: Sequence[Line]) -> Ruling | None:
    """Return the rules of the table that a drawing is; None where it is none."""
    if _is_table(part, lines):
        return None if _is_striped(part, lines) else _ruling(part)
    return _tinted(part, lines)


def _tinted(part: _Part, lines: Sequence[Line]) -> Ruling | None:
    """Return the rules of a table that has none inside: a box whose head is tinted, and columns under it.

    The edges of the tints part its columns, which no word crosses; its rows are those of its words.
    """
    box = part.bbox
    tints = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule and not _near_all(mark.bbox, box)]
    heads = [tint for tint in tints if _near(tint.y0, box.y0) and tint.width >= _TINT_SHARE * box.width]
    columns = [
        tint
        for tint in tints
        if _near(tint.y1, box.y1) and any(tint not in heads and _near(tint.y0, head.y1) for head in heads)
    ]
    if part.strokes or not columns or len(heads) + len(columns) < len(tints):
        return None
    sides = sorted(
        side for column in columns for side in (column.x0, column.x1) if box.x0 + _CELL_PT < side < box.x1 - _CELL_PT
    )
    words = [line.bbox for line in lines if box.has_middle_of(line.bbox)]
    if any(word.x0 + _TOUCH_PT < side < word.x1 - _TOUCH_PT for word in words for side in sides):
        return None
    rows: list[BBox] = []
    full = 0
    for word in sorted(words, key=lambda word: word.y0 + word.y1):
        if rows and (word.y0 + word.y1) / 2 <= rows[-1].y1:
            full += any(rows[-1].x1 <= side <= word.x0 or word.x1 <= side <= rows[-1].x0 for side in sides)
            rows[-1] |= word
        else:
            rows.append(word)
    if full < _TINTED_ROWS:
        return None
    across = [box.y0, *((over.y1 + under.y0) / 2 for over, under in pairwise(rows)), box.y1]
    return Ruling(
        box,
        tuple(Side(side, box.y0, box.y1) for side in (box.x0, *sides, box.x1)),
        tuple(Side(side, box.x0, box.x1) for side in across),
    )


def _is_table(part: _Part, lines: Sequence[Line]) -> bool:
    """Say whether a drawing is the rules and shaded cells of a table."""
    core = part.bbox.grown(-_PANEL_BORDER_PT)
    if part.strokes or part.bbox.width < 60 or not any(_meets(mark.bbox, core) for mark in part.marks):
        return False  # a box, however often its border was drawn
    ruling = _ruling(part, filled=False)
    across = len({round(side.at / 3) for side in ruling.across})
    down = len({round(side.at / 3) for side in ruling.down})
    words = sum(part.bbox.has_middle_of(line.bbox) for line in lines)
    cells = len({mark.bbox for mark in part.marks if not mark.is_rule})
    return words >= 4 and ((across >= 3 and down >= 3) or (cells >= 6 and across + down >= 4))


def _is_striped(part: _Part, lines: Sequence[Line]) -> bool:
    """Say whether shaded rows promise a table whose other rows are white and have no rules beside their cells.

    Its rules are those under headings and sums, and would make one row of many: its words show better where its cells are.
    """
    shaded = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    down = [mark.bbox for mark in part.marks if mark.is_rule and mark.bbox.height > mark.bbox.width]
    rows = {(box.y0, box.y1) for box in shaded}
    if any(rule.height - sum(max(0.0, -gap(rule.y0, rule.y1, *row)) for row in rows) > _WHITE_ROW_PT for rule in down):
        return False
    return _has_stripes(part, [line for line in lines if part.bbox.has_middle_of(line.bbox)])


def _ruling(part: _Part, *, filled: bool = True) -> Ruling:
    """Return the rules of a table; where it has too few of one direction, the edges of its cells' boxes stand for them."""
    rules = [mark.bbox for mark in part.marks if mark.is_rule]
    boxes = [mark.bbox for mark in part.marks if not mark.is_rule and not mark.white and (filled or not mark.filled)]
    # One box alone may be the ground of a cell or a border; round the whole, it is the outer rules of a table.
    boxes = boxes if len(boxes) >= 4 else [box for box in boxes if rules and _near_all(box, part.bbox)]
    across = [Side((y0 + y1) / 2, x0, x1) for x0, y0, x1, y1 in rules if x1 - x0 >= y1 - y0]
    down = [Side((x0 + x1) / 2, y0, y1) for x0, y0, x1, y1 in rules if x1 - x0 < y1 - y0]
    if len({round(side.at / 3) for side in across}) < 3:
        across += [Side(y, box.x0, box.x1) for box in boxes for y in (box.y0, box.y1)]
    if len({round(side.at / 3) for side in down}) < 3:
        down += [Side(x, box.y0, box.y1) for box in boxes for x in (box.x0, box.x1)]
    return Ruling(part.bbox, tuple(down), tuple(across))


def _overlaid(pictures: Sequence[Region], drawings: Sequence[_Part], lines: Sequence[Line]) -> list[_Part]:
    """Join images with what is drawn over them, and drawings with the images in them; a mere border is left out."""
    parts: list[_Part] = []
    free = list(drawings)
    for picture in sorted(pictures, key=lambda region: -region.bbox.area):
        holder = next((part for part in free if _holds(part, picture.bbox, lines)), None)
        if holder is not None:
            free[free.index(holder)] = replace(holder, bbox=holder.bbox | picture.bbox, images=(*holder.images, picture))
            continue
        over = [part for part in free if not part.images and _covers(part.bbox, picture.bbox)]
        marks = [mark for part in over for mark in part.marks if not _frames(mark, picture.bbox)]
        box = union([picture.bbox, *(mark.bbox for mark in marks)])
        if picture.inline or box.area > 3 * picture.bbox.area:
            parts.append(_Part(picture.bbox, (), (picture,)))
        else:
            free = [part for part in free if part not in over]
            parts.append(_Part(box, tuple(marks), (picture,)))
    return parts + free


def _holds(part: _Part, picture: BBox, lines: Sequence[Line]) -> bool:
    """Say whether an image is a piece of a drawing, and not a picture that stands on a coloured panel beside text."""
    if not _mostly_within(picture, part.bbox) or picture.area > 0.6 * part.bbox.area:
        return False
    written = sum(len(line.text) for line in lines if part.bbox.has_middle_of(line.bbox))
    return part.strokes + part.shapes >= 4 and written <= part.bbox.area / 120


def _covers(drawing: BBox, picture: BBox) -> bool:
    if gap(drawing.x0, drawing.x1, picture.x0, picture.x1) > 0 or gap(drawing.y0, drawing.y1, picture.y0, picture.y1) > 0:
        return False
    return (drawing & picture).area >= 0.3 * min(drawing.area, picture.area)


def _frames(mark: Mark, box: BBox) -> bool:
    """Say whether a mark is a border, a shadow or a ground of an image and shows nothing itself."""
    if mark.strokes:
        return mark.white
    around = mark.bbox.width >= 0.9 * box.width and mark.bbox.height >= 0.9 * box.height
    return around or mark.white or (mark.is_rule and not _within(mark.bbox, box.grown(-3)))


def _shows(part: _Part) -> bool:
    """Say whether a part is a picture at all, and not a rule or two."""
    if part.images:
        return True
    return part.bbox.height > 12 and part.bbox.width > 12 and part.strokes + part.shapes + part.rules // 3 >= 1


def _hanging(parts: Sequence[_Part]) -> list[_Part]:
    """Leave out rules that merely stand near a captioned picture, such as that of a running header."""
    core = union(part.bbox for part in parts if _shows(part))
    return [part for part in parts if _shows(part) or _within(part.bbox, core.grown(_GLUE_PT))]


def _figure(parts: Sequence[_Part], lines: Sequence[Line]) -> Region:
    """Make one picture of parts; exactly one image with nothing over it stays that image."""
    images = [region for part in parts for region in part.images]
    marks = [mark for part in parts for mark in part.marks]
    if len(images) == 1 and (len(parts) == 1 or _only_rules(marks)) and not parts[0].framed:
        image = images[0]
        seen = [mark for mark in marks if not _frames(mark, image.bbox)] if len(parts) == 1 else []
        texts = [line for line in lines if _within(line.bbox, image.bbox)]
        if not seen and not 0 < sum(len(line.text) for line in texts) < _LABEL_CHARACTERS:
            return image
    kind = Kind.COMPOSITE if images else Kind.VECTOR
    return Region(union(part.bbox for part in parts), kind, framed=all(part.framed for part in parts))


def _only_rules(marks: Sequence[Mark]) -> bool:
    return all(mark.is_rule for mark in marks)


def _is_picture(part: _Part, lines: Sequence[Line], running: frozenset[Line]) -> bool:
    """Say whether a part without caption is a picture and not a rule, a box round text, or decoration."""
    if part.images and not part.framed:
        return True
    box = part.bbox
    low, high = sorted((box.width, box.height))
    is_diagram = part.strokes >= _DIAGRAM_STROKES and high <= _LONGEST_SHAPE * low
    if low < (_FLATTEST_PT if is_diagram else _SMALLEST_PT):
        return False
    inner = [line for line in lines if box.has_middle_of(line.bbox)]
    written = sum(len(line.text) for line in inner)
    paragraphs = sum(line in running for line in inner)
    if part.framed:
        return paragraphs <= _GROUND_PARAGRAPHS and written <= box.area / 60
    if paragraphs > 1 or written > box.area / 25:
        return False
    if _has_bars(part, lines):
        return True
    if part.strokes >= 4:
        return True
    if _has_stripes(part, inner):
        return False
    filled = sum(mark.filled and not mark.is_rule for mark in part.marks)
    return filled >= 8 or (filled >= 3 and len(inner) >= 2 and part.rules >= 2)


def _bars_joined(parts: Sequence[_Part], lines: Sequence[Line]) -> list[_Part]:
    """Join boxes that stand no farther apart than they are thick where they turn out to be the bars of a chart."""
    lone = [part for part in parts if _may_be_bars(part)]
    if not 2 <= len(lone) <= _MOST_BARS:
        return list(parts)
    groups: list[list[_Part]] = []
    for part in lone:
        near = [group for group in groups if any(_as_bars(part, other) for other in group)]
        groups = [group for group in groups if group not in near] + [[*(other for group in near for other in group), part]]
    joined = [part for part in parts if part not in lone]
    for group in groups:
        marks = tuple(mark for part in group for mark in part.marks)
        whole = _Part(union(mark.bbox for mark in marks), marks)
        joined.extend([whole] if len(group) > 1 and _has_bars(whole, lines) else group)
    return joined


def _may_be_bars(part: _Part) -> bool:
    return not part.strokes and not part.rules and part.shapes > 0


def _as_bars(one: _Part, other: _Part) -> bool:
    return distance(one.bbox, other.bbox) <= _BAR_GAP * min(_thickness(one), _thickness(other))


def _thickness(part: _Part) -> float:
    return median(min(mark.bbox.width, mark.bbox.height) for mark in part.marks if not mark.is_rule and not mark.white)


def _panels_joined(parts: Sequence[_Part], page: BBox, frames: Sequence[BBox], body: Sequence[Line]) -> list[list[_Part]]:
    """Join drawings without caption that stand near each other in one clip, as that of a text box: panels of one picture."""
    boxes = [frame for frame in frames if frame.area <= _TEXT_BOX_SHARE * page.area]
    groups: list[list[_Part]] = []
    for part in parts:
        near = [group for group in groups if any(_are_panels(part, other, boxes, body) for other in group)]
        groups = [group for group in groups if group not in near] + [[*(other for group in near for other in group), part]]
    for diagram in parts:
        ends = _ends(diagram, parts, body)
        if ends:
            near = [group for group in groups if any(other is part for other in group for part in (diagram, *ends))]
            groups = [group for group in groups if group not in near] + [[*chain(*near)]]
    return groups


def _ends(diagram: _Part, parts: Sequence[_Part], body: Sequence[Line]) -> list[_Part]:
    """Return the small images at the edge of a drawing that its lines lead to; [] where there are only one or two."""
    if diagram.framed or diagram.strokes < _DIAGRAM_STROKES:
        return []
    ends = [
        part
        for part in parts
        if part.images
        and not part.marks
        and part.bbox.area <= _END_SHARE * diagram.bbox.area
        and distance(part.bbox, diagram.bbox) <= _LABEL_GAP_PT
        and not any((part.bbox | diagram.bbox).has_middle_of(line.bbox) for line in body)
    ]
    return ends if len(ends) >= _FEWEST_ENDS else []


def _are_panels(one: _Part, other: _Part, frames: Sequence[BBox], body: Sequence[Line]) -> bool:
    if one.framed or other.framed or distance(one.bbox, other.bbox) > _PANEL_GAP_PT:
        return False
    both = one.bbox | other.bbox
    return any(_within(both, frame.grown(_TOUCH_PT)) for frame in frames) and not any(
        both.has_middle_of(line.bbox) for line in body
    )


def _is_ground(parts: Sequence[_Part], lines: Sequence[Line]) -> bool:
    """Say whether images are what a line or two are written on, such as the band of a heading or a button: words fill them."""
    if any(not part.images or part.strokes for part in parts):
        return False
    box = union(part.bbox for part in parts)
    words = [line.bbox for line in lines if _runs_through(line.bbox, box)]
    return 0 < len(words) <= _GROUND_LINES and _written(words, box) >= _GROUND_SHARE


def _with_shadows(figures: Sequence[Region], lines: Sequence[Line]) -> list[Region]:
    """Take the other pieces of a shadow for grounds too: presentations cut that of a line into images that overlap."""
    words = [line.bbox for line in lines]
    grounds = [figure.bbox for figure in figures if figure.ground]
    return [
        replace(figure, ground=True)
        if figure.image is not None
        and not figure.captioned
        and _written(words, figure.bbox) >= _SHADOW_SHARE
        and any((figure.bbox & ground).area >= _SHADOW_SHARE * figure.bbox.area for ground in grounds)
        else figure
        for figure in figures
    ]


def _runs_through(line: BBox, box: BBox) -> bool:
    """Say whether a line stands on a box, or goes on beyond its sides."""
    return gap(line.x0, line.x1, box.x0, box.x1) < 0 and box.y0 <= (line.y0 + line.y1) / 2 <= box.y1


def _written(words: Sequence[BBox], box: BBox) -> float:
    return sum((word & box).area for word in words) / box.area


def _has_bars(part: _Part, lines: Sequence[Line]) -> bool:
    """Say whether the boxes of a drawing are the bars of a chart: of one thickness, with a common base, and with values.

    The shaded cells of a table have the same sides in each of its rows; bars end where their values do. A box that its words
    fill is their ground.
    """
    boxes = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    if not (_are_bars(boxes) or _are_bars([BBox(box.y0, box.x0, box.y1, box.x1) for box in boxes])):
        return False
    near = [line for line in lines if part.bbox.grown(_LABEL_GAP_PT).has_middle_of(line.bbox)]
    values = sum(_VALUE.fullmatch(line.text.strip()) is not None for line in near)
    grounds = sum(any(_fills(line.bbox, box) for line in near) for box in boxes)
    return values >= 2 and grounds <= 0.5 * len(boxes)


def _has_stripes(part: _Part, lines: Sequence[Line]) -> bool:
    """Say whether the boxes of a drawing are shaded rows of a table: each goes from edge to edge, and there is text between.

    A row may be shaded cell by cell. Every other row is left white, or else there is only one.
    """
    boxes = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    if not boxes:
        return False
    rows: dict[int, list[BBox]] = {}
    for box in boxes:
        rows.setdefault(round(box.y0 / _TOUCH_PT), []).append(box)
    across = sum(sum(box.width for box in row) >= 0.9 * part.bbox.width for row in rows.values())
    between = sum(not any(box.has_middle_of(line.bbox) for box in boxes) for line in lines)
    return across >= 0.8 * len(rows) and len(lines) > len(rows) and (len(rows) == 1 or between >= 0.2 * len(lines))


def _fills(text: BBox, box: BBox) -> bool:
    return box.has_middle_of(text) and text.width >= 0.7 * box.width


def _are_bars(boxes: Sequence[BBox]) -> bool:
    """Say whether boxes, keys of a legend left aside, are bars that lie: in rows, one of their ends below the other."""
    boxes = [box for box in boxes if max(box.width, box.height) > _PANEL_BORDER_PT * 2]
    if not boxes:
        return False
    thickness = median(box.height for box in boxes)
    bars = [box for box in boxes if abs(box.height - thickness) <= _BAR_SHARE * thickness]
    if len(bars) < 3 or len(bars) < 0.75 * len(boxes):
        return False
    rows: dict[int, list[BBox]] = {}
    for bar in bars:
        rows.setdefault(round((bar.y0 + bar.y1) / 2 / _BAR_ENDS_PT), []).append(bar)
    bases = [min(bar.x0 for bar in row) for row in rows.values()], [max(bar.x1 for bar in row) for row in rows.values()]
    based = any(sum(abs(base - median(ends)) <= _BAR_ENDS_PT for base in ends) >= 0.75 * len(rows) for ends in bases)
    alike = sum(any(_ends_as(bar, other) for other in bars if other is not bar) for bar in bars)
    return len(rows) >= 2 and based and alike < 0.5 * len(bars)


def _ends_as(one: BBox, other: BBox) -> bool:
    return abs(one.x0 - other.x0) <= _BAR_ENDS_PT and abs(one.x1 - other.x1) <= _BAR_ENDS_PT


def _with_labels(region: Region, lines: Sequence[Line], running: frozenset[Line], *, charted: bool = False) -> Region:
    """Grow a drawing by the short texts at its edge: axis labels, names of boxes.

    The names of bars stand farther from them, and may be longer: ``charted`` says that they are to be looked for.
    """
    if region.image is not None or region.framed:
        return region
    box = region.bbox
    labels = [line.bbox for line in lines if line not in running and caption_label(line.text) is None]
    aside = _BAR_NAME_GAP_PT - _LABEL_GAP_PT if charted else 0.0
    grew = True
    while grew:
        near = box.grown(_LABEL_GAP_PT)
        near = near._replace(x0=near.x0 - aside, x1=near.x1 + aside)
        close = [
            label
            for label in labels
            if _meets(label, near) and not _within(label, box) and _beside(label, region.bbox, 0.5 if charted else 0.25)
        ]
        larger = union([box, *close])
        grew = larger != box and larger.area <= 1.8 * region.bbox.area
        box = larger if grew else box
    return replace(region, bbox=box)


def _of_one_cell(parts: Sequence[_Part], cells: Sequence[BBox], lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines that may be labels of a picture: of one in a table's cell those in the cell, else all."""
    box = union(part.bbox for part in parts)
    own = next((cell for cell in cells if _within(box, cell.grown(_TOUCH_PT))), None)
    return lines if own is None else [line for line in lines if own.has_middle_of(line.bbox)]


def _key(part: _Part, lines: Sequence[Line], running: frozenset[Line]) -> BBox | None:
    """Return where a key of a legend stands with its name: a small filled box, and a line that begins right beside it."""
    box = part.bbox
    if part.images or part.strokes or len(part.marks) > 2 or not any(mark.filled for mark in part.marks):
        return None
    if max(box.width, box.height) > _KEY_PT or min(box.width, box.height) < 0.5 * max(box.width, box.height):
        return None
    names = [
        line.bbox
        for line in lines
        if -_TOUCH_PT <= line.bbox.x0 - box.x1 <= _LABEL_GAP_PT
        and line.bbox.y0 <= (box.y0 + box.y1) / 2 <= line.bbox.y1
        and line not in running
    ]
    return box | names[0] if names else None


def _legends(parts: Sequence[_Part], lines: Sequence[Line]) -> list[Region]:
    """Return the legends that stand by themselves, as one for two charts does: three keys, no two of one colour.

    What the colours stand for is lost in text. The squares of a list have one colour.
    """
    groups: list[list[tuple[BBox, _Part]]] = []
    for part in parts:
        key = _key(part, lines, frozenset())
        if key is None:
            continue
        near = [group for group in groups if any(distance(key, other) <= _LABEL_GAP_PT for other, _ in group)]
        joined = [*(other for group in near for other in group), (key, part)]
        groups = [group for group in groups if group not in near] + [joined]
    return [
        Region(union(key for key, _ in group), Kind.VECTOR)
        for group in groups
        if len(group) >= _FEWEST_KEYS and len({part.marks[0].colour for _, part in group}) == len(group)
    ]


def _with_keys(figure: Region, keys: Sequence[BBox]) -> Region:
    """Grow a drawing by the keys of a legend that stands over it, under it or beside it."""
    if figure.image is not None or figure.framed:
        return figure
    own = [key for key in keys if distance(key, figure.bbox) <= _BAR_NAME_GAP_PT]
    return replace(figure, bbox=union([figure.bbox, *own])) if len(own) >= 2 else figure


def _meets(one: BBox, other: BBox) -> bool:
    return gap(one.x0, one.x1, other.x0, other.x1) < 0 and gap(one.y0, one.y1, other.y0, other.y1) < 0


def _beside(label: BBox, box: BBox, share: float) -> bool:
    over = max(0.0, label.x1 - box.x1, box.x0 - label.x0)
    return over <= max(60.0, share * box.width)


def _joined(regions: Sequence[Region]) -> list[Region]:
    """Join pictures that overlap: pieces of one, or one inside another. A ground takes in its own ends and nothing else."""
    joined: list[Region] = []
    for region in sorted(regions, key=lambda region: -region.bbox.area):
        for place, other in enumerate(joined):
            overlap = (region.bbox & other.bbox).area > (
                0.3 if region.image is None and other.image is None else 0.8
            ) * region.bbox.area
            alike = region.ground == other.ground or (other.ground and region.inline)
            if overlap and alike and not (region.captioned and other.captioned):
                kind = other.kind if region.kind is other.kind and other.image is None else Kind.COMPOSITE
                captioned = other.captioned or region.captioned
                joined[place] = Region(other.bbox | region.bbox, kind, captioned=captioned, ground=other.ground)
                break
        else:
            joined.append(region)
    return joined
