"""Find the words that are inside a figure cut out of a page's picture."""

from dataclasses import replace
from itertools import groupby

from schemas.documents import FoundBy, Kind, Role
from schemas.figure_labels import caption_label
from schemas.geometry import BBox
from tasks.figures.segment import fills_page
from tasks.reading.draft_blocks import PageContent
from tasks.tables.tabulate import holds


def with_words_of_segments(content: PageContent) -> PageContent:
    """Assign the lines of a page that is a picture to the figures cut out of it.

    A block only partly in a figure stays text, and so does a caption, since a layout model's boxes are too large. A figure that
    fills its page, as on a slide, takes none of the text. Words of a recognised table are the table's.
    """
    page_box = BBox(0, 0, content.page.width_pt, content.page.height_pt)
    cut = sorted(
        (
            placement
            for placement in content.placements
            if placement.kind is Kind.SCAN and placement.role is Role.CONTENT and not fills_page(placement.bbox, page_box)
        ),
        key=lambda placement: placement.bbox.area,
    )
    if not cut:
        return content
    tables = [table.bbox for table in content.tables if table.found_by is FoundBy.RECOGNISED]
    free = [line for line in content.lines if not any(holds(table, line.bbox) for table in tables)]
    holders: dict[int, int] = {}
    for number, block in groupby(free, key=lambda line: line.block):
        members = list(block)
        if all(line.inside is None for line in members) and caption_label(members[0].text) is None:
            around = [placement for placement in cut if all(placement.bbox.has_middle_of(line.bbox) for line in members)]
            if around:
                holders[number] = around[0].order
    inner = {line for line in free if line.block in holders}
    inside = (line._replace(inside=holders[line.block]) if line in inner else line for line in content.lines)
    return replace(content, lines=tuple(inside))
