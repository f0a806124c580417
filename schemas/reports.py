"""What commands and pages show of a corpus, a version, a document or an installation."""

from datetime import datetime
from typing import Annotated, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from schemas.base import Frozen
from schemas.documents import CellSpan, FoundBy, Furniture, Role
from schemas.errors import Failure
from schemas.evidence import CellSpans, CitedFigure, CitedRegion, Links
from schemas.filters import FieldType, Modality
from schemas.gates import GateResult
from schemas.geometry import Box
from schemas.retrieval import ListedPreset
from schemas.versions import Counts, Override, PlanSummary


class SearchPreset(ListedPreset):
    """A preset that a corpus can be searched by."""

    takes_picture: bool = Field(False, description="Whether it accepts a query picture, alone or with words.")


class DocumentSummary(Frozen):
    """A document; ``rows`` are all of its rows, with tables, figures and pages."""

    doc_id: str
    sources: list[str]
    pages: int = Field(description="The number of its last page, counted from 1.")
    title: str = ""
    size: int = Field(0, description="Bytes of the PDF.")
    date: str | None = Field(None, description="The day in the PDF: when it was changed last, or else made.")
    language: str | None = Field(None, description="In ISO 639-1, else 639-3; null if it is not known.")
    rows: int = 0
    tables: int = 0
    figures: int = 0
    links: Links = {}


class DocumentInfo(DocumentSummary):
    """A document, and the version that it is from."""

    version: str


class Facet(Frozen):
    """A field of the corpus's own, for the filter ``where``."""

    name: str
    title: str
    type: FieldType
    values: dict[str, int] = Field(
        {}, description="Documents by value, the most frequent first, where the corpus file makes it a facet; at most 50."
    )


class CorpusOverview(Frozen):
    """What the live version of a corpus holds; zero and empty while none is live."""

    name: str
    version: str | None = Field(None, description="The live version; null while none is.")
    since: datetime | None = Field(None, description="When it went live.")
    documents: int = 0
    partly_read: int = Field(0, description="Those of which pages can't be read, now or in the bytes that replace them.")
    pages: int = 0
    figures: int = 0
    rows: int = 0
    languages: dict[str, int] = Field(
        {}, description="Documents by language, in ISO 639-1, of those whose language is known."
    )
    doc_types: dict[str, int] = Field({}, description="Documents by type, of those to which the corpus file gives one.")
    fields: list[Facet] = Field([], description="Fields of the corpus's own, which the filter where compares.")
    modalities: list[Modality] = Field([], description="What its rows are.")
    sources: list[str] = Field([], description="Sources of its documents, for completing a filter; may be cut short.")
    presets: list[SearchPreset] = Field([], description="How it can be searched; the first is the default.")
    problem: str = Field("", description="Why it can't be searched now, in one line; empty when it can.")


Item = TypeVar("Item")

Label = Annotated[str | None, Field(description="What is printed on the page, if that is not its number.")]


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
    page: int | None = Field(description="Page of its first row; null if only its sections have any.")
    label: Label = None
    rows: int = Field(description="Rows directly in it.")
    links: Links = {}


class DocumentPage(Frozen):
    """A page of a document, with the number of rows that stand on it."""

    page: int = Field(description="From 1.")
    label: Label = None
    rows: int = 0
    tables: int = 0
    figures: int = 0
    links: Links = {}


class BrowsedRow(Frozen):
    """A row of the index. ``page`` and ``bbox`` are the first of ``regions``, in points from the top left."""

    evidence_id: str
    modality: Modality
    doc_id: str
    source: str
    title: str
    page: int
    bbox: Box
    regions: list[CitedRegion]
    section_path: list[str]
    text: str
    tagged_text: str
    rows: list[list[str]] = Field(description="A table's cells, its header first; [] for what isn't a table.")
    spans: CellSpans = []
    figure_refs: list[str]
    figures: list[CitedFigure]
    figure_id: str | None
    caption: str
    date: str | None
    links: Links = {}


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
    bbox: Box
    caption: str
    section_path: list[str]
    lines: int = Field(description="Lines of cells, the header among them.")
    columns: int
    links: Links = {}


