"""What is known of one document: as its pages hold it (parsed), and as a reader takes it in (structured).

Each noun is a frozen dataclass, and lines, of which a document has a hundred thousand, are named tuples; its Arrow schema stands
beside it and is what Parquet files hold. Coordinates are those of ``schemas.geometry``; pages count from 1, orders from 0.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

from schemas.geometry import BBox

BBOX = pa.list_(pa.float64(), 4)


class Kind(StrEnum):
    """What a PDF made a figure of."""

    RASTER = "raster"
    VECTOR = "vector"
    COMPOSITE = "composite"
    SCAN = "scan"


class Role(StrEnum):
    """What a placement is to a reader. Only content and icons get tags."""

    CONTENT = "content"
    ICON = "icon"
    DECORATIVE = "decorative"
    BACKGROUND = "background"
    PAGE_SCAN = "page_scan"


TAGGED = frozenset({Role.CONTENT, Role.ICON})


class BlockKind(StrEnum):
    """What a block of a page is."""

    TEXT = "text"
    HEADING = "heading"
    CAPTION = "caption"
    TABLE = "table"
    FIGURE = "figure"
    MARGIN = "margin"


@dataclass(frozen=True, slots=True)
class Page:
    """A page as drawn: crop box applied, rotation recorded but not applied to coordinates."""

    page: int
    width_pt: float
    height_pt: float
    rotation: int
    characters: int


class Line(NamedTuple):
    """A line of text of a page; ``block`` is that of the PDF reader, in the order of the page's content.

    ``text`` is escaped: no line holds a tag or a placeholder. ``inside`` is the order of the placement in whose picture
    the line stands (a vector drawing's labels), or None.
    """

    page: int
    block: int
    bbox: BBox
    text: str
    size: float
    bold: bool
    inside: int | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture by its pixels. ``sha1`` digests the same bytes as ``figure_id`` and gives the tag its number."""

    figure_id: str
    sha1: str
    width: int
    height: int
    ext: str


@dataclass(frozen=True, slots=True)
class Placement:
    """One occurrence of a figure.

    ``figure_id`` is None where the pixels could not or need not be had (too large, lying, a background); ``reason`` says
    why a placement has its role, or no pixels. ``order`` is its place among the placements of its document. ``raw_sha1``
    is the digest of the embedded stream where the figure is exactly one image.
    """

    page: int
    order: int
    bbox: BBox
    figure_id: str | None
    kind: Kind
    role: Role
    reason: str
    raw_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """An entry of the PDF's own outline; ``level`` counts from 1, ``y`` is None where the entry names only a page."""

    level: int
    title: str
    page: int
    y: float | None


@dataclass(frozen=True, slots=True)
class TableRegion:
    """A table's cells as the page holds them; a cell is "" where empty, its text escaped."""

    page: int
    bbox: BBox
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """The picture of a page, by its figure's id; None where the page is blank, or can't be drawn for the reason given.

    ``id`` is the document's, a slash, and the page's number.
    """

    id: str
    figure_id: str | None
    code: str | None = None
    message: str | None = None

    @property
    def page(self) -> int:
        """The page's number."""
        return int(self.id.rpartition("/")[2])


def drawn_page_id(doc_id: str, page: int) -> str:
    """Name the record of a page's picture."""
    return f"{doc_id}/{page}"


@dataclass(frozen=True, slots=True)
class PageFailure:
    """Something of a document that could not be read, while the rest could; becomes a ``Failure``."""

    page: int | None
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What the pages of one PDF hold; no model has run.

    ``date`` is the one that it names itself, such as 2024-03-31, and ``labels`` what it calls each page, such as iv; () where
    that is each page's number.
    """

    doc_id: str
    title: str
    pages: tuple[Page, ...]
    lines: tuple[Line, ...]
    figures: tuple[Figure, ...]
    placements: tuple[Placement, ...]
    tables: tuple[TableRegion, ...] = ()
    outline: tuple[OutlineEntry, ...] = ()
    failures: tuple[PageFailure, ...] = ()
    date: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecognisedLine:
    """A line of words read off pixels; ``bbox`` in pixels of the picture."""

    bbox: BBox
    text: str
    score: float


class RegionKind(StrEnum):
    """What a layout model takes a part of a page for."""

    FIGURE = "figure"
    TABLE = "table"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class LayoutRegion:
    """What a layout model found on the picture of a page; ``bbox`` in pixels of the picture."""

    bbox: BBox
    kind: RegionKind
    score: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A figure, or the picture of a table, cut out of the picture of a page; ``region`` says from where."""

    region: LayoutRegion
    figure: Figure


@dataclass(frozen=True, slots=True)
class Recognised:
    """What was read off one picture, or why it could not be."""

    id: str
    lines: tuple[RecognisedLine, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Segmented:
    """What was cut out of the picture of one page, or why it could not be."""

    id: str
    segments: tuple[Segment, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class TablePart:
    """What of a table stands on one page: its cells' box, and how many of the table's rows, a repeated header not counted."""

    page: int
    bbox: BBox
    rows: int


@dataclass(frozen=True, slots=True)
class Block:
    """A run of text, a table or a figure, at its place in reading order.

    ``text`` carries a placeholder where a figure stands; a table's is Markdown, under its caption where it has one.
    ``placement`` is the placement's order for a figure block, and for a caption block that of the figure it belongs to.
    ``mentions`` are figure ids that the text speaks of. ``rows`` and ``parts`` are a table's: a table that goes on over
    the page is one block, on the page where it begins.
    """

    order: int
    page: int
    kind: BlockKind
    bbox: BBox
    text: str
    section_path: tuple[str, ...] = ()
    level: int | None = None
    placement: int | None = None
    mentions: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[TablePart, ...] = ()


class NodeKind(StrEnum):
    """What a node of the evidence tree is: a section, or a leaf."""

    SECTION = "section"
    TEXT = "text"
    TABLE = "table"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a document's evidence tree. Ids count from 1 as the tree is read: the same document, the same ids.

    ``parent_id`` is None for what stands under no heading. ``title`` is a section's heading, a table's or a figure's
    caption, and "" otherwise. ``block`` is the order of the block that holds the content (of a section, its first), and
    ``figure_id`` that of an image.
    """

    node_id: int
    parent_id: int | None
    kind: NodeKind
    title: str
    page: int
    bbox: BBox
    block: int
    figure_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedFigure:
    """A tagged placement with what the document says of it.

    ``block`` is the order of the block that holds its tag. Where no caption speaks of it, ``step`` is the text that it stands
    by, such as a paragraph, an item of a list or a table's row; the list that explains its callouts follows. ``stands_by`` are
    the orders of the blocks that hold both.
    """

    placement: Placement
    caption: str
    section_path: tuple[str, ...]
    inner_text: str
    block: int
    step: str = ""
    stands_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StructuredDocument:
    """A document as a reader takes it in: blocks in reading order, and its tagged figures.

    ``placements`` are all that the document has, tagged or not, and ``pictures`` the figures that they place.
    """

    doc_id: str
    title: str
    pages: tuple[Page, ...]
    blocks: tuple[Block, ...]
    figures: tuple[PlacedFigure, ...]
    placements: tuple[Placement, ...] = ()
    pictures: tuple[Figure, ...] = ()
    failures: tuple[PageFailure, ...] = field(default=())
    date: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page."""

    page: int
    bbox: BBox


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of blocks that is one row of evidence; ``text`` without and ``tagged_text`` with placeholders.

    ``figure_id`` and ``placement``, the placement's order, are those of a figure that has the row for itself; its ``text`` is ""
    until it is composed. ``rows`` are a table's cells as ``tagged_text`` has them, its header first.
    """

    order: int
    modality: str
    regions: tuple[Region, ...]
    section_path: tuple[str, ...]
    text: str
    tagged_text: str
    figure_refs: tuple[str, ...]
    caption: str = ""
    figure_id: str | None = None
    placement: int | None = None
    rows: tuple[tuple[str, ...], ...] = ()
