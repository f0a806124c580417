"""Join drawings without a caption that are panels of one picture, or a diagram with the images that its lines lead to."""

from collections.abc import Sequence
from itertools import chain

from schemas.documents import Line
from schemas.geometry import BBox, distance
from tasks.figures.parts import LABEL_GAP_PT, PANEL_GAP_PT, TOUCH_PT, Part, clusters

TEXT_BOX_SHARE = 0.5
"""Maximum share of the page that a text box has."""
DIAGRAM_STROKES = 8
"""Minimum curves and slanted lines of a diagram."""
END_SHARE = 0.25
"""Maximum share of a diagram's area that an image at the end of its lines has; without it 5 of 400 pages with panels change."""
FEWEST_ENDS = 3
"""Minimum images that the lines of a diagram lead to."""


def join_panels(parts: Sequence[Part], page: BBox, frames: Sequence[BBox], body: Sequence[Line]) -> list[list[Part]]:
    """Group drawings that are near each other in one clip, such as that of a text box, and diagrams with their ends."""
    boxes = [frame.grown(TOUCH_PT) for frame in frames if frame.area <= TEXT_BOX_SHARE * page.area]
    groups = clusters(parts, lambda first, group_part: _are_panels(first, group_part, boxes, body))
    for diagram in parts:
        members = [diagram, *_ends(diagram, parts, body)]
        if len(members) > 1:
            diagram_groups = [
                group for group in groups if any(group_part is part for group_part in group for part in members)
            ]
            groups = [group for group in groups if group not in diagram_groups] + [[*chain(*diagram_groups)]]
    return groups


def _are_panels(first: Part, second: Part, boxes: Sequence[BBox], body: Sequence[Line]) -> bool:
    if first.framed or second.framed or distance(first.bbox, second.bbox) > PANEL_GAP_PT:
        return False
    joint_box = first.bbox | second.bbox
    return any(box.contains(joint_box) for box in boxes) and not any(joint_box.has_middle_of(line.bbox) for line in body)


def _ends(diagram: Part, parts: Sequence[Part], body: Sequence[Line]) -> list[Part]:
    """Return the small images at the edge of a drawing that its lines lead to; [] if there are only one or two."""
    if diagram.framed or diagram.strokes < DIAGRAM_STROKES:
        return []
    ends = [
        part
        for part in parts
        if part.images
        and not part.marks
        and part.bbox.area <= END_SHARE * diagram.bbox.area
        and distance(part.bbox, diagram.bbox) <= LABEL_GAP_PT
        and not any((part.bbox | diagram.bbox).has_middle_of(line.bbox) for line in body)
    ]
    return ends if len(ends) >= FEWEST_ENDS else []
