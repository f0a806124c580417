"""Group the lines of a page into paragraphs, headings and captions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from schemas.documents import BlockKind, Furniture, Line
from schemas.figure_labels import caption_label
from schemas.geometry import union
from schemas.typography import is_same_size
from tasks.figures.anchor import begins_anew
from tasks.reading.draft_blocks import DraftBlock
from tasks.reading.outline import Headings

_BESIDE_TEXT = frozenset({Furniture.STAMP, Furniture.WATERMARK, Furniture.LINE_NUMBER})


def paragraphs(
    lines: Sequence[Line],
    margins: Mapping[Line, Furniture],
    headings: Headings,
    hyphenated: frozenset[str],
    code: Mapping[Line, int] = MappingProxyType({}),
) -> list[DraftBlock]:
    """Group lines by MuPDF's blocks; captions, headings, margins and code are blocks of their own.

    ``code`` is the number of each line's run of code, which may be several of MuPDF's blocks.

    Stamps, watermarks and line numbers are taken out of the text first, since its lines may be written between them.
    """
    blocks: list[DraftBlock] = []
    beside: dict[Furniture, list[Line]] = defaultdict(list)
    for line in lines:
        if margins.get(line) in _BESIDE_TEXT:
            beside[margins[line]].append(line)
    if beside:
        lines = [line for line in lines if margins.get(line) not in _BESIDE_TEXT]
        for role, parts in beside.items():
            box = union([line.bbox for line in parts])
            blocks.append(DraftBlock(BlockKind.MARGIN, parts[0].page, box, tuple(parts), furniture=role))
    held: list[Line] = []
    kind, label = BlockKind.TEXT, None
    furniture: Furniture | None = None

    def end() -> None:
        if held:
            box = union([line.bbox for line in held])
            page = held[0].page
            blocks.append(DraftBlock(kind, page, box, tuple(held), label=label, furniture=furniture, hyphenated=hyphenated))
            held.clear()

    previous: Line | None = None
    for line in lines:
        found = caption_label(line.text)
        if found is not None and (line in code or not begins_anew(line, previous)):
            found = None
        if line in margins:
            now = BlockKind.MARGIN
        elif line in code:
            now = BlockKind.CODE
        elif found:
            now = BlockKind.CAPTION
        else:
            now = BlockKind.HEADING if headings.is_heading(line) else BlockKind.TEXT
        same_block = previous is not None and (previous.block == line.block or headings.continues(previous, line))
        if now is BlockKind.CODE:
            same_block = previous is not None and code.get(previous) == code[line]
        continues = same_block and bool(held)
        if kind is BlockKind.CAPTION and now is BlockKind.TEXT and continues and is_same_size(held[0].size, line.size):
            now = BlockKind.CAPTION
        if not continues or found is not None or now is not kind or margins.get(line) is not furniture:
            end()
            kind, label, furniture = now, found, margins.get(line)
        held.append(line)
        previous = line
    end()
    return blocks
