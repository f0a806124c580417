"""Give captions the pictures that they describe, by where both stand on the page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.documents import Line
from schemas.figure_labels import LabelKind, caption_label
from schemas.geometry import BBox, distance, gap
from schemas.typography import is_same_size

NEAREST_PT = 90.0
"""Farthest that the nearest part of a picture stands from its caption. Of 2,191 pages none changes at 60.3 or 135."""
FARTHEST_PT = 420.0
"""Farthest that any part of a picture stands from its caption. Of 2,191 pages 3 change at 281 (the upper panels of tall
figures are pictures of their own), none at 630.
"""
ASIDE_PT = 60.0
"""How far beside its caption's sides a part stands. Of 2,191 pages 2 change at 40.2 (panels beside a narrow caption are
lost to it), 4 at 90 (pictures of the next column join).
"""
NEXT_PART_PT = 60.0
"""Widest gap between the parts of a captioned picture. Of 2,191 pages none changes at 40.2 or 90."""
ASIDE_WEIGHT = 2.0
"""How much farther a point aside counts than a point down. Of 2,191 pages none changes at 1.34 or 3."""
OVERLAP_PT = 4.0
"""How far a part may reach over its caption. Of 2,191 pages 1 changes at 2.68, none at 6."""
STEP_GAP_PT = 30.0
"""Widest gap between a part and the text of the next column that it belongs to. Of 2,191 pages none changes at 20.1 or 45."""
LEAST_PATH_PT = 10.0
"""Width of the path between a part and a caption under which all of both is the path. Of 2,191 pages none changes at
6.7 or 15.
"""
GRAZE_PT = 3.0
"""How far something may reach into the path without standing in it. Of 2,191 pages none changes at 2.01 or 4.5."""
LONG_LINE_CHARACTERS = 45
"""Length from which on a line is one of a paragraph. Of 2,191 pages 55 change at 30 (labels of diagrams are
paragraphs), 33 at 68 (paragraphs of narrow columns are labels).
"""
FEWEST_BLOCK_LINES = 3
"""Lines of a paragraph of shorter ones. Of 2,191 pages 5 change at 2, 6 at 4."""
BLOCK_LINE_CHARACTERS = 25
"""Average length of the lines of such a paragraph. Of 2,191 pages 53 change at 17, 9 at 38."""
LABEL_ASIDE_EM = 3.0
"""How far aside of a paragraph's lines a label of its block stands. Of 2,191 pages none changes at 2.01 or 4.5."""
NEW_CAPTION_GAP_EM = 0.6
"""Gap over a line that begins anew. Of 2,191 pages none changes at 0.402 or 0.9."""
_WORD = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True, slots=True)
class Anchors:
    """Parts by caption: indices of ``parts``, the one nearest to the caption first. A caption without parts is left out."""

    by_caption: dict[int, tuple[int, ...]]
    above: bool


def anchor(
    captions: Sequence[BBox],
    parts: Sequence[BBox],
    barriers: Sequence[BBox],
    *,
    showing: Sequence[bool] | None = None,
    steps: Sequence[BBox] = (),
) -> Anchors:
    """Give each caption what stands over it or under it.

    A document sets its captions on one side of its figures: the side on which more captions find a figure, and nearer
    ones, goes first; captions that are left without one try the other.

    Args:
        captions: Where captions stand.
        parts: Where pictures and pieces of pictures stand.
        barriers: Running text, which no figure reaches across.
        showing: Whether a part is a picture by itself; a caption needs one such part. All are, by default.
        steps: Lines of text, however short, that a picture of another column may stand beside.
    """
    showing = showing or [True] * len(parts)
    sides = {above: _assigned(captions, parts, barriers, steps, above=above) for above in (True, False)}
    held = {
        above: {number: members for number, members in choice.items() if any(showing[index] for index in members)}
        for above, choice in sides.items()
    }
    first = _rank(captions, parts, held[True]) <= _rank(captions, parts, held[False])
    own: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for above in (first, not first):
        for number, members in sorted(held[above].items()):
            free = tuple(index for index in members if index not in taken)
            if number not in own and any(showing[index] for index in free):
                own[number] = free
                taken.update(free)
    return Anchors(own, first)


