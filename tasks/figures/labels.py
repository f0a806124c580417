"""Find the labels of drawings: short texts at their edge, such as names of axes and of bars."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.geometry import BBox, overlap, union
from tasks.figures.parts import CHART_GAP_PT, LABEL_GAP_PT, TOUCH_PT, Region

OVERHANG_PT = 60.0
"""How far a label goes beyond the side of a small drawing. Of 2,191 pages 5 change at 40.2 (pin names are cut off), 3
at 90 (notes beside a board are taken in).
"""
OVERHANG_SHARE = 0.25
"""How far a label goes beyond the side of a large drawing, by its width. Of 2,191 pages 2 change at 0.168 (names at a
diagram's side are cut off), 4 at 0.375 (notes beside a board are taken in).
"""
BAR_NAME_SHARE = 0.5
"""How far the name of a bar goes beyond the side of its chart, by its width. Of the 37 pages at hand with bars 1
changes at 0.335, 3 at 0.75 (a line over the chart is taken in).
"""
MOST_GROWTH = 1.8
"""How much larger a drawing is with its labels. Of 2,191 pages 108 change at 1.21 (charts lose the names of their
axes), 14 at 2.7 (diagrams take in the text beside them).
"""


def with_labels(region: Region, labels: Sequence[BBox], *, has_bars: bool = False) -> Region:
    """Grow a drawing by the short texts at its edge, and by those at theirs.

    Args:
        region: The drawing; an image and a placed graphic have their edges.
        labels: Lines of the page that may be labels.
        has_bars: It is a bar chart: the names of bars stand farther from them, and may be longer.
    """
    if region.image is not None or region.framed:
        return region
    aside = CHART_GAP_PT if has_bars else LABEL_GAP_PT
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
