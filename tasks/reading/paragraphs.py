"""Group the lines of a page into paragraphs, headings and captions."""

from collections.abc import Sequence

from schemas.documents import BlockKind, Line
from schemas.figure_labels import caption_label
from schemas.geometry import union
from tasks.figures.anchor import begins_anew
from tasks.reading.outline import Headings
from tasks.reading.pieces import Piece

SAME_SIZE_PT = 0.5
"""How far sizes of type differ that are one caption's. Of 1,014 pages none changes at 0.335 or 0.75, so nothing shows why this is
more than SAME_SIZE_PT of ``schemas/typography``; to make them one may change documents that are structured already.
"""


def paragraphs(lines: Sequence[Line], margins: frozenset[Line], headings: Headings) -> list[Piece]:
    """Group lines by MuPDF's blocks; captions and headings begin pieces of their own, margins are set apart."""
    pieces: list[Piece] = []
    held: list[Line] = []
    kind, label = BlockKind.TEXT, None

    def end() -> None:
        if held:
            pieces.append(Piece(kind, held[0].page, union([line.bbox for line in held]), tuple(held), label=label))
            held.clear()

    previous: Line | None = None
    for line in lines:
        found = caption_label(line.text)
        if found is not None and not begins_anew(line, previous):
            found = None
        if line in margins:
            now = BlockKind.MARGIN
        elif found:
            now = BlockKind.CAPTION
        else:
            now = BlockKind.HEADING if headings.is_heading(line) else BlockKind.TEXT
        beside = previous is not None and (previous.block == line.block or headings.goes_on(previous, line))
        goes_on = beside and bool(held)
        if kind is BlockKind.CAPTION and now is BlockKind.TEXT and goes_on and _has_same_size(held[0], line):
            now = BlockKind.CAPTION
        if not goes_on or found is not None or now is not kind:
            end()
            kind, label = now, found
        held.append(line)
        previous = line
    end()
    return pieces


def _has_same_size(one: Line, other: Line) -> bool:
    return abs(one.size - other.size) <= SAME_SIZE_PT
