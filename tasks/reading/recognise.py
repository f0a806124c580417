"""Choose what an OCR model must look at, and put what it read off scanned pages where it stands on them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from schemas.documents import Figure, Kind, Line, Page, ParsedDocument, Placement, RecognisedLine, Role
from schemas.geometry import BBox, gap, unrotated
from schemas.tags import escape
from tasks.tables.tabulate import holds

BLOCK_GAP_LINES = 0.8
SIZE_SHARE = 0.75


def pictures_to_recognise(placements: Iterable[Placement], labelled: Collection[int]) -> list[str]:
    """Return the ids of figures whose words the PDF doesn't hold as text: pixels, scanned pages, drawings without text.

    Each id once, sorted; icons and decoration are left out, since their words answer nothing.

    Args:
        placements: Those of a document.
        labelled: The orders of those that lines of text stand in.
    """
    return sorted(
        {
            placement.figure_id
            for placement in placements
            if placement.figure_id is not None
            and placement.role in (Role.CONTENT, Role.PAGE_SCAN)
            and not (placement.kind is Kind.VECTOR and placement.order in labelled)
        }
    )


def with_words(document: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]]) -> ParsedDocument:
    """Return a document with the lines that were read off its scanned pages; words that the PDF holds itself are left out.

    Args:
        document: As parsed.
        recognised: Lines by the id of the page's picture; boxes in pixels.
    """
    pages = {page.page: page for page in document.pages}
    figures = {figure.figure_id: figure for figure in document.figures}
    held: dict[int, list[Line]] = defaultdict(list)
    for line in document.lines:
        held[line.page].append(line)
    read: list[Line] = []
    for place in document.placements:
        if place.role is Role.PAGE_SCAN and place.figure_id is not None and place.figure_id in recognised:
            figure, lines = figures[place.figure_id], recognised[place.figure_id]
            read.extend(_lines(place, figure, lines, pages[place.page], held[place.page]))
    return replace(document, lines=(*document.lines, *read)) if read else document


def _lines(
    place: Placement, figure: Figure, read: Sequence[RecognisedLine], page: Page, held: Sequence[Line]
) -> Iterator[Line]:
    """Yield what was read off one page, brought from pixels to points, in blocks as it stands."""
    block = max((line.block for line in held), default=0)
    previous: BBox | None = None
    for line in read:
        box = unrotated(line.bbox, (figure.width, figure.height), place.bbox, page.rotation).rounded()
        if any(holds(known.bbox, box) for known in held):
            continue
        apart = previous is None or gap(previous.y0, previous.y1, box.y0, box.y1) > BLOCK_GAP_LINES * box.height
        beside = previous is not None and gap(previous.x0, previous.x1, box.x0, box.x1) > 0
        block += apart or beside
        yield Line(page.page, block, box, escape(line.text), round(SIZE_SHARE * box.height), bold=False)
        previous = box
