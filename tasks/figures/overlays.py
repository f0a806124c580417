"""Join marks to drawings, overlapping images and drawings to pictures, and panels without a caption."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import scipy  # its submodules are loaded when they are used: a search needs none

from schemas.documents import Kind, Line
from schemas.drawings import Mark
from schemas.geometry import BBox, distance, union
from tasks.figures.parts import (
    MOST_LABEL_CHARACTERS,
    PANEL_GAP_PT,
    TOUCH_PT,
    Part,
    PictureRegion,
    clusters,
    goes_around,
    mostly_within,
)

FRAME_TIMES_IMAGE = 3.0
"""Maximum ratio of an image's area with and without the drawing over it: a larger drawing only touches it."""
MOST_HELD_SHARE = 0.6
"""Maximum share of a drawing that an image in it has."""
FEWEST_DRAWN = 4
"""Minimum strokes and shapes of a drawing that contains an image."""
COVER_SHARE = 0.3
"""Minimum share of the smaller one that a drawing over an image covers. Of 2,191 pages 7 change at 0.201 (screenshots join
drawings beside them), 6 at 0.45 (marks over screenshots become pictures).
"""
OVERLAP_SHARE = 0.3
"""Minimum share of a drawing in a larger one if both are one. Of 2,191 pages 4 change at 0.201 (drawings that touch at a corner
join), 4 at 0.45 (pieces of a page's band become pictures).
"""
IMAGE_OVERLAP_SHARE = 0.8
"""Minimum share of an image in a larger one if both are one. Of 2,191 pages 5 change at 0.55 (screenshots join where they
overlap), 8 at 0.9 (insets of a photograph become pictures).
"""


def join_overlays(pictures: Sequence[PictureRegion], drawings: Sequence[Part]) -> list[Part]:
    """Join images with the drawings over them, and drawings with the images in them; borders are removed."""
    parts: list[Part] = []
    free = list(drawings)
    # The largest image goes first: a drawing over several images is joined with that one.
    for picture in sorted(pictures, key=lambda region: -region.bbox.area):
        holder = next((part for part in free if _holds(part, picture.bbox)), None)
        if holder is not None:
            free[free.index(holder)] = replace(holder, bbox=holder.bbox | picture.bbox, images=(*holder.images, picture))
            continue
        over = [part for part in free if not part.images and _covers(part.bbox, picture.bbox)]
        marks = [mark for part in over for mark in part.marks if not _is_border(mark, picture.bbox)]
        box = union([picture.bbox, *(mark.bbox for mark in marks)])
        if picture.inline or box.area > FRAME_TIMES_IMAGE * picture.bbox.area:
            parts.append(Part(picture.bbox, (), (picture,)))
        else:
            free = [part for part in free if part not in over]
            parts.append(Part(box, tuple(marks), (picture,)))
    return parts + free


def _holds(part: Part, picture: BBox) -> bool:
    """Return whether an image is a piece of a drawing, not a picture on a coloured panel."""
    if not mostly_within(picture, part.bbox) or picture.area > MOST_HELD_SHARE * part.bbox.area:
        return False
    return part.strokes + part.shapes >= FEWEST_DRAWN


def _covers(drawing: BBox, picture: BBox) -> bool:
    if drawing.gap_x(picture) > 0 or drawing.gap_y(picture) > 0:
        return False
    return (drawing & picture).area >= COVER_SHARE * min(drawing.area, picture.area)


def _is_border(mark: Mark, box: BBox) -> bool:
    """Return whether a mark is only a border, a shadow or a background of an image."""
    return not mark.strokes and (goes_around(mark, box) or (mark.is_rule and not box.contains(mark.bbox)))


def one_picture(parts: Sequence[Part], lines: Sequence[Line]) -> PictureRegion:
    """Make one picture of parts; a single image with nothing over it stays that image."""
    images = [region for part in parts for region in part.images]
    if len(images) == 1 and not parts[0].framed:
        image = images[0]
        drawn_over = not all(_is_border(mark, image.bbox) for part in parts for mark in part.marks)
        # An image with a few words on it is drawn with these labels; one under a longer text is kept as it is stored.
        label_characters = sum(len(line.text) for line in lines if image.bbox.contains(line.bbox))
        if not drawn_over and not 0 < label_characters < MOST_LABEL_CHARACTERS:
            return image
    kind = Kind.COMPOSITE if images else Kind.VECTOR
    return PictureRegion(union(part.bbox for part in parts), kind, framed=all(part.framed for part in parts))


def merge_overlapping(regions: Sequence[PictureRegion]) -> list[PictureRegion]:
    """Join pictures that overlap: pieces of one, or one inside another. A background joins only its own ends."""
    merged: list[PictureRegion] = []
    for region in sorted(regions, key=lambda region: -region.bbox.area):
        at = next((at for at, larger in enumerate(merged) if _are_one(region, larger)), None)
        if at is None:
            merged.append(region)
        else:
            merged[at] = _merged(merged[at], region)
    return merged


def _are_one(region: PictureRegion, larger: PictureRegion) -> bool:
    """Return whether a region overlaps a larger one enough to be a piece of one picture with it."""
    share = OVERLAP_SHARE if region.image is None and larger.image is None else IMAGE_OVERLAP_SHARE
    return (region.bbox & larger.bbox).area > share * region.bbox.area and region.background == larger.background


def _merged(larger: PictureRegion, region: PictureRegion) -> PictureRegion:
    kind = larger.kind if region.kind is larger.kind and larger.image is None else Kind.COMPOSITE
    captioned = larger.captioned or region.captioned
    return PictureRegion(larger.bbox | region.bbox, kind, captioned=captioned, background=larger.background)


TEXT_BOX_SHARE = 0.5
"""Maximum share of the page that a text box has."""


def join_panels(parts: Sequence[Part], page: BBox, frames: Sequence[BBox], body: Sequence[Line]) -> list[list[Part]]:
    """Group drawings that are near each other in one clip, such as that of a text box."""
    boxes = [frame.grown(TOUCH_PT) for frame in frames if frame.area <= TEXT_BOX_SHARE * page.area]
    return clusters(parts, lambda first, second: _are_panels(first, second, boxes, body))


def _are_panels(first: Part, second: Part, boxes: Sequence[BBox], body: Sequence[Line]) -> bool:
    if first.framed or second.framed or distance(first.bbox, second.bbox) > PANEL_GAP_PT:
        return False
    joint_box = first.bbox | second.bbox
    return any(box.contains(joint_box) for box in boxes) and not any(joint_box.has_middle_of(line.bbox) for line in body)


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
    """Group boxes within a few points of each other, in linear time: painted on a coarse grid, connected cells are one group."""
    if not boxes:
        return []
    sides = np.fromiter(chain.from_iterable(boxes), float, 4 * len(boxes)).reshape(-1, 2, 2)
    # Boxes are cut to the page, since the grid would be as large as the distance of one far outside.
    last_cell = np.array((page.x1, page.y1)) // CELL_PT + 3
    cells = np.clip((sides + np.array(((-1,), (1,))) * JOIN_PT / 2) // CELL_PT, 0, last_cell).astype(int)
    grid = np.zeros(cells.max(axis=(0, 1))[::-1] + 1, dtype=bool)
    for (x0, y0), (x1, y1) in cells.tolist():
        grid[y0 : y1 + 1, x0 : x1 + 1] = True
    labels, _ = scipy.ndimage.label(grid)
    # All cells of a box are connected, so the label of its first cell is that of its group.
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels[cells[:, 0, 1], cells[:, 0, 0]].tolist()):
        groups.setdefault(label, []).append(index)
    return list(groups.values())
