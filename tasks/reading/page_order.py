"""Put the blocks of a page into the order that their positions show."""

from collections.abc import Sequence
from itertools import pairwise

from schemas.documents import BlockKind, Furniture, Page, Placement
from schemas.geometry import BBox, is_level, union
from tasks.reading.block_order import LayoutBlock, may_be_out_of_order, reordered
from tasks.reading.draft_blocks import DraftBlock, text_block
from tasks.reading.join import wraps
from tasks.reading.outline import body_size
from tasks.reading.picture_places import ends_sentence, place_pictures
from tasks.tables.rows import upright

FEWEST_PROSE_ROWS = 3
"""Minimum rows of a block of running text."""
VERTICAL_EM = 2.0
"""Height from which on a line is vertical text."""


def in_page_order(
    blocks: list[DraftBlock], pictures: Sequence[Placement], page: Page, *, right_to_left: bool
) -> list[DraftBlock]:
    """Correct the order of blocks that contradicts their positions; margins and vertical text keep their index.

    On a rotated page all text does. A block that makes a row with a picture is above what is below the picture, too.
    """
    if page.rotation or not may_be_out_of_order([block.bbox for block in blocks], right_to_left=right_to_left):
        return blocks
    at = [
        number
        for number, block in enumerate(blocks)
        if (block.kind is not BlockKind.MARGIN or block.furniture is Furniture.CONTENTS) and not _is_vertical(block)
    ]
    moved = [blocks[number] for number in at]
    boxes = _with_rows(moved, pictures, page, right_to_left=right_to_left)
    layout = [
        LayoutBlock(box, _head(block) if box == block.bbox else box, _prose_size(block))
        for block, box in zip(moved, boxes, strict=True)
    ]
    ordered = list(blocks)
    for position, number in zip(at, reordered(layout, right_to_left=right_to_left), strict=True):
        ordered[position] = moved[number]
    return ordered


def with_margins_outside(blocks: Sequence[DraftBlock], page: Page) -> list[DraftBlock]:
    """Move running heads before the text of their page, and feet after it."""
    half = upright(BBox(0, 0, page.width_pt, page.height_pt), page.rotation)
    middle = half.y0 + half.y1

    def part(block: DraftBlock) -> int:
        if block.kind is not BlockKind.MARGIN or block.furniture is Furniture.CONTENTS:
            return 1
        box = upright(block.bbox, page.rotation)
        return 0 if box.y0 + box.y1 < middle else 2

    return sorted(blocks, key=part)


def _with_rows(
    blocks: Sequence[DraftBlock], pictures: Sequence[Placement], page: Page, *, right_to_left: bool
) -> list[BBox]:
    """Return each block's box, with the pictures that are level with it and with no other block."""
    boxes = [block.bbox for block in blocks]
    if not pictures:
        return boxes
    picture_places = place_pictures(
        [picture_place.bbox for picture_place in pictures],
        [text_block(block, page) for block in blocks],
        right_to_left=right_to_left,
    )
    for picture, picture_place in zip(pictures, picture_places, strict=True):
        beside = (
            {number for number, _ in picture_place.step} if picture_place is not None and picture_place.is_level else set()
        )
        if len(beside) == 1:
            boxes[min(beside)] |= picture.bbox
    return boxes


def _is_vertical(block: DraftBlock) -> bool:
    return any(line.bbox.height > max(VERTICAL_EM * line.size, line.bbox.width) for line in block.lines[:1])


def _head(block: DraftBlock) -> BBox:
    """Return the rows of a block up to the first that is wrapped; all of a table, whose cells may be in any order.

    A row that ends with its sentence doesn't show how wide the column is.
    """
    if block.kind is BlockKind.TABLE:
        return block.bbox
    head = [block.lines[0]]
    for before, line in pairwise(block.lines):
        is_over = ends_sentence(before.text) and not wraps(before, line, block.bbox.x0, block.bbox.x1)
        if not is_over and not is_level(before.bbox, line.bbox):
            break
        head.append(line)
    return union(line.bbox for line in head)


def _prose_size(block: DraftBlock) -> float:
    """Return the type size of a block of running text; 0 for any other."""
    if block.kind is not BlockKind.TEXT:
        return 0.0
    rows = 1 + sum(not is_level(line.bbox, following.bbox) for line, following in pairwise(block.lines))
    return body_size(block.lines) if rows >= FEWEST_PROSE_ROWS else 0.0
