"""Find the labels of drawings: short texts at their edge, such as names of axes and of bars."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.geometry import BBox, overlap, union
from tasks.figures.parts import CHART_GAP_PT, LABEL_GAP_PT, PictureRegion

OVERHANG_PT = 60.0
"""How far a label may extend beyond the side of a drawing. Of 2,191 pages 5 change at 40.2 (pin names are cut off), 3 at 90
(notes beside a board are included).
"""
BAR_NAME_SHARE = 0.5
"""How far the name of a bar may extend beyond the side of its chart, relative to its width."""
MOST_GROWTH = 1.8
"""Maximum ratio of a drawing's area with and without its labels. Of 2,191 pages 108 change at 1.21 (charts lose the names of
their axes), 14 at 2.7 (diagrams include the text beside them).
"""


def with_labels(region: PictureRegion, labels: Sequence[BBox], *, has_bars: bool = False) -> PictureRegion:
    """Extend a drawing by the short texts at its edge, and by those at theirs.

    Args:
        region: The drawing; an image and a placed graphic have known edges and are returned unchanged.
        labels: Lines of the page that may be labels.
        has_bars: It is a bar chart: the names of bars are further away, and may be longer.
    """
    if region.image is not None or region.framed:
        return region
    across = CHART_GAP_PT if has_bars else LABEL_GAP_PT
    overhang = max(OVERHANG_PT, BAR_NAME_SHARE * region.bbox.width if has_bars else 0.0)
    box = region.bbox
    while True:
        around = BBox(box.x0 - across, box.y0 - LABEL_GAP_PT, box.x1 + across, box.y1 + LABEL_GAP_PT)
        close = (label for label in labels if overlap(label, around) and not box.contains(label))
        larger = union([box, *(label for label in close if _overhang(label, region.bbox) <= overhang)])
        if larger == box or larger.area > MOST_GROWTH * region.bbox.area:
            return replace(region, bbox=box)
        box = larger


def _overhang(label: BBox, box: BBox) -> float:
    """Return how far a label extends beyond the left or the right side of a drawing."""
    return max(0.0, label.x1 - box.x1, box.x0 - label.x0)
