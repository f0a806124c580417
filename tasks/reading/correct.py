"""Apply corrections by people to a document: to the figures and blocks that they were made for, and to no others."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import takewhile

from schemas.corrections import OF_FIGURES, CorrectionKind, StoredCorrection
from schemas.documents import (
    TAGGED,
    Block,
    BlockKind,
    PageFailure,
    ParsedDocument,
    Placement,
    Role,
    StructuredDocument,
)
from schemas.errors import FailureCode
from schemas.geometry import BBox
from schemas.tags import escape, placeholder, placeholders, strip
from schemas.text import same_title
from tasks.tables.mark_up import caption_of, markdown

SAME_BOX = 0.8
"""Minimum intersection over union of the box of a figure or block that is where it was. Neighbours don't overlap."""
ALIKE = 0.9
"""Minimum similarity (Ratcliff and Obershelp) of the words of a block that is where it was, and has the same numbers."""

_PLAIN = (BlockKind.TEXT, BlockKind.CODE, BlockKind.HEADING, BlockKind.FOOTNOTE, BlockKind.MARGIN)
CORRECTABLE: dict[CorrectionKind, Callable[[Block], bool]] = {
    CorrectionKind.KIND: lambda block: block.kind in _PLAIN and block.placement is None,
    CorrectionKind.TITLE: lambda block: block.kind is BlockKind.HEADING,
    CorrectionKind.CELL: lambda block: bool(block.rows),
}
"""The blocks of which each kind can be corrected."""
_BY_HAND, _BELOW_HEAD = "corrected by hand", "\n---\n"

CORRECT_VERSION = "1"


def with_roles(parsed: ParsedDocument, corrections: Sequence[StoredCorrection]) -> ParsedDocument:
    """Return a document with the roles of figures corrected; a picture that isn't stored never becomes content."""
    stored = {figure.figure_id for figure in parsed.figures}
    roles = {
        placement.order: Role(correction.value)
        for correction in corrections
        if correction.kind is CorrectionKind.ROLE
        for placement in placements_of(correction, parsed.doc_id, parsed.placements)
        if placement.figure_id in stored
    }
    placements = (
        replace(placement, role=roles[placement.order], reason=_BY_HAND) if placement.order in roles else placement
        for placement in parsed.placements
    )
    return replace(parsed, placements=tuple(placements)) if roles else parsed


def correct(document: StructuredDocument, corrections: Sequence[StoredCorrection]) -> StructuredDocument:
    """Return a document, its roles corrected before, with the other corrections; those that don't fit are failures."""
    as_read, lost = document, list[PageFailure]()
    for correction in corrections:
        corrected = (
            _with_figure(correction, as_read, document)
            if correction.kind in OF_FIGURES
            else _with_block(correction, as_read, document)
        )
        if corrected is None:
            quoted = f"{correction.kind}: {correction.value[:60]!r}, page {correction.page}"
            message = f"correction {correction.id} ({quoted}) no longer fits"
            lost.append(PageFailure(None, FailureCode.CORRECTION_LOST, message))
        else:
            document = corrected
    return replace(document, failures=(*document.failures, *lost)) if lost else document


def placements_of(correction: StoredCorrection, doc_id: str, placements: Iterable[Placement]) -> list[Placement]:
    """Return the placement of a correction's figure: where it was, or its only one; of a description all. [] if it is gone."""
    pictured = [placement for placement in placements if placement.figure_id is not None]
    same = [placement for placement in pictured if placement.figure_id == correction.figure_id]
    if not same and doc_id == correction.doc_id:  # the same bytes, parsed otherwise
        same = [placement for placement in pictured if _is_there(correction, placement.page, placement.bbox)]
    if correction.kind is CorrectionKind.DESCRIPTION:
        return same
    at_box = [placement for placement in same if _is_there(correction, placement.page, placement.bbox)]
    return at_box or (same if len(same) == 1 and correction.is_only else [])


