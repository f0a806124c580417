"""Find algorithms between rules: their indentation and formulas are lost in text, so they are kept as pictures."""

import re
from collections.abc import Sequence

from schemas.documents import Kind, Line
from schemas.drawings import RULE_PT, Mark
from schemas.geometry import BBox
from tasks.figures.parts import Region, near

TITLE_GAP_LINES = 1.0
_TITLE = re.compile(r"\s*(?:algorithm|algorithmus|algorithme|algoritmo)\s+\d", re.IGNORECASE)


def ruled_algorithms(marks: Sequence[Mark], lines: Sequence[Line]) -> list[Region]:
    """Return what stands between rules under the title of an algorithm.

    LaTeX sets three rules of one width: over the title, under it and at the end.
    """
    titles = [line.bbox for line in lines if _TITLE.match(line.text)]
    rules = [mark.bbox for mark in marks if mark.is_rule and mark.bbox.width > mark.bbox.height] if titles else []
    found = (_between_rules(title, rules) for title in titles)
    return [Region(box, Kind.VECTOR, captioned=True) for box in found if box is not None]


def _between_rules(title: BBox, rules: Sequence[BBox]) -> BBox | None:
    """Return the box from the rule over a title to the second one under it; None where one of the three is missing."""
    reach = TITLE_GAP_LINES * title.height
    own = sorted((rule for rule in rules if near(title.x0, rule.x0) and rule.x1 >= title.x1), key=lambda rule: rule.y0)
    over = [rule for rule in own if 0 <= title.y0 - rule.y0 <= reach]
    if not over:
        return None
    top = over[-1]
    under = [rule for rule in own if rule.y0 >= title.y1 - RULE_PT and near(rule.x1, top.x1)]
    return top | under[1] if len(under) >= 2 and under[0].y0 - title.y1 <= reach else None
