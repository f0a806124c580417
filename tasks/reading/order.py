"""Correct the order of a page's blocks where the page contradicts it.

In a column, what stands over a block is read before it; of two columns of one text, the one on the side where lines begin is.

A PDF's own order follows columns, side-bars and floats better than any rule about places, so it is kept. But producers write
captions, headings and text boxes after all else; then a block is written before one that stands over it. Such blocks, as few as
explain the contradictions, are moved to where they stand. XY-cuts and Breuel's order of columns would set all blocks anew.
Columns written in the wrong order are exchanged only if both are running text, and in type of one size: side-bars and notes in
the margin are rarely so, and may be read where the page has them. See docs/decisions/0011.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from schemas.geometry import BBox, is_level, union
from schemas.typography import is_same_size

TOUCH_PT = 2.0
"""How far blocks may overlap of which one stands over the other. Of 1,014 pages 1 changes at 1.34, none at 3."""
COLUMN_SHARE = 0.25
"""Share of the narrower one's width that two blocks of a column have in common. Of 1,014 pages none change at 0.168, 4
at 0.375.
"""
MOST_ROUNDS = 2
"""How often the order is corrected: what moves may uncover another contradiction. Of 1,014 pages 1 changes at 1, none at 3."""
MOST_BLOCKS = 200
"""Blocks of a page whose order is looked at: more are the labels of a drawing. Of 1,014 pages none changes at 134 or 300."""
FEWEST_ROWS = 3
"""Rows that two columns are read by. Of 1,014 pages 2 change at 2, none at 4."""
UNEVEN_LINES = 0.8
"""By how much the blocks of one row differ in height, in lines: lists in two columns are even. Of 1,014 pages none
changes at 0.55 or 0.9.
"""
UNEVEN_ROWS_SHARE = 0.5
"""Share of such rows. Of 1,014 pages none changes at 0.335 or 0.75."""


class LayoutBlock(NamedTuple):
    """A block of the page's layout: where it stands.

    ``head`` is its first row: further down, text set around a figure may reach under it. ``prose`` is the size of its type, in
    points, if it is running text of several rows; else 0.
    """

    box: BBox
    head: BBox
    prose: float = 0.0


def may_be_out_of_order(boxes: Sequence[BBox], *, right_to_left: bool = False) -> bool:
    """Return whether a box stands higher than one before it, or turns back to where lines begin: else, the order can't be wrong.

    So do columns.
    """
    lowest = start = float("-inf")
    end = float("inf")
    for left, top, right, bottom in boxes:
        if bottom - TOUCH_PT <= lowest or (left >= end if right_to_left else right <= start):
            return True
        lowest = top if top > lowest else lowest
        start, end = left, right
    return False


def reordered(blocks: Sequence[LayoutBlock], *, right_to_left: bool = False) -> list[int]:
    """Return the numbers of a page's blocks as they are read.

    Args:
        blocks: In the page's own order. Of more than 200 that order is kept: they are the labels of a drawing.
        right_to_left: Whether the page's lines run from right to left: then so do its columns.
    """
    order = list(range(len(blocks)))
    if len(blocks) > MOST_BLOCKS:
        return order
    for _ in range(MOST_ROUNDS):
        moved = _displaced(_contradictions(blocks, order))
        if not moved:
            break
        order = _moved(blocks, order, moved)
    # No block of one column stands over one of another: what is corrected so far stays so.
    for _ in range(MOST_ROUNDS):
        order = _in_turn(blocks, order, right_to_left=right_to_left)
    return _row_by_row(blocks, order, right_to_left=right_to_left)


def _stands_over(upper: LayoutBlock, lower: LayoutBlock) -> bool:
    """Return whether a block ends where another begins, or higher, in the same column."""
    x0, y0, x1, y1 = upper.box
    _, top, _, bottom = lower.box
    if y1 > top + TOUCH_PT or y0 + y1 >= top + bottom:
        return False
    left, _, right, _ = lower.head
    shared = (x1 if x1 < right else right) - (x0 if x0 > left else left)
    return shared > COLUMN_SHARE * min(x1 - x0, right - left)


def _contradictions(blocks: Sequence[LayoutBlock], order: Sequence[int]) -> dict[int, set[int]]:
    """Return the blocks that are written before one that stands over them, and those, each with what contradicts it."""
    against: dict[int, set[int]] = defaultdict(set)
    lowest = float("-inf")
    for place, late in enumerate(order):
        box = blocks[late].box
        foot = box.y1 - TOUCH_PT
        if foot <= lowest:
            for early in order[:place]:
                if foot <= blocks[early].box.y0 and _stands_over(blocks[late], blocks[early]):
                    against[late].add(early)
                    against[early].add(late)
        lowest = max(lowest, box.y0)
    return against


def _displaced(against: dict[int, set[int]]) -> list[int]:
    """Return which blocks to take out until nothing contradicts: what most others contradict, of two the one written later."""
    taken: list[int] = []
    while against:
        worst = max(against, key=lambda number: (len(against[number]), number))
        taken.append(worst)
        for other in against.pop(worst):
            against[other].discard(worst)
            if not against[other]:
                del against[other]
    return taken


def _moved(blocks: Sequence[LayoutBlock], order: Sequence[int], displaced: Sequence[int]) -> list[int]:
    """Set displaced blocks in again: before what they stand over, else behind what stands over them."""
    kept = [number for number in order if number not in displaced]
    titles = _titles(blocks)
    for number in sorted(displaced, key=lambda number: (blocks[number].box.y0, blocks[number].box.x0)):
        if number in titles:
            before = titles[: titles.index(number)]
            place = max((at + 1 for at, other in enumerate(kept) if other in before), default=0)
        else:
            place = _place(blocks[number], [blocks[other] for other in kept])
        kept.insert(place, number)
    return kept


def _place(block: LayoutBlock, others: Sequence[LayoutBlock]) -> int:
    """Return the place among others that the fewest of them contradict."""
    over = [_stands_over(other, block) for other in others]
    under = [_stands_over(block, other) for other in others]
    wrong = list(accumulate((below - above for below, above in zip(under, over, strict=True)), initial=sum(over)))
    least = min(wrong)
    if any(under):
        return len(wrong) - 1 - wrong[::-1].index(least)
    return wrong.index(least) if any(over) else len(others)


def _titles(blocks: Sequence[LayoutBlock]) -> list[int]:
    """Return what stands alone at the head of the page, one under the other: it is over every column, however short."""
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].box.y0)
    titles: list[int] = []
    for number, following in pairwise(order):
        if blocks[following].box.y0 < blocks[number].box.y1 - TOUCH_PT:
            break
        titles.append(number)
    return titles


def _in_turn(blocks: Sequence[LayoutBlock], order: Sequence[int], *, right_to_left: bool) -> list[int]:
    """Exchange a column of text and the one written after it, where lines begin on the side of the latter."""
    turned = list(order)
    sides = [(-block.box.x1, -block.box.x0) if right_to_left else (block.box.x0, block.box.x1) for block in blocks]
    for at in range(1, len(turned)):
        if sides[turned[at]][1] > sides[turned[at - 1]][0]:
            continue
        begin, end = _columns([sides[number] for number in turned], at)
        early, late = turned[begin:at], turned[at:end]
        if any(_is_beside(blocks[one], blocks[other]) for one in early for other in late):
            turned[begin:end] = late + early
    return turned


def _columns(sides: Sequence[tuple[float, float]], at: int) -> tuple[int, int]:
    """Return where the column begins that is written before a place, and where the one ends that is written from there on."""
    begin = end = at
    while begin and sides[at][1] <= sides[begin - 1][0]:
        begin -= 1
    near = min(start for start, _ in sides[begin:at])
    while end < len(sides) and sides[end][1] <= near:
        end += 1
    return begin, end


def _row_by_row(blocks: Sequence[LayoutBlock], order: Sequence[int], *, right_to_left: bool) -> list[int]:
    """Read two columns row by row where each block of one begins level with a block of the other.

    Names and their explanations, steps and their remarks: the taller block of each row sets where the next row begins. In columns
    of running text no three paragraphs in a row do so.
    """
    turned = list(order)
    sides = [(-block.box.x1, -block.box.x0) if right_to_left else (block.box.x0, block.box.x1) for block in blocks]
    for at in range(FEWEST_ROWS, len(turned)):
        first = blocks[turned[at]]
        begin = next(
            (
                place
                for place in range(at - FEWEST_ROWS, -1, -1)
                if sides[turned[place]][1] <= sides[turned[at]][0] and is_level(blocks[turned[place]].head, first.head)
            ),
            None,
        )
        rows = 0 if begin is None else at - begin
        if begin is None or at + rows > len(turned):
            continue
        pairs = list(zip(turned[begin:at], turned[at : at + rows], strict=True))
        if _are_rows([(blocks[one], blocks[other]) for one, other in pairs]):
            turned[begin : at + rows] = [number for pair in pairs for number in pair]
    return turned


def _are_rows(pairs: Sequence[tuple[LayoutBlock, LayoutBlock]]) -> bool:
    uneven = 0
    for one, other in pairs:
        if not is_level(one.head, other.head):
            return False
        uneven += abs(one.box.height - other.box.height) >= UNEVEN_LINES * min(one.head.height, other.head.height)
    bands = [one.box | other.box for one, other in pairs]
    parted = all(upper.y1 <= lower.y0 + TOUCH_PT for upper, lower in pairwise(bands))
    left, right = (union(block.box for block in column) for column in zip(*pairs, strict=True))
    beside = (left & right).width == 0
    return parted and beside and uneven >= UNEVEN_ROWS_SHARE * len(pairs)


def _is_beside(one: LayoutBlock, other: LayoutBlock) -> bool:
    """Return whether two blocks are running text in type of one size, side by side."""
    return one.prose > 0 < other.prose and is_same_size(one.prose, other.prose) and is_level(one.box, other.box)