def descriptions_by_hand(
    corrections: Iterable[StoredCorrection], doc_id: str, placements: Sequence[Placement]
) -> dict[str, str]:
    """Return the corrected descriptions by figure id."""
    return {
        placement.figure_id: correction.value
        for correction in corrections
        if correction.kind is CorrectionKind.DESCRIPTION
        for placement in placements_of(correction, doc_id, placements)
        if placement.figure_id is not None
    }


def block_of(correction: StoredCorrection, document: StructuredDocument) -> Block | None:
    """Return the block of a correction; None if it is gone, or may be any of several.

    Of blocks with the same words it is the one that is where it was, the only one, or the only one in its section. With other
    words it is the one that is where it was: in the same bytes, or with nearly the same words and the same numbers; or the table
    with its caption and header.
    """
    blocks = [block for block in document.blocks if CORRECTABLE[correction.kind](block)]
    same = [block for block in blocks if as_words(block.text) == as_words(correction.text)]
    at_box = [block for block in same or blocks if _is_there(correction, block.page, block.bbox)]
    if same:
        at_box = at_box or (
            same if correction.is_only else [block for block in same if section_of(block) == correction.section]
        )
    elif document.doc_id != correction.doc_id:
        heads = [block for block in blocks if block.rows and _head(block) == correction.text.split(_BELOW_HEAD)[0]]
        at_box = [block for block in at_box if block in heads or _is_alike(block.text, correction.text)] or [
            block for block in heads if caption_of(block)
        ]
    return at_box[0] if len(at_box) == 1 else None


def section_of(block: Block) -> tuple[str, ...]:
    """Return the titles above a block, without a heading's own."""
    path = block.section_path
    return path[:-1] if block.kind is BlockKind.HEADING and path and same_title(path[-1], block.text) else path


def text_of(block: Block) -> str:
    """Return the words by which a correction knows its block; a table's caption and header come first."""
    return f"{_head(block)}{_BELOW_HEAD}{block.text}" if block.rows else block.text


def _with_figure(
    correction: StoredCorrection, as_read: StructuredDocument, document: StructuredDocument
) -> StructuredDocument | None:
    """Return the document with a figure corrected; None if it doesn't fit."""
    placements = placements_of(correction, as_read.doc_id, as_read.placements)
    orders = {placement.order for placement in placements if placement.role in TAGGED}
    if correction.kind is CorrectionKind.ROLE:
        return document if any(placement.role == correction.value for placement in placements) else None
    if not orders:
        return None
    if correction.kind is CorrectionKind.DESCRIPTION:  # composed when rows are made
        return document
    figures = (
        replace(figure, caption=escape(correction.value)) if figure.placement.order in orders else figure
        for figure in document.figures
    )
    return replace(document, figures=tuple(figures))


def _with_block(
    correction: StoredCorrection, as_read: StructuredDocument, document: StructuredDocument
) -> StructuredDocument | None:
    """Return the document with a block corrected; None if it doesn't fit."""
    target = block_of(correction, as_read)
    if target is None:
        return None
    block = document.blocks[target.order]
    match correction.kind:
        case CorrectionKind.TITLE:
            return _with_title(document, block, escape(correction.value))
        case CorrectionKind.KIND:
            return _with_kind(document, block, BlockKind(correction.value))
        case _:
            return _with_cell(document, block, target, correction)


def _with_title(document: StructuredDocument, heading: Block, title: str) -> StructuredDocument:
    path = heading.section_path
    renamed = _replaced(document, replace(heading, text=" ".join([title, *_tags(heading.text)])))
    if not path or not same_title(path[-1], heading.text):
        return renamed
    return _with_path_below(renamed, heading, (*path[:-1], title))


