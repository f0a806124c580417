"""Group the lines of a page into paragraphs, headings and captions."""

from collections.abc import Sequence

from schemas.documents import BlockKind, Line
from schemas.figure_labels import caption_label
from schemas.geometry import union
from schemas.typography import is_same_size
from tasks.figures.anchor import begins_anew
from tasks.reading.draft_blocks import DraftBlock
from tasks.reading.outline import Headings


def paragraphs(lines: Sequence[Line], margins: frozenset[Line], headings: Headings) -> list[DraftBlock]:
    """Group lines by MuPDF's blocks; captions, headings and margins are blocks of their own."""
    blocks: list[DraftBlock] = []
    held: list[Line] = []
    kind, label = BlockKind.TEXT, None

    def end() -> None:
        if held:
            blocks.append(DraftBlock(kind, held[0].page, union([line.bbox for line in held]), tuple(held), label=label))
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
        same_block = previous is not None and (previous.block == line.block or headings.continues(previous, line))
        continues = same_block and bool(held)
        if kind is BlockKind.CAPTION and now is BlockKind.TEXT and continues and is_same_size(held[0].size, line.size):
            now = BlockKind.CAPTION
        if not continues or found is not None or now is not kind:
            end()
            kind, label = now, found
        held.append(line)
        previous = line
    end()
    return blocks