class TableInfo(TableSummary):
    """A table with its cells, its header first."""

    version: str
    rows: list[list[str]]
    spans: CellSpans = []


class FigureSummary(Frozen):
    """A figure where it is placed; the same pixels may be placed more than once."""

    figure_id: str
    role: Role
    number: str | None = Field(description="The number of its tag, which content and icons have.")
    caption: str
    doc_id: str
    source: str
    page: int
    bbox: Box
    width: int | None = Field(description="In pixels.")
    height: int | None
    links: Links = {}


class FigureContext(FigureSummary):
    """A placement of a figure with its neighbours in reading order."""

    row: BrowsedRow | None = Field(description="The figure's own row, or else the first that shows or mentions it.")
    before: list[BrowsedRow]
    after: list[BrowsedRow]


class InspectedFigure(Frozen):
    """A placement on a page; ``tag`` is null for roles without one.

    ``step`` is the text beside a figure without caption, and the list that explains its callouts; ``words`` are those
    inside it.
    """

    tag: str | None
    figure_id: str | None
    bbox: Box
    role: str
    kind: str
    caption: str
    step: str
    words: str
    reason: str


class InspectedRegion(Frozen):
    """The part of a table on one page; ``found_by`` names what found it."""

    page: int
    bbox: Box
    found_by: FoundBy


class InspectedTable(Frozen):
    """A table, on the page where it begins; ``regions`` are on all its pages.

    ``rows`` include the header, ``spans`` are those cells over several columns or rows. ``html`` is escaped but for tags.
    """

    bbox: Box
    caption: str
    header: list[str]
    rows: list[list[str]]
    spans: list[CellSpan]
    markdown: str
    html: str
    regions: list[InspectedRegion]


class InspectedFurniture(Frozen):
    """What a page has besides its content, such as a running head; it is left out of rows and of search."""

    role: Furniture
    bbox: Box
    text: str


class InspectedHeading(Frozen):
    """A section that begins on a page; ``node_id`` is its node's."""

    level: int
    title: str
    node_id: int


class InspectedPage(Frozen):
    """A page: its tagged text in reading order, its figures, its furniture, and the tables and sections that begin on it.

    ``label`` is what is printed on the page, or what the PDF calls it; null if that is its number.
    """

    page: int
    label: str | None
    width_pt: float
    height_pt: float
    tagged_text: str
    figures: list[InspectedFigure]
    tables: list[InspectedTable]
    outline: list[InspectedHeading]
    furniture: list[InspectedFurniture]


class InspectedDocument(Frozen):
    """A PDF as Inset reads it; ``contents`` is its evidence tree as a table of contents."""

    doc_id: str
    source: str
    contents: str
    pages: list[InspectedPage]
    failures: list[Failure]


class Finding(Frozen):
    """A check of the installation, and how to repair what failed. A warning works, and wants a decision of a person."""

    subject: str
    ok: bool
    message: str
    remedy: str = ""
    warning: bool = False


class Diagnosis(Frozen):
    """Everything that ``inset doctor`` looked at."""

    ok: bool
    findings: list[Finding]


class ChangedDocuments(Frozen):
    """Changed sources. ``lost`` were indexed before and are in quarantine now; ``recovered`` the other way.

    ``quarantined`` are all that are in quarantine now.
    """

    added: list[str]
    changed: list[str]
    removed: list[str]
    lost: list[str]
    recovered: list[str]
    quarantined: list[str] = []


class ChangedFigure(Frozen):
    """A tagged figure in only one of the versions, at its first placement."""

    figure_id: str
    tag: str
    source: str
    page: int
    caption: str


class ChangedQuestions(Frozen):
    """Golden questions of both versions: ``won`` find their page only now, ``lost`` only before."""

    asked: int
    won: list[str]
    lost: list[str]


class NumberChange(Frozen):
    """A number in both versions; None if one lacks it."""

    before: float | None
    now: float | None


