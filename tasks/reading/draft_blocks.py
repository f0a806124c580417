"""Blocks while they are put together, and the content of one page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.documents import BlockKind, CellSpan, Furniture, Line, Page, Placement, TableOnPage, TableRegion
from schemas.geometry import BBox, union
from schemas.text import CaptionLabel
from tasks.reading.code import code_text
from tasks.reading.join import join_lines
from tasks.reading.picture_places import TextBlock
from tasks.tables.rows import SOFT_HYPHEN, upright


@dataclass(frozen=True, slots=True)
class DraftBlock:
    """A block before it has its number. ``text`` is set if it isn't the text of ``lines``; a table's includes its caption.

    ``hyphenated`` are the document's words that keep their hyphen at the end of a line.
    """

    kind: BlockKind
    page: int
    bbox: BBox
    lines: tuple[Line, ...] = ()
    text: str = ""
    placement: Placement | None = None
    caption: str = ""
    label: CaptionLabel | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[TableOnPage, ...] = ()
    spans: tuple[CellSpan, ...] = ()
    level: int | None = None
    step: tuple[Line, ...] = ()
    furniture: Furniture | None = None
    hyphenated: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """The text with wrapped lines joined; a heading is one line, code has those of the page."""
        if self.kind is BlockKind.CODE:
            return code_text(self.lines)
        text = (self.text or join_lines(self.lines, hyphenated=self.hyphenated)).replace(SOFT_HYPHEN, "")
        return " ".join(text.split()) if self.kind is BlockKind.HEADING else text


@dataclass(frozen=True, slots=True)
class PageContent:
    """One page's share of a parsed document."""

    page: Page
    lines: tuple[Line, ...]
    placements: tuple[Placement, ...]
    tables: tuple[TableRegion, ...]


def with_lines(block: DraftBlock, lines: Sequence[Line]) -> DraftBlock:
    """Return the part of a block that has only some of its lines."""
    return replace(block, lines=tuple(lines), bbox=union(line.bbox for line in lines))


def text_block(block: DraftBlock, page: Page) -> TextBlock:
    """Return a block as the page's reader sees it, to place pictures by."""
    lines = (
        tuple(line._replace(bbox=upright(line.bbox, page.rotation)) for line in block.lines) if is_divisible(block) else ()
    )
    return TextBlock(upright(block.bbox, page.rotation), lines, block.kind is BlockKind.HEADING)


def is_divisible(block: DraftBlock) -> bool:
    """Return whether a picture may be inserted between two lines of a block: of text only, not of captions or tables."""
    return block.kind is BlockKind.TEXT and not block.text


def letters_of_text(text: str) -> str:
    """Return a text without case, spaces and punctuation, to compare spellings."""
    return re.sub(r"\W+", "", text).casefold()
