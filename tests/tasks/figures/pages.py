"""Pages to search for pictures: a few marks, lines and images."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from tasks.figures.locate import Located, locate

PAGE = BBox(0, 0, 612, 792)
SIZE = 10.0


def line_at(x0: float, y0: float, text: str, *, block: int | None = None) -> Line:
    number = round(1000 * y0 + x0) if block is None else block
    return Line(1, number, BBox(x0, y0, x0 + 0.5 * SIZE * len(text), y0 + SIZE), text, SIZE, bold=False)


def box_at(x0: float, y0: float, x1: float, y1: float, *, frame: BBox | None = None) -> Mark:
    return Mark(BBox(x0, y0, x1, y1), strokes=0, filled=True, white=False, frame=frame)


def rule_at(x0: float, x1: float, y: float, frame: BBox | None = None) -> Mark:
    return box_at(x0, y, x1, y + 0.5, frame=frame)


def search(
    marks: Sequence[Mark], lines: Sequence[Line], frames: Sequence[BBox] = (), images: Sequence[Image] = ()
) -> Located:
    return locate(PAGE, images, marks, frames, lines)


def boxes_of(located: Located) -> list[BBox]:
    return [region.bbox for region in located.regions]


def bar_chart(
    left_x: float = 150, top: float = 200, values: Sequence[int] = (90, 41, 26, 12)
) -> tuple[list[Mark], list[Line]]:
    """Draw bars that lie, from ``left``, a value at the end of each."""
    marks = [box_at(left_x, top + 24 * row, left_x + 2 * value, top + 24 * row + 14) for row, value in enumerate(values)]
    return marks, [line_at(left_x + 2 * value - 16, top + 24 * row + 2, f"{value}%") for row, value in enumerate(values)]


def text_box() -> tuple[BBox, list[Line]]:
    """Return a box of the layout, and the title and source in it."""
    box = BBox(100, 150, 500, 420)
    return box, [line_at(110, 160, "Most say that it went well"), line_at(110, 400, "Source: Survey of 2015")]


def ruled_table(left_x: float = 72, top: float = 100) -> tuple[list[Mark], list[Line]]:
    """Draw the rules of three rows with a number, an empty cell for a picture and words."""
    ys, xs = [top + 70 * row for row in range(4)], [left_x, left_x + 40, left_x + 160, left_x + 420]
    marks = [rule_at(xs[0], xs[-1], y) for y in ys] + [box_at(x, ys[0], x + 0.5, ys[-1] + 0.5) for x in xs]
    words = [line_at(xs[2] + 8, y + 10, "Turns the device on and off") for y in ys[:3]]
    return marks, words + [line_at(xs[0] + 8, y + 10, f"{row}") for row, y in enumerate(ys[:3], 1)]


def circles(box: BBox) -> list[Mark]:
    """Draw a face: circles of four bows each."""
    return [Mark(box.grown(-by), strokes=4, filled=False, white=False) for by in (0, 4, 8)]
