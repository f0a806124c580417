"""Find the labels of drawings: short texts at their edge, such as names of axes and of bars."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.geometry import BBox, overlap, union
from tasks.figures.parts import TOUCH_PT, Region

LABEL_GAP_PT = 8.0
BAR_NAME_GAP_PT = 24.0
OVERHANG_PT = 60.0
OVERHANG_SHARE = 0.25
BAR_NAME_SHARE = 0.5
MOST_GROWTH = 1.8


def with_labels(region: Region, labels: Sequence[BBox], *, has_bars: bool = False) -> Region:
    """Grow a drawing by the short texts at its edge, and by those at theirs.

    Args:
        region: The drawing; an image and a placed graphic have their edges.
        labels: Lines of the page that may be labels.
        has_bars: It is a bar chart: the names of bars stand farther from them, and may be longer.
    """
    if region.image is not None or region.framed:
        return region
    aside = BAR_NAME_GAP_PT if has_bars else LABEL_GAP_PT
    overhang = max(OVERHANG_PT, (BAR_NAME_SHARE if has_bars else OVERHANG_SHARE) * region.bbox.width)
    box = region.bbox
    while True:
        around = BBox(box.x0 - aside, box.y0 - LABEL_GAP_PT, box.x1 + aside, box.y1 + LABEL_GAP_PT)
        close = (label for label in labels if overlap(label, around) and not box.contains(label))
        larger = union([box, *(label for label in close if _overhang(label, region.bbox) <= overhang)])
        if larger == box or larger.area > MOST_GROWTH * region.bbox.area:
            return replace(region, bbox=box)
        box = larger


def _overhang(label: BBox, box: BBox) -> float:
    """Return how far a label goes beyond the left or the right side of a drawing."""
    return max(0.0, label.x1 - box.x1, box.x0 - label.x0)


def labels_of_cell(box: BBox, cells: Sequence[BBox], labels: Sequence[BBox]) -> Sequence[BBox]:
    """Return what may be a label of a picture: of one in a table's cell what stands in the cell, else all."""
    own = next((cell for cell in cells if cell.grown(TOUCH_PT).contains(box)), None)
    return labels if own is None else [label for label in labels if own.has_middle_of(label)]
