"""Put the blocks of a page into the order that their positions show; split sheets that show two pages of a book."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate, combinations, groupby, pairwise
from typing import NamedTuple

from schemas.documents import BlockKind, Furniture, Line, Placement, is_same_size
from schemas.geometry import BBox, is_level, union
from tasks.reading.blocks import ENDS_SENTENCE
from tasks.reading.join import wraps
from tasks.reading.outline import body_size
from tasks.reading.page_numbers import numbers_of
from tasks.reading.paragraphs import DraftBlock, PageContent, text_block
from tasks.reading.picture_places import TOUCH_PT, place_pictures, shares_column
from tasks.tables.rows import View

MOST_ROUNDS = 2
"""Rounds of correction: a move may uncover another contradiction."""
MOST_BLOCKS = 200
"""Blocks of a page beyond which the order is kept: they are the labels of a drawing. Bounds the work."""

FEWEST_PROSE_ROWS = 3
"""Minimum rows of a block of running text."""
FEWEST_TURNS, FEWEST_PROSE = 4, 2
"""Minimum turns from one column to the other, and minimum blocks of running text in each, of columns written row by row."""
VERTICAL_EM = 2.0
"""Height from which on a line is vertical text."""


class LayoutBlock(NamedTuple):
    """A block's position.

    ``head`` is its first row: lower rows may wrap around a figure and reach under it. ``prose`` is the type size in points if
    it is running text of several rows, else 0.
    """

    box: BBox
    head: BBox
    prose: float = 0.0


def reordered(blocks: Sequence[LayoutBlock], *, right_to_left: bool = False) -> list[int]:
    """Return the indices of a page's blocks in reading order."""
    order = list(range(len(blocks)))
    if not 0 < len(blocks) <= MOST_BLOCKS:
        return order
    # The column read first has the smaller sides on all pages.
    view = View(right_to_left=right_to_left)
    blocks = [LayoutBlock(view.seen(box), view.seen(head), prose) for box, head, prose in blocks]
    for _ in range(MOST_ROUNDS):
        order = _moved(blocks, order, _displaced(_contradictions(blocks, order)))
    order = _by_column(blocks, order)
    # Blocks of two columns never contradict each other, so the corrections above stay.
    for _ in range(MOST_ROUNDS):
        order = _with_columns_swapped(blocks, order)
    return order


def _stands_over(upper: LayoutBlock, lower: LayoutBlock) -> bool:
    """Return whether a block ends above another one in the same column."""
    return upper.box.y1 <= lower.box.y0 + TOUCH_PT and shares_column(upper.box, lower.head)


def _contradictions(blocks: Sequence[LayoutBlock], order: Sequence[int]) -> dict[int, set[int]]:
    """Return each block that contradicts others by being written before one above it, or after one below it, with those."""
    against: dict[int, set[int]] = defaultdict(set)
    for early, late in combinations(order, 2):
        if _stands_over(blocks[late], blocks[early]):
            against[late].add(early)
            against[early].add(late)
    return against


def _displaced(against: dict[int, set[int]]) -> list[int]:
    """Return blocks to remove until no contradiction is left: the one with most first, of two the later."""
    displaced: list[int] = []
    while against:
        worst = max(against, key=lambda number: (len(against[number]), number))
        displaced.append(worst)
        for rival in against.pop(worst):
            against[rival].discard(worst)
            if not against[rival]:
                del against[rival]
    return displaced


def _moved(blocks: Sequence[LayoutBlock], order: Sequence[int], displaced: Sequence[int]) -> list[int]:
    """Insert displaced blocks again: before those below them, else after those above them."""
    ordered = [number for number in order if number not in displaced]
    titles = _titles(blocks)
    for number in sorted(displaced, key=lambda number: (blocks[number].box.y0, blocks[number].box.x0)):
        # A title goes right after those above it, since it may be above one of the columns only.
        if number in titles:
            before = titles[: titles.index(number)]
            position = max((at + 1 for at, present in enumerate(ordered) if present in before), default=0)
        else:
            position = _position(blocks[number], [blocks[present] for present in ordered])
        ordered.insert(position, number)
    return ordered


