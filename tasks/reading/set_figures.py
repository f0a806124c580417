"""Insert the figures of a page, with their captions, into its text."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from schemas.documents import BlockKind, Line, Page, Placement, Role
from schemas.figure_labels import LabelKind
from schemas.geometry import distance, is_level
from schemas.tags import placeholder
from tasks.figures.anchor import anchor, running_text
from tasks.reading.draft_blocks import DraftBlock, is_divisible, text_block, with_lines
from tasks.reading.join import join_lines
from tasks.reading.picture_places import PicturePlace, place_pictures
from tasks.tables.rows import upright

INNER_CHARACTERS = 600
"""Maximum characters of a figure's labels: a longer text is a block of its own. Of 1,014 pages 27 change at 402 (labels of
large diagrams become text), 22 at 900 (texts inside a figure are left to it).
"""
BESIDE_PT = 72.0
"""Maximum gap between a figure and a caption at its side."""


def with_figures(
    blocks: list[DraftBlock],
    placements: Sequence[Placement],
    inner: Mapping[int, Sequence[Line]],
    page: Page,
    *,
    right_to_left: bool,
) -> list[DraftBlock]:
    """Put each figure beside its caption, or beside or between the text that it belongs to."""
    if not placements:
        return blocks
    linked = _linked(blocks, placements)
    units = {id(caption): _captioned(place, caption, inner) for place in placements if (caption := linked.get(place.order))}
    lone = _as_read([place for place in placements if place.order not in linked], page, right_to_left=right_to_left)
    # A figure and its caption stay two blocks: text beside the figure is level with the figure, not with both.
    parts = [
        (number, part)
        for number, block in enumerate(blocks)
        for part in units.get(id(block), [block])[:2]
        if block.kind is not BlockKind.MARGIN
    ]
    boxes = [upright(place.bbox, page.rotation) for place in lone]
    texts = [text_block(part, page) for _, part in parts] if lone else []
    found = place_pictures(boxes, texts, right_to_left=right_to_left)
    before, last = _by_position(sorted(zip(lone, found, strict=True), key=_rank_in_gap), parts, inner)
    made: list[DraftBlock] = []
    for number, block in enumerate(blocks):
        lines = len(block.lines) if is_divisible(block) else 1
        cuts = {line for one, line in before if one == number}
        for start, end in pairwise(sorted({0, *cuts, lines})):
            whole = end - start == lines
            made.extend(before.get((number, start), ()))
            made.extend(units.get(id(block), [block]) if whole else [with_lines(block, block.lines[start:end])])
    foot = next((at + 1 for at in reversed(range(len(made))) if made[at].kind is not BlockKind.MARGIN), 0)
    return made[:foot] + last + made[foot:]


def _by_position(
    found: Sequence[tuple[Placement, PicturePlace | None]],
    parts: Sequence[tuple[int, DraftBlock]],
    inner: Mapping[int, Sequence[Line]],
) -> tuple[dict[tuple[int, int], list[DraftBlock]], list[DraftBlock]]:
    """Return figures by the block and the line that they are inserted before, and those at the end."""
    before: dict[tuple[int, int], list[DraftBlock]] = defaultdict(list)
    last: list[DraftBlock] = []
    for place, where in found:
        step = tuple(held for one, other in where.step for held in _lines_at(parts[one][1], other)) if where else ()
        figure = _figure(place, inner, step)
        number = where.at[0] if where else len(parts)
        if number and number < len(parts) and parts[number][0] == parts[number - 1][0]:
            number += 1  # never between a figure and its caption
        if number == len(parts):
            last.extend(figure)
        else:
            before[parts[number][0], where.at[1] if where else 0].extend(figure)
    return before, last


def _rank_in_gap(pair: tuple[Placement, PicturePlace | None]) -> int:
    """Order pictures between the same words: 0 read with the words before, 2 with the words after."""
    where = pair[1]
    return 1 if where is None or not where.is_level else 0 if where.is_behind else 2


def _lines_at(block: DraftBlock, number: int) -> Sequence[Line]:
    """Return a line of a block; all of a block that is never split; none of a table, which has too many rows to go by."""
    if block.kind is BlockKind.TABLE:
        return ()
    return block.lines[number : number + 1] if is_divisible(block) else block.lines


def _as_read(placements: Sequence[Placement], page: Page, *, right_to_left: bool) -> list[Placement]:
    """Return figures row by row, those of a row in reading direction."""
    boxes = {place.order: upright(place.bbox, page.rotation) for place in placements}
    rows: list[list[Placement]] = []
    for place in sorted(placements, key=lambda place: (boxes[place.order].y0, boxes[place.order].x0)):
        if rows and all(is_level(boxes[place.order], boxes[other.order]) for other in rows[-1]):
            rows[-1].append(place)
        else:
            rows.append([place])
    turn = -1 if right_to_left else 1
    return [place for row in rows for place in sorted(row, key=lambda place: turn * boxes[place.order].x0)]


def _captioned(place: Placement, caption: DraftBlock, inner: Mapping[int, Sequence[Line]]) -> list[DraftBlock]:
    """Return a figure and its caption, the upper one first."""
    figure, *others = _figure(place, inner)
    pair = [replace(figure, caption=" ".join(caption.words.split())), replace(caption, placement=place)]
    return [*(pair if place.bbox.y0 <= caption.bbox.y0 else pair[::-1]), *others]


def _figure(place: Placement, inner: Mapping[int, Sequence[Line]], step: tuple[Line, ...] = ()) -> list[DraftBlock]:
    """Return a figure's tag, and the words inside it as a block where they are too many to be labels."""
    tag = placeholder(place.figure_id or "")
    figure = DraftBlock(BlockKind.FIGURE, place.page, place.bbox, text=tag, placement=place, step=step)
    lines = tuple(inner.get(place.order, ()))
    words = join_lines(lines, keep=True)
    if len(words) <= INNER_CHARACTERS:
        return [figure]
    return [figure, DraftBlock(BlockKind.TEXT, place.page, place.bbox, lines, text=words)]


def _linked(blocks: Sequence[DraftBlock], placements: Sequence[Placement]) -> dict[int, DraftBlock]:
    """Link each caption to its nearest figure, by the order of the placement."""
    content = [place for place in placements if place.role is Role.CONTENT]
    captions = [
        block
        for block in blocks
        if block.kind is BlockKind.CAPTION and block.label is not None and block.label.kind is LabelKind.FIGURE
    ]
    body = running_text([line for block in blocks if block.kind is BlockKind.TEXT for line in block.lines])
    boxes = [place.bbox for place in content]
    by_caption = anchor([block.bbox for block in captions], boxes, [line.bbox for line in body])
    linked = {content[members[0]].order: captions[number] for number, members in by_caption.items()}
    lone = [block for block in captions if block not in linked.values()]
    beside = sorted(
        (distance(place.bbox, block.bbox), place.order, number)
        for place in content
        for number, block in enumerate(lone)
        if place.order not in linked
    )
    for apart, order, number in beside:
        if apart <= BESIDE_PT and order not in linked and lone[number] not in linked.values():
            linked[order] = lone[number]
    return linked