def running_text(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of paragraphs: long ones, and those of blocks of several; labels of drawings are neither.

    A drawing level with a paragraph has its labels in the paragraph's block: R1 aside of all long lines is none of its words.
    """
    blocks: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        blocks.setdefault((line.page, line.block), []).append(line)
    body: list[Line] = []
    for block in blocks.values():
        characters = [len(line.text.strip()) for line in block]
        counted = list(zip(block, characters, strict=True))
        long = [line for line, count in counted if count >= LONG_LINE_CHARACTERS]
        if long:
            body += [
                line
                for line, count in counted
                if count >= LONG_LINE_CHARACTERS or _has_word(line) or any(_is_near(line, other) for other in long)
            ]
        elif len(block) >= FEWEST_BLOCK_LINES and sum(characters) / len(block) >= BLOCK_LINE_CHARACTERS:
            body.extend(block)
    return body


def _has_word(line: Line) -> bool:
    """Return whether a line has two letters in a row: R1, V and 1.0 are labels or numbers."""
    return _WORD.search(line.text) is not None


def _is_near(line: Line, paragraph: Line) -> bool:
    return gap(line.bbox.x0, line.bbox.x1, paragraph.bbox.x0, paragraph.bbox.x1) <= LABEL_ASIDE_EM * paragraph.size


def caption_lines(lines: Sequence[Line], kind: LabelKind) -> list[Line]:
    """Return the lines that begin a caption: at the head of their block, or set off from the line before."""
    found: list[Line] = []
    previous: Line | None = None
    for line in lines:
        label = caption_label(line.text)
        if label is not None and label.kind is kind and begins_anew(line, previous):
            found.append(line)
        previous = line
    return found


def whole_caption(first: Line, lines: Sequence[Line]) -> list[Line]:
    """Return a caption's lines, given the one that begins it and those of its page."""
    whole = [first]
    for line in lines[lines.index(first) + 1 :]:
        if begins_anew(line, whole[-1]):
            break
        whole.append(line)
    return whole


def begins_anew(line: Line, previous: Line | None) -> bool:
    """Return whether a line is set off from the one before, so that it does not go on a sentence."""
    if previous is None or previous.block != line.block:
        return True
    apart = line.bbox.y0 - previous.bbox.y1 > NEW_CAPTION_GAP_EM * line.size or line.bbox.x0 > previous.bbox.x1
    return apart or not is_same_size(previous.size, line.size) or (line.bold and not previous.bold)


def _rank(captions: Sequence[BBox], parts: Sequence[BBox], choice: dict[int, tuple[int, ...]]) -> tuple[int, float]:
    gaps = [
        max(0.0, gap(captions[number].y0, captions[number].y1, parts[members[0]].y0, parts[members[0]].y1))
        for number, members in choice.items()
    ]
    return len(captions) - len(gaps), sum(gaps)


def _assigned(
    captions: Sequence[BBox], parts: Sequence[BBox], barriers: Sequence[BBox], steps: Sequence[BBox], *, above: bool
) -> dict[int, tuple[int, ...]]:
    """Give each part to the caption under it (or over it) that is nearest, unless running text stands between."""
    choice: dict[int, list[int]] = {}
    for index, part in enumerate(parts):
        costs: list[tuple[float, int]] = []
        for number, caption in enumerate(captions):
            down = caption.y0 - part.y1 if above else part.y0 - caption.y1
            aside = max(0.0, gap(part.x0, part.x1, caption.x0, caption.x1))
            near = -OVERLAP_PT <= down <= FARTHEST_PT and aside <= ASIDE_PT
            if near and aside and _is_of_next_column(part, caption, steps):
                continue
            if near and not _parted(part, caption, (*captions, *barriers), above=above):
                costs.append((max(0.0, down) + ASIDE_WEIGHT * aside, number))
        if costs:
            choice.setdefault(min(costs)[1], []).append(index)
    connected = {number: _connected(captions[number], members, parts) for number, members in choice.items()}
    return {number: members for number, members in connected.items() if members}


def _parted(part: BBox, caption: BBox, barriers: Sequence[BBox], *, above: bool) -> bool:
    """Return whether something stands in the path from a part to a caption."""
    top, bottom = (part.y1, caption.y0) if above else (caption.y1, part.y0)
    left, right = max(part.x0, caption.x0), min(part.x1, caption.x1)
    if right - left < LEAST_PATH_PT:
        left, right = min(part.x0, caption.x0), max(part.x1, caption.x1)
    # What merely grazes the path stands beside it; what parts the two lies in it from top to bottom, give or take the same.
    path = BBox(left + GRAZE_PT, top - GRAZE_PT, right - GRAZE_PT, bottom + GRAZE_PT)
    return any(
        box is not caption and box.y0 > path.y0 and box.y1 < path.y1 and box.x0 < path.x1 and box.x1 > path.x0
        for box in barriers
    )


def _is_of_next_column(part: BBox, caption: BBox, steps: Sequence[BBox]) -> bool:
    """Return whether a part that stands wholly beside a caption's column has text right at its far side: that of its step."""
    after = part.x0 >= caption.x1
    return any(
        gap(part.y0, part.y1, text.y0, text.y1) < 0
        and 0 <= (text.x0 - part.x1 if after else part.x0 - text.x1) <= STEP_GAP_PT
        for text in steps
    )


def _connected(caption: BBox, members: Sequence[int], parts: Sequence[BBox]) -> tuple[int, ...]:
    """Keep what hangs together with the part nearest to the caption; the first gap may be wide, later ones less."""
    todo = sorted(members, key=lambda index: distance(parts[index], caption))
    if distance(parts[todo[0]], caption) > NEAREST_PT:
        return ()
    kept = [todo[0]]
    box = parts[todo[0]]
    for index in todo[1:]:
        if distance(parts[index], box) <= NEXT_PART_PT:
            kept.append(index)
            box |= parts[index]
    return tuple(kept)