class VersionDiff(Frozen):
    """The differences from ``base`` to ``version``; if ``base`` is None everything is new."""

    corpus: str
    base: str | None
    version: str
    documents: ChangedDocuments
    figures_gained: list[ChangedFigure] = Field(description="By source and page, the first 10,000 of them.")
    figures_lost: list[ChangedFigure] = Field(description="By source and page, the first 10,000 of them.")
    more_figures_gained: int = Field(0, description="How many were gained beside those that are named.")
    more_figures_lost: int = Field(0, description="How many were lost beside those that are named.")
    questions: ChangedQuestions
    complaints: tuple[int, int] | None = Field(
        None, description="How many golden questions made of feedback are answered, and of how many; null for none."
    )
    metrics: dict[str, NumberChange] = Field(description="Of the golden questions, by the default preset.")
    counts: dict[str, NumberChange] = Field(description="What the versions hold.")
    work: dict[str, NumberChange] = Field(description="What it took to make them: documents and pictures done, seconds.")
    settings: dict[str, list[object]] = Field(description="Models and parameters that differ: before and now.")


VersionState = Literal["live", "previous", "ready", "refused", "unfinished", "damaged"]


class VersionRow(Frozen):
    """A version with its state; numbers are null where they can't be read."""

    version: str
    state: VersionState = Field(
        description="'live', 'previous' (live before), 'ready' (gates hold), 'refused' by a gate or a person, 'unfinished', or "
        "'damaged' (its manifest can't be read)."
    )
    created: datetime = Field(description="When it was finished; when it was begun, where it isn't.")
    parent: str | None = None
    documents: int | None = None
    quarantined: int | None = None
    rows: int | None = None
    refusals: list[str] = Field([], description="Why it is refused, or what is damaged.")
    override: Override | None = Field(None, description="Who published it although it was refused, and why.")

    @property
    def publishable(self) -> bool:
        """Whether an operator may make it live, with an override where it was refused."""
        return self.state in ("previous", "ready", "refused")


class VersionList(Frozen):
    """A corpus's versions, newest first."""

    corpus: str
    live: str | None
    previous: str | None = Field(None, description="The version that was live before.")
    held: bool
    problem: str | None = Field(None, description="Why the live version is unknown, and what to do.")
    versions: list[VersionRow]


class PruneResult(Frozen):
    """What no kept version needs; ``removed`` says whether it is deleted already."""

    corpus: str
    removed: bool
    versions: list[str]
    objects: dict[str, int] = Field(description="Objects by the folder that they lie in.")
    records: dict[str, int] = Field(description="Records of caches by the cache's folder.")
    bytes: int = Field(
        0, description="Stored bytes of versions and objects, with index files that kept versions share, without records."
    )


class ForgetResult(Frozen):
    """Documents that are deleted, or would be; ``removed`` says whether it is done."""

    corpus: str
    removed: bool
    documents: list[str] = Field(description="Digests of their bytes.")
    sources: list[str] = Field(description="Where kept versions had them from.")
    versions: list[str] = Field(
        description="Versions to remove, newest first: they hold or name them, or share files with one that does or that is gone."
    )
    replaced: str | None = Field(None, description="The live one among them, in whose place a new version goes live.")
    version: str | None = Field(None, description="That new version.")
    pinned: list[str] = Field([], description="Those of them that retention.pinned names; they go all the same.")
    kept: list[str] = Field([], description="Versions that stay, newest first: without any there is none to roll back to.")
    objects: dict[str, int] = Field({}, description="Objects that were deleted, by the folder that they lay in.")
    records: dict[str, int] = Field({}, description="Records of caches that were deleted, by the cache's folder.")


class RefreshResult(Frozen):
    """The result of a refresh."""

    version: str | None
    published: bool
    plan: PlanSummary
    counts: Counts
    gates: list[GateResult]
    failures: list[Failure]
    timings_s: dict[str, float]


class SourceAccess(Frozen):
    """Who may read a source, and why."""

    source: str
    doc_id: str
    principals: list[str] = Field(description="Who may read it now; none: nobody but administrators.")
    why: str = Field(description="What says so: a line of the table, the file beside it, or the entry point.")
    next_principals: list[str] | None = Field(description="Who may once the rights are applied again; null: the same.")


class AccessReport(Frozen):
    """The current rights of a corpus: who applied them when, and the sources that were asked for."""

    corpus: str
    at: datetime
    by: str
    documents: int = Field(description="Documents of all kept versions.")
    sources: list[SourceAccess]