def _position(block: LayoutBlock, ordered_blocks: Sequence[LayoutBlock]) -> int:
    """Return the index among others with the fewest contradictions."""
    over = [_stands_over(neighbour, block) for neighbour in ordered_blocks]
    under = [_stands_over(block, neighbour) for neighbour in ordered_blocks]
    # `wrong[k]` counts the contradictions if the block is inserted before the k-th: blocks above it that follow, and blocks
    # below it that come before.
    wrong = list(accumulate((below - above for below, above in zip(under, over, strict=True)), initial=sum(over)))
    fewest = min(wrong)
    # Of equal positions the last is right before what is below the block, and the first right after what is above it.
    if any(under):
        return len(wrong) - 1 - wrong[::-1].index(fewest)
    return wrong.index(fewest) if any(over) else len(ordered_blocks)


def _titles(blocks: Sequence[LayoutBlock]) -> list[int]:
    """Return the blocks with nothing beside them at the head of the page: they are above every column, however short."""
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].box.y0)
    titles: list[int] = []
    for number, following in pairwise(order):
        if blocks[following].box.y0 < blocks[number].box.y1 - TOUCH_PT:
            break
        titles.append(number)
    return titles


def _with_columns_swapped(blocks: Sequence[LayoutBlock], order: Sequence[int]) -> list[int]:
    """Swap a column of running text with the next one if the latter is nearer to where lines begin."""
    swapped = list(order)
    for at in range(1, len(swapped)):
        if blocks[swapped[at]].box.x1 > blocks[swapped[at - 1]].box.x0:
            continue
        begin, end = _columns([blocks[number].box for number in swapped], at)
        early, late = swapped[begin:at], swapped[at:end]
        if any(_are_columns(blocks[early_block], blocks[late_block]) for early_block in early for late_block in late):
            swapped[begin:end] = late + early
    return swapped


def _by_column(blocks: Sequence[LayoutBlock], order: Sequence[int]) -> list[int]:
    """Return the order of blocks, two columns of running text that are written row by row one after the other."""
    middle = (min(block.box.x0 for block in blocks) + max(block.box.x1 for block in blocks)) / 2

    def column_of(number: int) -> int | None:
        x0, _, x1, _ = blocks[number].box
        return None if x0 < middle < x1 else int(x0 >= middle)

    by_column: list[int] = []
    for _, run in groupby(order, key=lambda number: column_of(number) is not None):
        numbers = list(run)
        turns = [column for column, _ in groupby(numbers, key=column_of)]
        prose = Counter(column_of(number) for number in numbers if blocks[number].prose)
        if len(turns) >= FEWEST_TURNS and min(prose[0], prose[1]) >= FEWEST_PROSE:
            numbers.sort(key=lambda number: (column_of(number), blocks[number].box.y0))
        by_column += numbers
    return by_column


def _columns(boxes: Sequence[BBox], at: int) -> tuple[int, int]:
    """Return where the column before an index begins, and where the column from that index on ends."""
    begin = end = at
    while begin and boxes[at].x1 <= boxes[begin - 1].x0:
        begin -= 1
    near = min(box.x0 for box in boxes[begin:at])
    while end < len(boxes) and boxes[end].x1 <= near:
        end += 1
    return begin, end


def _are_columns(a: LayoutBlock, b: LayoutBlock) -> bool:
    """Return whether two blocks are running text of one size, side by side."""
    return a.prose > 0 < b.prose and is_same_size(a.prose, b.prose) and is_level(a.box, b.box)


