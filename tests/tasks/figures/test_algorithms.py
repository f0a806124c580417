"""Which rules hold an algorithm."""

from schemas.geometry import BBox
from tests.tasks.figures.pages import boxes_of, line_at, rule_at, search


def test_an_algorithm_between_rules_is_one_picture_and_running_text_that_names_one_is_none() -> None:
    lines = [
        line_at(100, 202, "Algorithm 1 Tree Traversal"),
        line_at(110, 230, "for node in layer do"),
        line_at(110, 245, "end for"),
    ]
    rules = [rule_at(100, 500, y) for y in (200, 215, 262)]
    (box,) = boxes_of(search(rules, lines))
    assert box.iou(BBox(100, 200, 500, 262.5)) > 0.95
    assert boxes_of(search(rules[:2], lines)) == []
    assert boxes_of(search([rule_at(100, 500, y) for y in (100, 120, 262)], lines)) == []
