"""Which drawings are panels of one picture."""

from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from tests.tasks.figures.pages import boxes_of, line_at, search


def test_pictures_that_the_lines_of_a_diagram_lead_to_are_its_ends() -> None:
    arrows = [
        Mark(BBox(200 + 4 * turn, 300, 300 - 4 * turn, 400), strokes=3, filled=False, white=False) for turn in range(4)
    ]
    ends = [(160, 330), (304, 330), (230, 262), (230, 404)]
    images = [Image(n, n, BBox(x, y, x + 35, y + 35), 70, 70, (35, 0, 0, 35)) for n, (x, y) in enumerate(ends)]
    (box,) = boxes_of(search(arrows, [line_at(100, 100, "Current system")], images=images))
    assert box == BBox(160, 262, 339, 439)
    apart = boxes_of(search(arrows, [line_at(100, 100, "Current system")], images=images[:2]))
    assert len(apart) == 3
