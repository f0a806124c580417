"""A document: as its pages hold it (parsed), and as a reader takes it in (structured).

Records are frozen dataclasses, and lines, of which a document has many, named tuples; Parquet schemas are derived from
them. Coordinates are those of ``schemas.geometry``; pages count from 1, orders from 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

from schemas.geometry import BBox

BBOX = pa.list_(pa.float64(), 4)


class Kind(StrEnum):
    """The form in which a PDF holds a figure."""

    RASTER = "raster"
    VECTOR = "vector"
    COMPOSITE = "composite"
    SCAN = "scan"


class Role(StrEnum):
    """The role of a placement. Only content and icons get tags."""

    CONTENT = "content"
    ICON = "icon"
    DECORATIVE = "decorative"
    BACKGROUND = "background"
    PAGE_SCAN = "page_scan"


TAGGED = frozenset({Role.CONTENT, Role.ICON})


class BlockKind(StrEnum):
    """The kind of a block."""

    TEXT = "text"
    CODE = "code"
    FOOTNOTE = "footnote"
    HEADING = "heading"
    CAPTION = "caption"
    TABLE = "table"
    FIGURE = "figure"
    MARGIN = "margin"


class Furniture(StrEnum):
    """The role of a margin block: what a page has besides its content; entries of a table of contents are ``CONTENTS``."""

    HEAD = "head"
    FOOT = "foot"
    PAGE_NUMBER = "page_number"
    STAMP = "stamp"
    WATERMARK = "watermark"
    LINE_NUMBER = "line_number"
    CONTENTS = "contents"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: crop box applied, rotation recorded but not applied to coordinates."""

    page: int
    width_pt: float
    height_pt: float
    rotation: int
    characters: int

    @property
    def box(self) -> BBox:
        """The page from its top left."""
        return BBox(0, 0, self.width_pt, self.height_pt)


class LayoutLabel(StrEnum):
    """What a layout model calls a block, in its own words."""

    TEXT = "text"
    ITEM = "list-item"
    HEADING = "section-header"
    TITLE = "title"
    CAPTION = "caption"
    TABLE = "table"
    PICTURE = "picture"
    FORMULA = "formula"
    FOOTNOTE = "footnote"
    HEAD = "page-header"
    FOOT = "page-footer"


@dataclass(frozen=True, slots=True)
class PageRegion:
    """A block that a layout model sees on a page: its box and those of its lines.

    ``rows`` and ``columns`` are the edges between the rows and the columns of a table as its reader sees it, outermost ones
    left out.
    """

    bbox: BBox
    label: LayoutLabel
    lines: tuple[BBox, ...]
    rows: tuple[float, ...] = ()
    columns: tuple[float, ...] = ()


NO_FONT = "GlyphLess"
"""Beginning of the name of a font of hidden words behind a scan, which says nothing of the letters that are seen."""


class Line(NamedTuple):
    """A line of text, escaped; ``block`` numbers its paragraph, item or heading on the page, in reading order.

    ``inside`` is the order of the placement that the line is part of, such as a vector drawing's label; ``mono``: its letters are
    all as wide, as a program's are; ``label`` is a layout model's name of the block, None if none ran; ``font`` that of nearly
    all letters, "" if there are several.
    """

    page: int
    block: int
    bbox: BBox
    text: str
    size: float
    bold: bool
    inside: int | None = None
    mono: bool = False
    label: LayoutLabel | None = None
    font: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture identified by its pixels. ``sha1`` digests the same bytes as ``figure_id`` and gives the tag its number."""

    figure_id: str
    sha1: str
    width: int
    height: int
    ext: str


@dataclass(frozen=True, slots=True)
class Placement:
    """One occurrence of a figure; ``order`` counts the document's placements.

    ``figure_id`` is None if there are no pixels (too large, a background); ``reason`` explains that, or the role. ``raw_sha1``
    digests the embedded stream if the figure is exactly one image.
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
    """An entry of the PDF's outline; ``level`` counts from 1, ``y`` is None for an entry that names only a page."""

    level: int
    title: str
    page: int
    y: float | None


class FoundBy(StrEnum):
    """What a table was found by: rules or boxes of cells, or a layout model with or without rules."""

    RULED = "ruled"
    RULED_LAYOUT = "ruled_layout"
    LAYOUT = "layout"


@dataclass(frozen=True, slots=True)
class CellSpan:
    """A cell over several columns or rows: the place of its text, counted from 0; the other cells that it covers are ""."""

    row: int
    column: int
    rowspan: int
    colspan: int


