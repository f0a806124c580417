"""Group the lines of a page into paragraphs, headings and captions."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from types import MappingProxyType

from schemas.documents import BlockKind, Furniture, Line
from schemas.figure_labels import caption_label
from schemas.geometry import is_level, union
from schemas.typography import is_same_size
from tasks.figures.anchor import is_set_off
from tasks.reading.blocks import ENDS_SENTENCE, MARKER
from tasks.reading.draft_blocks import DraftBlock, is_divisible
from tasks.reading.join import join_broken, wraps
from tasks.reading.outline import Headings

NEAR_EM = 1.0
"""Maximum gap between two lines of one paragraph, in ems, as with wide line spacing."""
_DIGITS, _LETTERS = re.compile(r"\d+"), re.compile(r"[A-Za-z]+")
_BESIDE_TEXT = frozenset({Furniture.STAMP, Furniture.WATERMARK, Furniture.LINE_NUMBER})


def paragraphs(
    lines: Sequence[Line],
    margins: Mapping[Line, Furniture],
    headings: Headings,
    hyphenated: frozenset[str],
    code: Mapping[Line, int] = MappingProxyType({}),
) -> list[DraftBlock]:
    """Group lines by their blocks; captions, headings, margins and code are blocks of their own.

    ``code`` is the number of each line's run of code, which may be several blocks.

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
    block_lines: list[Line] = []
    kind, label = BlockKind.TEXT, None
    furniture: Furniture | None = None

    def end() -> None:
        if block_lines:
            box = union([line.bbox for line in block_lines])
            page = block_lines[0].page
            blocks.append(
                DraftBlock(kind, page, box, tuple(block_lines), label=label, furniture=furniture, hyphenated=hyphenated)
            )
            block_lines.clear()

    previous: Line | None = None
    for line in lines:
        caption = caption_label(line.text)
        if caption is not None and (line in code or not is_set_off(line, previous)):
            caption = None
        if line in margins:
            now = BlockKind.MARGIN
        elif line in code:
            now = BlockKind.CODE
        elif caption:
            now = BlockKind.CAPTION
        else:
            now = BlockKind.HEADING if headings.is_heading(line) else BlockKind.TEXT
        same_block = previous is not None and (previous.block == line.block or headings.continues(previous, line))
        if now is BlockKind.CODE:
            same_block = previous is not None and code.get(previous) == code[line]
        if margins.get(line) is Furniture.CONTENTS:
            same_block = previous is not None and is_level(previous.bbox, line.bbox)
        continues = same_block and bool(block_lines)
        if (
            kind is BlockKind.CAPTION
            and now is BlockKind.TEXT
            and continues
            and is_same_size(block_lines[0].size, line.size)
        ):
            now = BlockKind.CAPTION
        if not continues or caption is not None or now is not kind or margins.get(line) is not furniture:
            end()
            kind, label, furniture = now, caption, margins.get(line)
        block_lines.append(line)
        previous = line
    end()
    return blocks


def join_columns(blocks: Sequence[DraftBlock], hyphenated: frozenset[str]) -> list[DraftBlock]:
    """Join each paragraph that goes on at the head of the next column, or below wide line spacing."""
    joined: list[DraftBlock] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if before is not None and _goes_on(before, block):
            text = join_broken(before.words, block.words, hyphenated)
            lines = (*before.lines, *block.lines)
            joined[-1] = replace(before, lines=lines, text=text, bbox=before.bbox | block.bbox)
        else:
            joined.append(block)
    return joined


def with_item_depths(blocks: Sequence[DraftBlock]) -> list[DraftBlock]:
    """Return blocks, each list item with its depth as its level, from 1.

    An item whose marker is further right than the one before is deeper. In another column or on another page, it is as deep as
    the items of the list whose markers have its form.
    """
    leveled: list[DraftBlock] = []
    lefts: list[float] = []  # where the markers of the items around begin, outermost first
    depths: dict[str, int] = {}  # by the form of the marker
    above: DraftBlock | None = None
    for block in blocks:
        marker = MARKER.match(block.lines[0].text) if block.kind is BlockKind.TEXT and block.lines else None
        if marker is None:
            if block.kind is BlockKind.HEADING or (above is not None and _is_level_with(block, lefts, above)):
                lefts, depths, above = [], {}, None
            leveled.append(block)
            continue
        form = _LETTERS.sub("a", _DIGITS.sub("1", marker[0].strip()))
        marker_x0, tolerance = block.lines[0].bbox.x0, block.lines[0].size / 2
        if above is not None and not _is_below(block, above):
            lefts = [-inf] * (depths.get(form, 1) - 1)
        while lefts and marker_x0 < lefts[-1] - tolerance:
            lefts.pop()
        if not lefts or marker_x0 > lefts[-1] + tolerance:
            lefts.append(marker_x0)
        depths[form] = len(lefts)
        above = replace(block, level=len(lefts))
        leveled.append(above)
    return leveled


def _is_level_with(block: DraftBlock, lefts: Sequence[float], item: DraftBlock) -> bool:
    """Return whether a paragraph below an item begins where its list's markers do, so that the list is over."""
    is_text = block.kind is BlockKind.TEXT and bool(block.lines)
    return is_text and _is_below(block, item) and block.lines[0].bbox.x0 <= lefts[0] + block.lines[0].size / 2


def _is_below(block: DraftBlock, item: DraftBlock) -> bool:
    return block.page == item.page and block.bbox.y0 >= item.bbox.y0


def _goes_on(before: DraftBlock, block: DraftBlock) -> bool:
    """Return whether a block is the rest of the paragraph before it: in the next column, or below wide line spacing."""
    if not (is_divisible(block) and before.kind is BlockKind.TEXT and before.lines):
        return False
    last, first = before.lines[-1], block.lines[0]
    column = [line.bbox for line in before.lines if line.bbox.x0 < last.bbox.x1 and last.bbox.x0 < line.bbox.x1]
    is_next_column = first.bbox.y1 < last.bbox.y0 and first.bbox.x0 > last.bbox.x1 - last.size
    is_below = 0 <= first.bbox.y0 - last.bbox.y1 <= NEAR_EM * last.size and first.bbox.x0 <= last.bbox.x0 + last.size / 2
    return (
        (is_next_column or is_below)
        and is_same_size(last.size, first.size)
        and (last.font, last.bold) == (first.font, first.bold)
        and not ENDS_SENTENCE.search(last.text)
        and not MARKER.match(first.text)
        and first.text.lstrip()[:1].islower()
        and wraps(last, first, min(box.x0 for box in column), max(box.x1 for box in column))
    )