def in_page_order(blocks: list[DraftBlock], pictures: Sequence[Placement], content: PageContent) -> list[DraftBlock]:
    """Correct the order of blocks that contradicts their positions; margins and vertical text keep their index.

    On a rotated page all text does. A block that makes a row with a picture is above what is below the picture, too.
    """
    if content.page.rotation:
        return blocks
    at = [
        number
        for number, block in enumerate(blocks)
        if (block.kind is not BlockKind.MARGIN or block.furniture is Furniture.CONTENTS) and not _is_vertical(block)
    ]
    moved = [blocks[number] for number in at]
    boxes = _with_rows(moved, pictures, content)
    layout = [
        # A block that makes a row with a picture is above or below others by the whole row, not by its first line.
        LayoutBlock(box, _head(block) if box == block.bbox else box, _prose_size(block))
        for block, box in zip(moved, boxes, strict=True)
    ]
    ordered = list(blocks)
    for position, number in zip(at, reordered(layout, right_to_left=content.right_to_left), strict=True):
        ordered[position] = moved[number]
    return ordered


def with_margins_outside(blocks: Sequence[DraftBlock], content: PageContent) -> list[DraftBlock]:
    """Move running heads before the text of their page, and feet after it."""
    middle = content.upright(content.page.box).centre_y

    def part(block: DraftBlock) -> int:
        if block.kind is not BlockKind.MARGIN or block.furniture is Furniture.CONTENTS:
            return 1
        return 0 if content.upright(block.bbox).centre_y < middle else 2

    return sorted(blocks, key=part)


def _with_rows(blocks: Sequence[DraftBlock], pictures: Sequence[Placement], content: PageContent) -> list[BBox]:
    """Return each block's box, with the pictures that are level with it and with no other block."""
    boxes = [block.bbox for block in blocks]
    if not pictures:
        return boxes
    positions = place_pictures(
        [picture.bbox for picture in pictures],
        [text_block(block, content) for block in blocks],
        right_to_left=content.right_to_left,
    )
    for picture, position in zip(pictures, positions, strict=True):
        beside = {number for number, _ in position.step} if position.is_level else set()
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
        is_over = ENDS_SENTENCE.search(before.text) and not wraps(before, line, block.bbox.x0, block.bbox.x1)
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


def split_spread(
    blocks: list[DraftBlock], pictures: Sequence[Placement], content: PageContent
) -> list[tuple[list[DraftBlock], Sequence[Placement]]]:
    """Return the blocks and pictures of each page on a sheet, in reading order.

    A sheet wider than high shows two pages if two page numbers are level, one in each half, the second greater by one, and no
    text crosses the middle. A picture over the middle belongs to the page with more of it, or to the first.
    """
    sheet = content.upright(content.page.box)
    margins = [line for block in blocks if block.kind is BlockKind.MARGIN for line in block.lines]
    middle = sheet.centre_x
    if sheet.width <= sheet.height or not _are_numbered(margins, middle, content):
        return [(blocks, pictures)]
    boxes = [content.upright(block.bbox) for block in blocks if block.kind is not BlockKind.MARGIN]
    if any(box.x0 < middle < box.x1 for box in boxes):
        return [(blocks, pictures)]

    def is_first(box: BBox) -> bool:
        over = content.upright(box).centre_x - middle
        return over >= 0 if content.right_to_left else over <= 0

    return [
        (
            [block for block in blocks if is_first(block.bbox) is half],
            [picture for picture in pictures if is_first(picture.bbox) is half],
        )
        for half in (True, False)
    ]


def _are_numbered(margins: Sequence[Line], middle: float, content: PageContent) -> bool:
    """Return whether two level lines of the margin, on both sides of the middle, have consecutive page numbers."""
    runs = [(content.upright(line.bbox), run) for line in margins for run, _ in numbers_of(line)]
    step = -1 if content.right_to_left else 1
    return any(
        is_level(left_box, right_box) and right_run == left_run._replace(offset=left_run.offset + step)
        for left_box, left_run in runs
        if left_box.x1 < middle
        for right_box, right_run in runs
        if right_box.x0 > middle
    )
