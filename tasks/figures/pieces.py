"""Find images that a producer cut into strips or tiles, and those that stand in a line of text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from schemas.documents import Kind, Line
from schemas.drawings import Image
from schemas.geometry import BBox, gap, is_level, union
from tasks.figures.parts import TOUCH_PT, Region, near

CELL_TIMES_IMAGE = 2.0
INLINE_SIDE_PT = 26.0
INLINE_LENGTH_PT = 4 * INLINE_SIDE_PT
INLINE_GAP_EM = 1.5
INLINE_LINES = 2.6


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Images that make one picture, and the box around them."""

    bbox: BBox
    images: tuple[Image, ...]


def piece_together(images: Sequence[Image], frames: Sequence[BBox]) -> list[Region]:
    """Return the pictures that images make: strips and tiles that touch and share a side are one.

    Args:
        images: Everything that the page draws as an image.
        frames: Clips; images in two cells of a table have one each.
    """
    groups: list[_Pieces] = []
    for image in sorted(images, key=lambda image: (image.bbox.y0, image.bbox.x0)):
        touching = [group for group in groups if _continues(image.bbox, group.bbox, frames)]
        members = (*(member for group in touching for member in group.images), image)
        box = union([image.bbox, *(group.bbox for group in touching)])
        groups = [group for group in groups if group not in touching] + [_Pieces(box, members)]
    while pair := _rows_of_tiles(groups, frames):
        one, other = pair
        joined = _Pieces(one.bbox | other.bbox, (*one.images, *other.images))
        groups = [group for group in groups if group is not one and group is not other] + [joined]
    return [
        Region(group.bbox, Kind.RASTER, group.images[0]) if len(group.images) == 1 else Region(group.bbox, Kind.COMPOSITE)
        for group in groups
    ]


def _rows_of_tiles(groups: Sequence[_Pieces], frames: Sequence[BBox]) -> tuple[_Pieces, _Pieces] | None:
    """Return two rows of tiles that touch, now that each is whole; None where there are no more."""
    for one, other in combinations(groups, 2):
        if (len(one.images) > 1 or len(other.images) > 1) and _continues(one.bbox, other.bbox, frames):
            return one, other
    return None


def _continues(one: BBox, other: BBox, frames: Sequence[BBox]) -> bool:
    """Return whether two boxes touch along a whole side, and don't stand in two cells of a table."""
    stacked = near(one.x0, other.x0) and near(one.x1, other.x1) and abs(gap(one.y0, one.y1, other.y0, other.y1)) <= TOUCH_PT
    beside = near(one.y0, other.y0) and near(one.y1, other.y1) and abs(gap(one.x0, one.x1, other.x0, other.x1)) <= TOUCH_PT
    return (stacked or beside) and not (_has_cell(one, other, frames) and _has_cell(other, one, frames))


def _has_cell(box: BBox, other: BBox, frames: Sequence[BBox]) -> bool:
    """Return whether a box stands in a clip, larger than itself, that another doesn't: that of a table's cell."""
    return any(
        frame.area >= CELL_TIMES_IMAGE * box.area and frame.has_middle_of(box) and not frame.has_middle_of(other)
        for frame in frames
    )


def mark_inline(region: Region, lines: Sequence[Line]) -> Region:
    """Return an image marked as inline where it is small and stands in a line of text."""
    box = region.bbox
    if region.image is None or min(box.width, box.height) > INLINE_SIDE_PT or max(box.width, box.height) > INLINE_LENGTH_PT:
        return region
    for line in lines:
        beside = gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1) <= INLINE_GAP_EM * line.size
        if beside and is_level(box, line.bbox) and box.height <= INLINE_LINES * line.bbox.height:
            return replace(region, inline=True)
    return region
