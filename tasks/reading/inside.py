"""Find the words that stand inside a figure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from schemas.documents import Kind, Line, Placement, Role
from schemas.figure_labels import caption_label
from schemas.geometry import BBox
from schemas.typography import is_same_size
from tasks.figures.callouts import stray_callouts
from tasks.figures.segment import fills
from tasks.reading.pieces import Sheet

NAME_GAP_PT = 8.0
"""Widest gap between a drawing and its name under it. Of 17,770 pages none changes at 5.4 or 12; two have such names."""
FOOT_PT = 3.0
"""How far a name at the foot of a drawing ends from the drawing's edge, and how far one under it reaches over that edge. Of
17,770 pages none changes at 2.01 or 4.5.
"""
CENTRED_PT = 2.0
"""How far the middle of a name is from the middle of its drawing. Of 17,770 pages none changes at 1.34 or 3."""
_DRAWN = (Kind.VECTOR, Kind.COMPOSITE)


def with_words_of_segments(sheet: Sheet) -> Sheet:
    """Assign the lines of a page that is a picture to the figures cut out of it.

    A block that is only partly in a figure stays text, and so does a caption: a layout model's boxes reach too far. A figure
    that fills its page, as on a slide, leaves the page all its text.
    """
    whole = BBox(0, 0, sheet.page.width_pt, sheet.page.height_pt)
    cut = sorted(
        (
            place
            for place in sheet.placements
            if place.kind is Kind.SCAN and place.role is Role.CONTENT and not fills(place.bbox, whole)
        ),
        key=lambda place: place.bbox.area,
    )
    if not cut:
        return sheet
    holders: dict[int, int] = {}
    for number, block in groupby(sheet.lines, key=lambda line: line.block):
        members = list(block)
        if all(line.inside is None for line in members) and caption_label(members[0].text) is None:
            around = [place for place in cut if all(place.bbox.has_middle_of(line.bbox) for line in members)]
            if around:
                holders[number] = around[0].order
    inside = (line._replace(inside=holders[line.block]) if line.block in holders else line for line in sheet.lines)
    return replace(sheet, lines=tuple(inside))


def with_callouts(sheet: Sheet) -> Sheet:
    """Take the numbers that stand on a picture or right beside it, and point into it, for words inside it."""
    held: dict[Line, int] = {}
    free = [line for line in sheet.lines if line.inside is None]
    for place in sheet.placements:
        if place.role is Role.CONTENT and place.figure_id is not None:
            held |= dict.fromkeys(stray_callouts(place.bbox, free), place.order)
    if not held:
        return sheet
    return replace(sheet, lines=tuple(line._replace(inside=held.get(line, line.inside)) for line in sheet.lines))


def with_names_outside(sheet: Sheet) -> Sheet:
    """Take the name at the foot of a drawing for text under it, where another drawing of the page has its name under it.

    The clip of a placed drawing holds some room around what is drawn, and a name set close to it stands in there. Names are
    centred under their drawings, and set alike, in another size than the labels of the drawing; so may the title of an axis be,
    unless the page shows that names are set so.
    """
    drawings = [place for place in sheet.placements if place.role is Role.CONTENT and place.kind in _DRAWN]
    if len(drawings) < 2:
        return sheet
    labels: dict[int, list[Line]] = defaultdict(list)
    for line in sheet.lines:
        if line.inside is not None:
            labels[line.inside].append(line)
    feet = [foot for place in drawings if (foot := _foot(place, labels[place.order])) is not None]
    if not feet:
        return sheet
    under = [line for line in sheet.lines if line.inside is None and any(_is_under(line, place) for place in drawings)]
    names = {foot for foot in feet if any(_is_set_alike(foot, name) for name in under)}
    return replace(sheet, lines=tuple(line._replace(inside=None) if line in names else line for line in sheet.lines))


def _foot(place: Placement, labels: Sequence[Line]) -> Line | None:
    """Return the line that stands under all labels of a drawing, in its middle and at its edge, in a size of its own."""
    if len(labels) < 2:
        return None
    *others, foot = sorted(labels, key=lambda line: line.bbox.y1)
    if not _is_centred(foot, place) or abs(foot.bbox.y1 - place.bbox.y1) > FOOT_PT:
        return None
    is_alone = all(line.bbox.y1 <= foot.bbox.y0 + FOOT_PT and not is_same_size(line.size, foot.size) for line in others)
    return foot if is_alone else None


def _is_under(line: Line, place: Placement) -> bool:
    return -FOOT_PT <= line.bbox.y0 - place.bbox.y1 <= NAME_GAP_PT and _is_centred(line, place)


def _is_centred(line: Line, place: Placement) -> bool:
    return abs(line.bbox.x0 + line.bbox.x1 - place.bbox.x0 - place.bbox.x1) <= 2 * CENTRED_PT


def _is_set_alike(one: Line, other: Line) -> bool:
    return one.bold == other.bold and is_same_size(one.size, other.size)
