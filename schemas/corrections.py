"""Corrections by people of what was read from documents, as they are kept in the store."""

from datetime import datetime
from enum import StrEnum

from schemas.base import Frozen
from schemas.documents import BlockKind, Role
from schemas.geometry import Box
from schemas.ids import sha256


class CorrectionKind(StrEnum):
    """What of a figure (caption, description, role) or of a block (kind, title, cell) is corrected."""

    CAPTION = "caption"
    DESCRIPTION = "description"
    ROLE = "role"
    KIND = "kind"
    TITLE = "title"
    CELL = "cell"


OF_FIGURES = (CorrectionKind.CAPTION, CorrectionKind.DESCRIPTION, CorrectionKind.ROLE)

CHOICES: dict[CorrectionKind, tuple[str, ...]] = {
    CorrectionKind.ROLE: (Role.CONTENT, Role.DECORATIVE),
    CorrectionKind.KIND: (BlockKind.TEXT, BlockKind.HEADING, BlockKind.FOOTNOTE, BlockKind.MARGIN),
}
"""The values of kinds that take no text."""


class StoredCorrection(Frozen):
    """A correction of a figure or block of a document, which later readings of it get where the figure or block is still there.

    Attributes:
        source: The document's place in the source, by which its later revisions are known.
        doc_id: Its bytes when it was corrected.
        bbox: The figure's or block's box, in PDF points from the page's top left.
        figure_id: The figure; None of a block.
        text: The block's words as they were read, a table's caption and header before them.
        section: The titles above the block.
        is_only: Whether the document had the figure, or a block with these words, once.
        row: Of a cell, counted from 0; the header is row 0. -1 if no cell is corrected, as is ``column``.
        cell: The cell's words as they were read; ``labels`` are those of its row's first cell and of its column's head.
        undone: Who took it back or replaced it, and when, in words; "" where it holds.
    """

    at: datetime
    by: str
    reason: str = ""
    kind: CorrectionKind
    value: str
    source: str
    doc_id: str
    page: int
    bbox: Box
    figure_id: str | None = None
    text: str = ""
    section: tuple[str, ...] = ()
    is_only: bool = False
    row: int = -1
    column: int = -1
    cell: str = ""
    labels: tuple[str, str] = ("", "")
    undone: str = ""

    @property
    def id(self) -> str:
        """Eight digits by which people name it."""
        return sha256(self.model_dump_json(exclude={"undone"}).encode())[:8]


class StoredCorrections(Frozen):
    """All corrections of a corpus, oldest first; none is ever taken out but for a deleted document."""

    corrections: list[StoredCorrection] = []
