"""Insert the tables of a page, with their captions, into its text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from schemas.documents import BlockKind, Line, TableOnPage, TableRegion
from schemas.figure_labels import LabelKind
from schemas.geometry import BBox, gap
from tasks.reading.draft_blocks import DraftBlock, with_lines
from tasks.tables.mark_up import markdown

CAPTION_GAP_PT = 48.0
"""Maximum gap between a table and its caption."""


def with_tables(blocks: Sequence[DraftBlock], tables: Sequence[tuple[TableRegion, frozenset[Line]]]) -> list[DraftBlock]:
    """Replace the lines of each table by the table, at the position of the first, and join it with its caption."""
    set_blocks = list(blocks)
    for table, table_lines in tables:
        set_blocks = _with_table(set_blocks, table, table_lines)
    return _with_table_captions(set_blocks, [block for block in set_blocks if block.kind is BlockKind.TABLE])


def _with_table(blocks: Sequence[DraftBlock], table: TableRegion, table_lines: frozenset[Line]) -> list[DraftBlock]:
    set_blocks: list[DraftBlock] = []
    inside: list[Line] = []
    at: int | None = None
    for block in blocks:
        if block.kind in (BlockKind.TABLE, BlockKind.CAPTION) or table_lines.isdisjoint(block.lines):
            set_blocks.append(block)
            continue
        outside = [line for line in block.lines if line not in table_lines]
        # A block may begin above the table: those lines are read first.
        over = [line for line in outside if line.bbox.y0 + line.bbox.y1 <= 2 * table.bbox.y0]
        if at is None:
            at = len(set_blocks)
        if over:
            set_blocks.insert(at, with_lines(block, over))
            at += 1
        inside.extend(line for line in block.lines if line in table_lines)
        if len(over) < len(outside):
            set_blocks.append(with_lines(block, [line for line in outside if line not in over]))
    set_blocks.insert(_position(set_blocks, table.bbox) if at is None else at, _block(table, inside))
    return set_blocks


def _block(table: TableRegion, lines: Sequence[Line] = ()) -> DraftBlock:
    part = TableOnPage(table.page, table.bbox, len(table.rows), table.found_by)
    return DraftBlock(
        BlockKind.TABLE,
        table.page,
        table.bbox,
        tuple(lines),
        markdown(table.rows),
        rows=table.rows,
        parts=(part,),
        spans=table.spans,
    )


def with_tables_of_pictures(blocks: Sequence[DraftBlock], tables: Mapping[int, Sequence[TableRegion]]) -> list[DraftBlock]:
    """Insert the tables in pictures, by the order of the placement: each after its picture, and the caption below that."""
    if not tables:
        return list(blocks)
    set_blocks: list[DraftBlock] = []
    added: list[DraftBlock] = []
    waiting: list[DraftBlock] = []
    for block, after in zip_longest(blocks, blocks[1:]):
        set_blocks.append(block)
        if block.kind is BlockKind.FIGURE and block.placement is not None:
            waiting = [_block(table) for table in tables.get(block.placement.order, ())]
            added += waiting
        if after is None or after.kind is not BlockKind.CAPTION or after.placement is not block.placement:
            set_blocks += waiting
            waiting = []
    return _with_table_captions(set_blocks, added)


def _position(blocks: Sequence[DraftBlock], box: BBox) -> int:
    """Return where in reading order a table without lines of its own goes: before the first text below it."""
    middle = (box.y0 + box.y1) / 2
    after: int | None = None
    for number, block in enumerate(blocks):
        if block.kind is BlockKind.MARGIN or gap(box.x0, box.x1, block.bbox.x0, block.bbox.x1) >= 0:
            continue
        if (block.bbox.y0 + block.bbox.y1) / 2 >= middle:
            return number
        after = number + 1
    return len(blocks) if after is None else after


def _with_table_captions(blocks: list[DraftBlock], tables: Sequence[DraftBlock]) -> list[DraftBlock]:
    captions = [block for block in blocks if block.label is not None and block.label.kind is LabelKind.TABLE]
    pairs = sorted(
        (gap(caption.bbox.y0, caption.bbox.y1, table.bbox.y0, table.bbox.y1), caption_number, table_number)
        for caption_number, caption in enumerate(captions)
        for table_number, table in enumerate(tables)
        if gap(caption.bbox.x0, caption.bbox.x1, table.bbox.x0, table.bbox.x1) < 0
    )
    set_blocks = list(blocks)
    for apart, caption_number, table_number in pairs:
        caption, table = captions[caption_number], tables[table_number]
        if apart > CAPTION_GAP_PT or caption not in set_blocks or table not in set_blocks:
            continue
        set_blocks.remove(caption)
        words = " ".join(caption.words.split())
        set_blocks[set_blocks.index(table)] = replace(
            table, text=f"{words}\n{table.text}", bbox=table.bbox | caption.bbox, caption=words, label=caption.label
        )
    return set_blocks
