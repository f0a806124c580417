"""Join images that a producer cut into strips or tiles, and find those in a line of text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from schemas.documents import Kind, Line
from schemas.drawings import Image
from schemas.geometry import BBox, gap, is_level, union
from tasks.figures.parts import SYMBOL_PT, TOUCH_PT, PictureRegion, near

INLINE_LENGTH_PT = 4 * SYMBOL_PT
"""Maximum longer side of an image in a line of text. Of 2,191 pages 7 change at 69.7 (buttons in a sentence become pictures), 7
at 156 (search bars become icons).
"""
INLINE_GAP_EM = 1.5
"""Maximum gap between an image and the text of its line."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Images that make one picture, and the box around them."""

    bbox: BBox
    images: tuple[Image, ...]


def join_images(images: Sequence[Image]) -> list[PictureRegion]:
    """Return the pictures that a page's images make: strips and tiles that touch along a whole side are one."""
    groups: list[_Tiles] = []
    for image in sorted(images, key=lambda image: (image.bbox.y0, image.bbox.x0)):
        touching = [group for group in groups if _share_side(image.bbox, group.bbox)]
        members = (*(member for group in touching for member in group.images), image)
        box = union([image.bbox, *(group.bbox for group in touching)])
        groups = [group for group in groups if group not in touching] + [_Tiles(box, members)]
    while rows := _touching_rows(groups):
        upper, lower = rows
        joined = _Tiles(upper.bbox | lower.bbox, (*upper.images, *lower.images))
        groups = [group for group in groups if group is not upper and group is not lower] + [joined]
    return [
        PictureRegion(group.bbox, Kind.RASTER, group.images[0])
        if len(group.images) == 1
        else PictureRegion(group.bbox, Kind.COMPOSITE)
        for group in groups
    ]


def _touching_rows(groups: Sequence[_Tiles]) -> tuple[_Tiles, _Tiles] | None:
    """Return two rows of tiles that touch, once each is complete."""
    for first, second in combinations(groups, 2):
        if (len(first.images) > 1 or len(second.images) > 1) and _share_side(first.bbox, second.bbox):
            return first, second
    return None


def _share_side(first: BBox, second: BBox) -> bool:
    stacked = (
        near(first.x0, second.x0)
        and near(first.x1, second.x1)
        and abs(gap(first.y0, first.y1, second.y0, second.y1)) <= TOUCH_PT
    )
    beside = (
        near(first.y0, second.y0)
        and near(first.y1, second.y1)
        and abs(gap(first.x0, first.x1, second.x0, second.x1)) <= TOUCH_PT
    )
    return stacked or beside


def mark_inline(region: PictureRegion, lines: Sequence[Line]) -> PictureRegion:
    """Return an image marked as inline where it is small and in a line of text."""
    box = region.bbox
    if region.image is None or min(box.width, box.height) > SYMBOL_PT or max(box.width, box.height) > INLINE_LENGTH_PT:
        return region
    for line in lines:
        beside = gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1) <= INLINE_GAP_EM * line.size
        if beside and is_level(box, line.bbox):
            return replace(region, inline=True)
    return region