@dataclass(frozen=True, slots=True)
class TableRegion:
    """A table's cells, escaped; "" is an empty cell, or one that a span covers."""

    page: int
    bbox: BBox
    rows: tuple[tuple[str, ...], ...]
    found_by: FoundBy
    spans: tuple[CellSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """The picture of a page (document's id, slash, number), by its figure's id; None if it is blank, or can't be drawn."""

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
    """A part of a document that can't be read while the rest can; becomes a ``Failure``."""

    page: int | None
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The content of a PDF before any model has run.

    ``date`` is the document's own, such as 2024-03-31; ``labels`` are the PDF's page labels, () if they are the numbers.
    ``doubts`` say why the file may be cut or damaged.
    ``pdf`` names the PDF in the store that it was converted into; None if its bytes are one.
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
    doubts: tuple[str, ...] = ()
    pdf: str | None = None


@dataclass(frozen=True, slots=True)
class RecognisedLine:
    """A line of words read off pixels; ``bbox`` in pixels of the picture.

    ``turn`` is how its writing is turned in the picture of a page, in degrees clockwise: 0, 90, 180 or 270; ``skew`` by how
    many degrees more the page is turned, of which ``bbox`` is the box around it.
    """

    bbox: BBox
    text: str
    score: float
    turn: int = 0
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class Recognised:
    """The words recognised in one picture, or the failure."""

    id: str
    lines: tuple[RecognisedLine, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class TableOnPage:
    """The part of a table on one page: its box, and its number of rows without a repeated header."""

    page: int
    bbox: BBox
    rows: int
    found_by: FoundBy


@dataclass(frozen=True, slots=True)
class Block:
    """A run of text, a table or a figure, in reading order.

    ``text`` has a placeholder for each figure; a table's is Markdown, under its caption. ``placement`` is the order of a
    figure block's placement, and for a caption that of its figure. ``level`` is a heading's, or the depth of a list item.
    ``mentions`` are figure ids that the text refers to. ``rows``, ``parts`` and ``spans`` are a table's; one over several pages
    is one block, on its first. ``furniture`` is a margin's role; None for a notice or caption that a continued table repeats.
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
    parts: tuple[TableOnPage, ...] = ()
    spans: tuple[CellSpan, ...] = ()
    furniture: Furniture | None = None


class NodeKind(StrEnum):
    """The kind of a node of the evidence tree: a section, or a leaf."""

    SECTION = "section"
    TEXT = "text"
    TABLE = "table"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a document's evidence tree. Ids count from 1 in reading order.

    ``parent_id`` is None without a heading above. ``title`` is a section's heading, or a table's or figure's caption, else
    "". ``block`` is the order of the block with the content (of a section, its first), ``figure_id`` an image's.
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
    """A tagged placement with its text in the document.

    ``block`` is the order of the block with its tag. A figure without caption has a ``step``: the adjacent paragraph, list
    item or table row, and the list that explains its callouts; ``stands_by`` are their blocks.
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

    ``placements`` are all of the document's, tagged or not; ``pictures`` their figures. ``labels`` are the PDF's page labels, or
    else those printed on the pages; () if they are the numbers. ``pdf`` is as in ``ParsedDocument``.
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
    pdf: str | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page."""

    page: int
    bbox: BBox


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of blocks that is one row of evidence; ``text`` without and ``tagged_text`` with placeholders.

    ``figure_id`` and ``placement`` are set for the row of a single figure; its ``text`` is "" until it is composed.
    ``rows`` are a table's cells, header first, ``spans`` those of them over several columns or rows.
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
    spans: tuple[CellSpan, ...] = ()


SAME_SIZE_PT = 0.3
"""Maximum difference of equal font sizes. Without it 10 of 50 right-to-left pages get worse."""

LARGEST_WITHIN_PT = 0.5
"""Maximum difference to a page's largest font size. At 1, 2 of 56 titles get worse."""


def is_same_size(first_pt: float, second_pt: float) -> bool:
    """Return whether two font sizes, in points, are equal within ``SAME_SIZE_PT``."""
    return abs(first_pt - second_pt) <= SAME_SIZE_PT


def lines_in(box: BBox, lines: Sequence[Line]) -> list[Line]:
    """Return the lines whose middle lies in a box."""
    return [line for line in lines if box.has_middle_of(line.bbox)]


def largest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines in the largest font size: on a first page, its title."""
    size = max((line.size for line in lines), default=0.0)
    return [line for line in lines if line.size > size - LARGEST_WITHIN_PT]
