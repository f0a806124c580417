"""Find the words that stand inside a figure."""

from dataclasses import replace
from itertools import groupby

from schemas.documents import Kind, Line, Role
from schemas.geometry import BBox
from schemas.labels import caption_label
from tasks.figures.callouts import stray_callouts
from tasks.figures.segment import fills
from tasks.reading.pieces import Sheet


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
