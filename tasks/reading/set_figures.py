"""Insert the figures of a page, with their captions, into its text."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from schemas.documents import BlockKind, LayoutLabel, Line, Placement, Role
from schemas.geometry import BBox, distance, is_level
from schemas.tags import placeholder
from schemas.text import LabelKind
from tasks.figures.anchor import anchor, running_text
from tasks.reading.bidi import runs_right_to_left
from tasks.reading.join import join_lines
from tasks.reading.paragraphs import DraftBlock, PageContent, is_divisible, text_block, with_lines
from tasks.reading.picture_places import PicturePlace, place_pictures
from tasks.tables.rows import upright

BESIDE_EM = 2.0
"""Maximum gap between an icon and the text of its line."""
GRAZE_PT = 1.0
"""Tolerated overlap of an icon with the text of its line."""

INNER_CHARACTERS = 600
"""Maximum characters of a figure's labels: a longer text is a block of its own. Of 1,014 pages 27 change at 402 (labels of
large diagrams become text), 22 at 900 (texts inside a figure are left to it).
"""
LABELLED_PT = 24.0
"""Maximum gap between a figure and a caption without a number."""
BESIDE_PT = 72.0
"""Maximum gap between a figure and a caption at its side."""


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
        # From the end of the line, so that earlier cuts stay where they are; icons at one cut keep their order.
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
        (box.gap_x(line.bbox), number)
        for number, line in enumerate(lines)
        if is_level(box, line.bbox) and box.gap_x(line.bbox) <= BESIDE_EM * line.size
    ]
    return min(near)[1] if near else None


def _word_break(line: Line, icon: BBox, rotation: int) -> int:
    """Return the word break of a line that is nearest to where an icon in it begins."""
    line_box, icon_box = upright(line.bbox, rotation), upright(icon, rotation)
    before = line_box.x1 - icon_box.x1 if runs_right_to_left(line.text) else icon_box.x0 - line_box.x0
    near = len(line.text) * before / max(1.0, line_box.width)
    breaks = [0, *(blank.start() for blank in re.finditer(r"\s", line.text)), len(line.text)]
    return min(breaks, key=lambda at: abs(at - near))


def with_figures(
    blocks: list[DraftBlock],
    placements: Sequence[Placement],
    inner: Mapping[int, Sequence[Line]],
    content: PageContent,
) -> list[DraftBlock]:
    """Put each figure beside its caption, or beside or between the text that it belongs to."""
    if not placements:
        return blocks
    linked = _captions_by_figure(blocks, placements)
    units = {
        id(blocks[number]): _captioned(placement, replace(blocks[number], kind=BlockKind.CAPTION), inner)
        for placement in placements
        if (number := linked.get(placement.order)) is not None
    }
    lone = _in_reading_order([placement for placement in placements if placement.order not in linked], content)
    # A figure and its caption stay two blocks: text beside the figure is level with the figure, not with both.
    parts = [
        (number, part)
        for number, block in enumerate(blocks)
        for part in units.get(id(block), [block])[:2]
        if block.kind is not BlockKind.MARGIN
    ]
    boxes = [content.upright(placement.bbox) for placement in lone]
    texts = [text_block(part, content) for _, part in parts] if lone else []
    positions = place_pictures(boxes, texts, right_to_left=content.right_to_left)
    # Figures by the block and the line that they are inserted before.
    before: dict[tuple[int, int], list[DraftBlock]] = defaultdict(list)
    numbers = [*(number for number, _ in parts), len(blocks)]
    for placement, position in sorted(zip(lone, positions, strict=True), key=_rank_in_gap):
        step = tuple(line for at, line_at in position.step for line in _lines_at(parts[at][1], line_at))
        at, line_at = position.at
        before[numbers[at], line_at].extend(_figure(placement, inner, step))
    ordered: list[DraftBlock] = []
    for number, block in enumerate(blocks):
        lines = len(block.lines) if is_divisible(block) else 1
        cuts = {line for block_number, line in before if block_number == number}
        for start, end in pairwise(sorted({0, *cuts, lines})):
            is_whole = end - start == lines
            ordered.extend(before.get((number, start), ()))
            ordered.extend(units.get(id(block), [block]) if is_whole else [with_lines(block, block.lines[start:end])])
    foot = next((at + 1 for at in reversed(range(len(ordered))) if ordered[at].kind is not BlockKind.MARGIN), 0)
    return ordered[:foot] + before[len(blocks), 0] + ordered[foot:]


def _rank_in_gap(pair: tuple[Placement, PicturePlace]) -> int:
    """Order pictures between the same words: 0 read with the words before, 2 with the words after."""
    position = pair[1]
    return 1 if not position.is_level else 0 if position.is_behind else 2


def _lines_at(block: DraftBlock, number: int) -> Sequence[Line]:
    """Return a line of a block; all of a block that is never split; none of a table, which has too many rows to go by."""
    if block.kind is BlockKind.TABLE:
        return ()
    return block.lines[number : number + 1] if is_divisible(block) else block.lines


def _in_reading_order(placements: Sequence[Placement], content: PageContent) -> list[Placement]:
    """Return figures row by row, those of a row in reading direction."""
    boxes = {placement.order: content.upright(placement.bbox) for placement in placements}
    rows: list[list[Placement]] = []
    for placement in sorted(placements, key=lambda placement: (boxes[placement.order].y0, boxes[placement.order].x0)):
        if rows and all(is_level(boxes[placement.order], boxes[row_placement.order]) for row_placement in rows[-1]):
            rows[-1].append(placement)
        else:
            rows.append([placement])
    turn = -1 if content.right_to_left else 1
    return [placement for row in rows for placement in sorted(row, key=lambda placement: turn * boxes[placement.order].x0)]


def _captioned(placement: Placement, caption: DraftBlock, inner: Mapping[int, Sequence[Line]]) -> list[DraftBlock]:
    """Return a figure and its caption, the upper one first."""
    figure, *inner_blocks = _figure(placement, inner)
    pair = [replace(figure, caption=" ".join(caption.words.split())), replace(caption, placement=placement)]
    return [*(pair if placement.bbox.y0 <= caption.bbox.y0 else pair[::-1]), *inner_blocks]


def _figure(placement: Placement, inner: Mapping[int, Sequence[Line]], step: tuple[Line, ...] = ()) -> list[DraftBlock]:
    """Return a figure's tag, and the words inside it as a block if they are too many to be labels."""
    tag = placeholder(placement.figure_id or "")
    figure = DraftBlock(BlockKind.FIGURE, placement.page, placement.bbox, text=tag, placement=placement, step=step)
    lines = tuple(inner.get(placement.order, ()))
    words = join_lines(lines, keep=True)
    if len(words) <= INNER_CHARACTERS:
        return [figure]
    return [figure, DraftBlock(BlockKind.TEXT, placement.page, placement.bbox, lines, text=words)]