def _with_kind(document: StructuredDocument, block: Block, kind: BlockKind) -> StructuredDocument | None:
    """Return the document with a block of another kind, and the sections that this begins or ends."""
    if kind is BlockKind.MARGIN and placeholders(block.text):
        return None  # its figures would lose their place
    path = block.section_path
    if kind is BlockKind.HEADING and block.kind is not BlockKind.HEADING:
        title = " ".join(strip(block.text).split())
        changed = _replaced(
            document, replace(block, kind=kind, level=len(path) + 1, furniture=None, text=" ".join(block.text.split()))
        )
        return _moved(
            changed,
            block,
            lambda later: (
                later.order == block.order or (later.kind is not BlockKind.HEADING and later.section_path == path)
            ),
            lambda _: (*path, title),
        )
    changed = _replaced(document, replace(block, kind=kind, level=None, furniture=None))
    if block.kind is not BlockKind.HEADING or not path or kind is BlockKind.HEADING:
        return changed
    before = document.blocks[block.order - 1].section_path if block.order else ()
    return _with_path_below(changed, block, before)


def _with_cell(
    document: StructuredDocument, table: Block, as_read: Block, correction: StoredCorrection
) -> StructuredDocument | None:
    """Return the document with a cell corrected: the one at its place, or the only one with its words, row and column."""
    positions = [
        (row, column)
        for row, cells in enumerate(as_read.rows)
        for column, cell in enumerate(cells)
        if as_words(cell) == as_words(correction.cell) and _labels(as_read, row, column) == correction.labels
    ]
    position = (correction.row, correction.column)
    if position not in positions:
        if len(positions) != 1:
            return None
        position = positions[0]
    rows = [list(row) for row in table.rows]
    rows[position[0]][position[1]] = " ".join([escape(correction.value), *_tags(rows[position[0]][position[1]])]).strip()
    text = "\n".join(filter(None, (caption_of(table), markdown(rows))))
    return _replaced(document, replace(table, rows=tuple(map(tuple, rows)), text=text))


def _labels(table: Block, row: int, column: int) -> tuple[str, str]:
    """Return the words of a row's first cell and of a column's head, but those of the cell itself."""
    first, head = table.rows[row][0] if column else "", table.rows[0][column] if row else ""
    return as_words(first), as_words(head)


def _is_there(correction: StoredCorrection, page: int, bbox: BBox) -> bool:
    return page == correction.page and BBox(*correction.bbox).iou(bbox) >= SAME_BOX


def _is_alike(text: str, earlier: str) -> bool:
    first, second = as_words(text), as_words(earlier)
    same_numbers = re.findall(r"\d+", first) == re.findall(r"\d+", second)
    return same_numbers and SequenceMatcher(None, first, second, autojunk=False).ratio() >= ALIKE


def _head(table: Block) -> str:
    return "\n".join((as_words(caption_of(table)), *map(as_words, table.rows[0])))


def as_words(text: str) -> str:
    """Return a text as it is compared: without tags, case and line breaks."""
    return " ".join(strip(text.rpartition(_BELOW_HEAD)[2]).casefold().split())


def _tags(text: str) -> list[str]:
    return [placeholder(name) for name in placeholders(text)]


def _replaced(document: StructuredDocument, changed: Block) -> StructuredDocument:
    blocks = (changed if block.order == changed.order else block for block in document.blocks)
    return replace(document, blocks=tuple(blocks))


def _with_path_below(document: StructuredDocument, heading: Block, titles: tuple[str, ...]) -> StructuredDocument:
    """Return the document with other titles in place of a heading's path, above all blocks of its section."""
    path, depth = heading.section_path, len(heading.section_path)
    return _moved(
        document,
        heading,
        lambda block: block.section_path[:depth] == path,
        lambda earlier: (*titles, *earlier[depth:]),
    )


def _moved(
    document: StructuredDocument,
    first: Block,
    belongs: Callable[[Block], bool],
    path: Callable[[tuple[str, ...]], tuple[str, ...]],
) -> StructuredDocument:
    """Return the document with other sections above a block and those after it that belong to it, and their figures."""
    orders = {block.order for block in takewhile(belongs, document.blocks[first.order :])}
    blocks = (
        replace(block, section_path=path(block.section_path)) if block.order in orders else block
        for block in document.blocks
    )
    figures = (
        replace(figure, section_path=path(figure.section_path)) if figure.block in orders else figure
        for figure in document.figures
    )
    return replace(document, blocks=tuple(blocks), figures=tuple(figures))
