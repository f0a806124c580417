"""Insert icons into the lines of text that they are in."""

import re
from collections import defaultdict
from collections.abc import Sequence

from schemas.documents import Line, Placement, Role
from schemas.geometry import BBox, gap, is_level
from schemas.tags import placeholder
from tasks.reading.bidi import runs_right_to_left
from tasks.tables.rows import upright

BESIDE_EM = 2.0
"""Maximum gap between an icon and the text of its line."""
GRAZE_PT = 1.0
"""Tolerated overlap of an icon with the text of its line."""


def with_icons(lines: Sequence[Line], placements: Sequence[Placement], rotation: int) -> tuple[list[Line], list[Placement]]:
    """Insert each icon on a line into the line's text, at its position; return the other placements."""
    texts = list(lines)
    other_placements: list[Placement] = []
    cuts: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for placement in sorted(placements, key=lambda placement: (placement.bbox.y0, placement.bbox.x0)):
        at = _line_of(placement, texts) if placement.role is Role.ICON else None
        if at is None:
            other_placements.append(placement)
            continue
        texts = _in_one_block(placement.bbox, texts)
        cuts[at].append(
            (_word_break(texts[at], placement.bbox, rotation), len(cuts[at]), placeholder(placement.figure_id or ""))
        )
    for at, marks in cuts.items():
        text = texts[at].text
        for cut, _, mark in sorted(marks, reverse=True):
            text = f"{text[:cut].rstrip()} {mark} {text[cut:].lstrip()}".strip()
        texts[at] = texts[at]._replace(text=text)
    return texts, other_placements


def _in_one_block(icon: BBox, lines: list[Line]) -> list[Line]:
    """Move the text after an icon to the block of the text before it: MuPDF begins a new block after every image."""
    level = [line for line in lines if is_level(icon, line.bbox)]
    before = [line for line in level if 0 <= icon.x0 - line.bbox.x1 + GRAZE_PT <= BESIDE_EM * line.size]
    after = [line for line in level if 0 <= line.bbox.x0 - icon.x1 + GRAZE_PT <= BESIDE_EM * line.size]
    if len(before) != 1 or len(after) != 1:
        return lines
    return [line._replace(block=before[0].block) if line.block == after[0].block else line for line in lines]


def _line_of(icon: Placement, lines: Sequence[Line]) -> int | None:
    box = icon.bbox
    near = [
        (max(0.0, gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1)), number)
        for number, line in enumerate(lines)
        if is_level(box, line.bbox) and gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1) <= BESIDE_EM * line.size
    ]
    return min(near)[1] if near else None


def _word_break(line: Line, icon: BBox, rotation: int) -> int:
    """Return the word break of a line that is nearest to where an icon in it begins."""
    line_box, icon_box = upright(line.bbox, rotation), upright(icon, rotation)
    before = line_box.x1 - icon_box.x1 if runs_right_to_left(line.text) else icon_box.x0 - line_box.x0
    if before >= line_box.width - GRAZE_PT:
        return len(line.text)
    share = before / max(1.0, line_box.width)
    near = round(len(line.text) * min(1.0, max(0.0, share)))
    breaks = [0, *(blank.start() for blank in re.finditer(r"\s", line.text)), len(line.text)]
    return min(breaks, key=lambda at: abs(at - near))
