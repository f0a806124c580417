"""Set the tables of a page, with their captions, into its text."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.documents import BlockKind, Line, TablePart, TableRegion
from schemas.figure_labels import LabelKind
from schemas.geometry import BBox, gap
from tasks.reading.pieces import Piece, of_lines
from tasks.tables.mark_up import markdown

CAPTION_GAP_PT = 48.0
"""Widest gap between a table and its caption. Of 1,014 pages 1 changes at 32.2, 2 at 72."""


def with_tables(pieces: Sequence[Piece], tables: Sequence[tuple[TableRegion, frozenset[Line]]]) -> list[Piece]:
    """Put each table, with its caption, at the place of the first line that it holds, in place of those lines."""
    made = list(pieces)
    for table, held in tables:
        made = _with_table(made, table, held)
    return _with_table_captions(made)


def _with_table(pieces: Sequence[Piece], table: TableRegion, held: frozenset[Line]) -> list[Piece]:
    kept: list[Piece] = []
    inside: list[Line] = []
    place: int | None = None
    for piece in pieces:
        if piece.kind in (BlockKind.TABLE, BlockKind.CAPTION) or held.isdisjoint(piece.lines):
            kept.append(piece)
            continue
        outside = [line for line in piece.lines if line not in held]
        # A block may begin before the table: what it has over the table is read first.
        over = [line for line in outside if line.bbox.y0 + line.bbox.y1 <= 2 * table.bbox.y0]
        if place is None:
            place = len(kept)
        if over:
            kept.insert(place, of_lines(piece, over))
            place += 1
        inside.extend(line for line in piece.lines if line in held)
        if len(over) < len(outside):
            kept.append(of_lines(piece, [line for line in outside if line not in over]))
    part = TablePart(table.page, table.bbox, len(table.rows))
    whole = Piece(
        BlockKind.TABLE, table.page, table.bbox, tuple(inside), markdown(table.rows), rows=table.rows, parts=(part,)
    )
    kept.insert(_place(kept, table.bbox) if place is None else place, whole)
    return kept


def _place(pieces: Sequence[Piece], box: BBox) -> int:
    """Return where in reading order something stands that has no place of its own: before the first text below it."""
    middle = (box.y0 + box.y1) / 2
    after: int | None = None
    for number, piece in enumerate(pieces):
        if piece.kind is BlockKind.MARGIN or gap(box.x0, box.x1, piece.bbox.x0, piece.bbox.x1) >= 0:
            continue
        if (piece.bbox.y0 + piece.bbox.y1) / 2 >= middle:
            return number
        after = number + 1
    return len(pieces) if after is None else after


def _with_table_captions(pieces: list[Piece]) -> list[Piece]:
    captions = [piece for piece in pieces if piece.label is not None and piece.label.kind is LabelKind.TABLE]
    tables = [piece for piece in pieces if piece.kind is BlockKind.TABLE]
    pairs = sorted(
        (gap(caption.bbox.y0, caption.bbox.y1, table.bbox.y0, table.bbox.y1), one, other)
        for one, caption in enumerate(captions)
        for other, table in enumerate(tables)
        if gap(caption.bbox.x0, caption.bbox.x1, table.bbox.x0, table.bbox.x1) < 0
    )
    made = list(pieces)
    for apart, one, other in pairs:
        caption, table = captions[one], tables[other]
        if apart > CAPTION_GAP_PT or caption not in made or table not in made:
            continue
        made.remove(caption)
        words = " ".join(caption.words.split())
        made[made.index(table)] = replace(
            table, text=f"{words}\n{table.text}", bbox=table.bbox | caption.bbox, caption=words, label=caption.label
        )
    return made
