"""What a version holds, as lists that are read page by page."""

from typing import Annotated, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from schemas.evidence import CellSpans, CitedFigure, CitedRegion, Links, Modality
from schemas.frozen import Frozen

Item = TypeVar("Item")

Label = Annotated[str | None, Field(description="What is printed on the page, where that is not its number.")]
BoundingBox = tuple[float, float, float, float]


class ListPart(NamedTuple):
    """The part of a list to return: ``limit`` items after ``offset`` others."""

    offset: int = 0
    limit: int = 50

    @property
    def items(self) -> slice:
        """The places of the items in the list."""
        return slice(self.offset, self.offset + self.limit)


class Listing(Frozen, Generic[Item]):
    """A part of a list; ``total`` counts all of its items."""

    version: str
    total: int
    items: list[Item]
    next: str | None = Field(None, description="The cursor of what follows; null at the end.")


class OutlineSection(Frozen):
    """A section of a document."""

    path: list[str] = Field(description="Titles from the top, as filters.sections of a search takes them, joined by ' > '.")
    title: str
    level: int = Field(description="From 1.")
    page: int | None = Field(description="Page of its first row; null where only its sections have any.")
    label: Label = None
    rows: int = Field(description="Rows directly in it.")
    links: Links = Field({})


class DocumentPage(Frozen):
    """A page of a document, with the number of rows that stand on it."""

    page: int = Field(description="From 1.")
    label: Label = None
    rows: int = 0
    tables: int = 0
    figures: int = 0
    links: Links = Field({})


class BrowsedRow(Frozen):
    """A row of the index. ``page`` and ``bbox`` are the first of ``regions``, in points from the top left."""

    evidence_id: str
    modality: Modality
    doc_id: str
    source: str
    title: str
    page: int
    bbox: BoundingBox
    regions: list[CitedRegion]
    section_path: list[str]
    text: str
    tagged_text: str
    rows: list[list[str]] = Field(description="A table's cells, its header first; [] for what isn't a table.")
    spans: CellSpans = Field([])
    figure_refs: list[str]
    figures: list[CitedFigure]
    figure_id: str | None
    caption: str
    date: str | None
    links: Links = Field({})


class RowInfo(BrowsedRow):
    """A row, and the version that it is from."""

    version: str


class TableSummary(Frozen):
    """A table without its cells."""

    evidence_id: str
    doc_id: str
    source: str
    page: int
    label: Label = None
    bbox: BoundingBox
    caption: str
    section_path: list[str]
    lines: int = Field(description="Lines of cells, the header among them.")
    columns: int
    links: Links = Field({})


class TableInfo(TableSummary):
    """A table with its cells, its header first."""

    version: str
    rows: list[list[str]]
    spans: CellSpans = Field([])


class FigureSummary(Frozen):
    """A figure where it is placed; the same pixels may be placed more than once."""

    figure_id: str
    number: str = Field(description="The number of its tag.")
    caption: str
    doc_id: str
    source: str
    page: int
    bbox: BoundingBox
    width: int | None = Field(description="In pixels.")
    height: int | None
    links: Links = Field({})


class FigureContext(FigureSummary):
    """A placement of a figure with its neighbours in reading order."""

    row: BrowsedRow | None = Field(description="The figure's own row, or else the first that shows or mentions it.")
    before: list[BrowsedRow]
    after: list[BrowsedRow]


class RowChange(Frozen):
    """A row that only one of two versions has. One whose content changed is gone and added, with the same id."""

    change: Literal["gone", "added"]
    evidence_id: str
    doc_id: str
    links: Links = Field({})


class Changes(Listing[RowChange]):
    """The rows that differ between two versions: by document, and what is gone first."""

    since: str