def _captions_by_figure(blocks: Sequence[DraftBlock], placements: Sequence[Placement]) -> dict[int, int]:
    """Return the index of each figure's caption, by the order of the placement."""
    content = [placement for placement in placements if placement.role is Role.CONTENT]
    captions = [
        number
        for number, block in enumerate(blocks)
        if block.kind is BlockKind.CAPTION and block.label is not None and block.label.kind is LabelKind.FIGURE
    ]
    body = running_text([line for block in blocks if block.kind is BlockKind.TEXT for line in block.lines])
    boxes = [placement.bbox for placement in content]
    by_caption = anchor([blocks[number].bbox for number in captions], boxes, [line.bbox for line in body])
    linked = {content[members[0]].order: captions[at] for at, members in by_caption.items()}
    # Captions above and below figures come first; those left over may belong to a figure beside them.
    _link_nearest(linked, captions, blocks, content, BESIDE_PT)
    # Last are captions without a number, which the layout model tells, unless a table is nearer.
    tables = [block.bbox for block in blocks if block.kind is BlockKind.TABLE]
    by_label = [
        number
        for number, block in enumerate(blocks)
        if block.kind is BlockKind.TEXT and block.lines and all(line.label is LayoutLabel.CAPTION for line in block.lines)
    ]
    _link_nearest(
        linked,
        [number for number in by_label if all(distance(table, blocks[number].bbox) > LABELLED_PT for table in tables)],
        blocks,
        content,
        LABELLED_PT,
    )
    return linked


def _link_nearest(
    linked: dict[int, int],
    captions: Sequence[int],
    blocks: Sequence[DraftBlock],
    placements: Sequence[Placement],
    most_apart: float,
) -> None:
    """Link captions and figures that have no partner yet, the nearest pair first."""
    pairs = sorted(
        (distance(placement.bbox, blocks[number].bbox), placement.order, number)
        for placement in placements
        for number in captions
    )
    for apart, order, number in pairs:
        if apart <= most_apart and order not in linked and number not in linked.values():
            linked[order] = number
