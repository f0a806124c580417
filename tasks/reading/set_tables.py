"""Insert the tables of a page, with their captions, into its text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from schemas.documents import BlockKind, FoundBy, Line, TableOnPage, TableRegion
from schemas.geometry import BBox
from schemas.tags import placeholders, strip
from schemas.text import LabelKind
from tasks.reading.blocks import ENDS_SENTENCE
from tasks.reading.paragraphs import DraftBlock, with_lines
from tasks.tables.mark_up import head_rows, markdown

FEWEST_ROWS = 2
"""Minimum rows of a table."""
SAME_WIDTH_PT = 6.0
"""Maximum difference of the widths of two parts of one table."""
_NOTICE = re.compile(
    r"\W*(?:(?:table|tab|tabelle|tableau|tabla)\b\W*(?:[A-Z]{1,2}[.–-]?)?[\d.–-]*)?\W*"
    r"(?:continue[ds]|cont['’]?d|cont|fortsetzung|suite|continuación)\b"
    r"(?:\s+(?:on|from|the|next|following|previous|page|auf|von|der|nächsten|vorherigen|seite))*\W*",
    re.IGNORECASE,
)

CAPTION_GAP_PT = 48.0
"""Maximum gap between a table and its caption."""


def join_continued(blocks: Sequence[DraftBlock]) -> list[DraftBlock]:
    """Join each table that continues at the head of the next page. Notices that it continues become margins."""
    joined_blocks: list[DraftBlock] = []
    for block in blocks:
        at = _table_to_continue(joined_blocks, block) if block.kind is BlockKind.TABLE else None
        if at is None or not _continues(joined_blocks[at], block):
            joined_blocks.append(block)
            continue
        joined_blocks[at + 1 :] = [
            replace(between, kind=BlockKind.MARGIN, label=None) if _may_be_between(between) else between
            for between in joined_blocks[at + 1 :]
        ]
        if block.label is not None:
            # A repeated caption isn't a part of the joined table, and stays on its page as a margin.
            joined_blocks.append(DraftBlock(BlockKind.MARGIN, block.page, _caption_box(block), text=block.caption))
        joined_blocks[at] = _joined(joined_blocks[at], block)
    return [
        _as_text(block) if block.kind is BlockKind.TABLE and len(block.rows) < FEWEST_ROWS else block
        for block in joined_blocks
    ]


def _as_text(row: DraftBlock) -> DraftBlock:
    """Return a row that isn't a table, since the next page doesn't continue it."""
    return replace(row, kind=BlockKind.TEXT, text="", rows=(), parts=(), spans=())


def _table_to_continue(previous_blocks: Sequence[DraftBlock], block: DraftBlock) -> int | None:
    """Return the index of the table that ends the page before; footnotes may follow one that has a notice."""
    for at in reversed(range(len(previous_blocks))):
        if previous_blocks[at].kind is BlockKind.TABLE:
            return at
        if not _may_be_between(previous_blocks[at]) and (
            previous_blocks[at].page == block.page or not _is_notice(block.caption)
        ):
            return None
    return None


def _may_be_between(block: DraftBlock) -> bool:
    """Return whether a block may be between the parts of one table: a margin, or "continued on the next page"."""
    return block.kind is BlockKind.MARGIN or (block.kind in (BlockKind.TEXT, BlockKind.CAPTION) and _is_notice(block.words))


def _is_notice(text: str) -> bool:
    return _NOTICE.fullmatch(text) is not None


def _continues(table: DraftBlock, block: DraftBlock) -> bool:
    """Return whether a table that ends a page is continued by the one that begins the next.

    A repeated caption must have the same number; a table without a caption needs the same columns, or the same header.
    """
    before, after = table.parts[-1], block.parts[0]
    by_words = FoundBy.LAYOUT in (before.found_by, after.found_by)  # no rule says how wide the table is
    same_sides = abs(before.bbox.x0 - after.bbox.x0) <= SAME_WIDTH_PT and (
        by_words or abs(before.bbox.width - after.bbox.width) <= SAME_WIDTH_PT
    )
    alike = same_sides and len(table.rows[0]) == len(block.rows[0])
    if not alike or after.page != before.page + 1:
        return False
    if block.label is not None:
        noted = _is_notice(block.caption)
        return noted if table.label is None else block.label == table.label and (noted or block.label.number != "")
    return True


def _joined(table: DraftBlock, block: DraftBlock) -> DraftBlock:
    repeated = _repeated_rows(table, block)
    rows = block.rows[repeated:]
    if rows and _goes_on(table.rows[-1], rows[0]):
        last = tuple(f"{above}\n{cell}".strip() for above, cell in zip(table.rows[-1], rows[0], strict=True))
        table, rows, repeated = replace(table, rows=(*table.rows[:-1], last)), rows[1:], repeated + 1
    joined_rows = (*table.rows, *rows)
    part = replace(block.parts[0], rows=len(rows))
    text = "\n".join(filter(None, (table.caption, markdown(joined_rows))))
    spans = [replace(span, row=span.row - repeated + len(table.rows)) for span in block.spans if span.row >= repeated]
    return replace(table, text=text, rows=joined_rows, parts=(*table.parts, part), spans=(*table.spans, *spans))


def _goes_on(row: Sequence[str], continuation: Sequence[str]) -> bool:
    """Return whether the first row of a page is the rest of the last row of the page before: its first cell is empty."""
    if continuation[0] or not any(continuation):
        return False
    return all(above and not ENDS_SENTENCE.search(above) for above, cell in zip(row, continuation, strict=True) if cell)


def _repeated_rows(table: DraftBlock, block: DraftBlock) -> int:
    """Return how many of a table's head rows its next part repeats; one with a picture is kept: each placement has a tag."""
    heads = zip(table.rows[: head_rows(table.rows, table.spans)], block.rows, strict=False)
    same = takewhile(lambda rows: _same_row(*rows) and not any(map(placeholders, rows[1])), heads)
    return sum(1 for _ in same)


def _caption_box(table: DraftBlock) -> BBox:
    """Return the part of a table's box above or below its cells."""
    table_box, cells = table.bbox, table.parts[0].bbox
    over = cells.y0 - table_box.y0 > table_box.y1 - cells.y1
    return table_box._replace(y1=cells.y0) if over else table_box._replace(y0=cells.y1)


def _same_row(first_row: Sequence[str], second_row: Sequence[str]) -> bool:
    first_words, second_words = ([" ".join(strip(cell).split()) for cell in row] for row in (first_row, second_row))
    return first_words == second_words and any(first_words)


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
    set_blocks.insert(len(set_blocks) if at is None else at, _block(table, inside))
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


def _with_table_captions(blocks: list[DraftBlock], tables: Sequence[DraftBlock]) -> list[DraftBlock]:
    captions = [block for block in blocks if block.label is not None and block.label.kind is LabelKind.TABLE]
    pairs = sorted(
        (caption.bbox.gap_y(table.bbox), caption_number, table_number)
        for caption_number, caption in enumerate(captions)
        for table_number, table in enumerate(tables)
        if caption.bbox.gap_x(table.bbox) < 0
    )
    set_blocks = list(blocks)
    # The nearest pair goes first; both of its blocks are replaced, so that no later pair finds them.
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
