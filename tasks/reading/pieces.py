"""Blocks in the making."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.documents import BlockKind, Line, Page, Placement, TablePart, TableRegion
from schemas.figure_labels import Label
from schemas.geometry import BBox, union
from tasks.reading.join import join_lines
from tasks.reading.place import Passage
from tasks.tables.rows import upright


@dataclass(frozen=True, slots=True)
class Piece:
    """A block in the making. ``text`` is set where something else than ``lines`` makes it; a table's is under its ``caption``."""

    kind: BlockKind
    page: int
    bbox: BBox
    lines: tuple[Line, ...] = ()
    text: str = ""
    placement: Placement | None = None
    caption: str = ""
    label: Label | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[TablePart, ...] = ()
    level: int | None = None
    step: tuple[Line, ...] = ()

    @property
    def words(self) -> str:
        """The text, its wrapped lines joined; a heading is one line, its number included."""
        text = self.text or join_lines(self.lines)
        return " ".join(text.split()) if self.kind is BlockKind.HEADING else text


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page's share of a parsed document."""

    page: Page
    lines: tuple[Line, ...]
    placements: tuple[Placement, ...]
    tables: tuple[TableRegion, ...]


def of_lines(piece: Piece, lines: Sequence[Line]) -> Piece:
    """Return the part of a piece that some of its lines make."""
    return replace(piece, lines=tuple(lines), bbox=union(line.bbox for line in lines))


def passage_of(piece: Piece, page: Page) -> Passage:
    """Return a piece as its reader sees it, to find what stands beside it and between it and the next."""
    lines = (
        tuple(line._replace(bbox=upright(line.bbox, page.rotation)) for line in piece.lines) if may_be_cut(piece) else ()
    )
    return Passage(upright(piece.bbox, page.rotation), lines, piece.kind is BlockKind.HEADING)


def may_be_cut(piece: Piece) -> bool:
    """Return whether something may be set between two lines of a piece: of text alone, neither of captions nor of tables."""
    return piece.kind is BlockKind.TEXT and not piece.text


def letters_of_text(text: str) -> str:
    """Return a text without all that two spellings of it may differ in: case, spaces and punctuation."""
    return re.sub(r"\W+", "", text).casefold()
