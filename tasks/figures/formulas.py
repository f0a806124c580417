"""Take formulas that a layout model sees, and that a line of text can't show, as pictures."""

from collections.abc import Sequence

from schemas.documents import Kind, LayoutLabel, Line, PageRegion
from schemas.geometry import overlap
from tasks.figures.parts import PictureRegion
from tasks.tables.align import levels_of

MARGIN_PT = 2.0
"""Room around a formula, whose letters may reach beyond their boxes."""


def formula_regions(
    regions: Sequence[PageRegion], located: Sequence[PictureRegion], lines: Sequence[Line]
) -> list[PictureRegion]:
    """Return the formulas of several rows, such as fractions, that are in no picture yet and aren't code."""
    formulas: list[PictureRegion] = []
    for region in regions:
        if region.label is LayoutLabel.FORMULA and not any(overlap(region.bbox, picture.bbox) for picture in located):
            inner = [line for line in lines if region.bbox.has_middle_of(line.bbox)]
            if len(levels_of(inner)) > 1 and not any(line.mono for line in inner):
                formulas.append(PictureRegion(region.bbox.grown(MARGIN_PT), Kind.VECTOR))
    return formulas
