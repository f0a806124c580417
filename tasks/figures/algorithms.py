"""Find algorithms between rules. They are kept as pictures, since text loses their indentation and formulas."""

import re
from collections.abc import Sequence

from schemas.documents import Kind, Line
from schemas.drawings import RULE_PT, Mark
from schemas.geometry import BBox
from tasks.figures.parts import Region, near

_TITLE = re.compile(r"\s*(?:algorithm|algorithmus|algorithme|algoritmo)\s+\d", re.IGNORECASE)


def ruled_algorithms(marks: Sequence[Mark], lines: Sequence[Line]) -> list[Region]:
    """Return the areas between rules below the title of an algorithm.

    LaTeX draws three rules of one width: above the title, below it and at the end.
    """
    titles = [line.bbox for line in lines if _TITLE.match(line.text)]
    rules = [mark.bbox for mark in marks if mark.is_rule and mark.bbox.width > mark.bbox.height] if titles else []
    found = (_between_rules(title, rules) for title in titles)
    return [Region(box, Kind.VECTOR, captioned=True) for box in found if box is not None]


def _between_rules(title: BBox, rules: Sequence[BBox]) -> BBox | None:
    """Return the box from the rule above a title to the second one below it; None if one of the three is missing."""
    own = sorted((rule for rule in rules if near(title.x0, rule.x0) and rule.x1 >= title.x1), key=lambda rule: rule.y0)
    over = [rule for rule in own if 0 <= title.y0 - rule.y0 <= title.height]
    if not over:
        return None
    top = over[-1]
    under = [rule for rule in own if rule.y0 >= title.y1 - RULE_PT and near(rule.x1, top.x1)]
    return top | under[1] if len(under) >= 2 and under[0].y0 - title.y1 <= title.height else None
