"""Results of commands: a single PDF, a version's figures, the state of an installation."""

from schemas.documents import CellSpan, FoundBy, Furniture
from schemas.errors import Failure
from schemas.frozen import Frozen


class InspectedFigure(Frozen):
    """A placement on a page; ``tag`` is null for roles without one.

    ``step`` is the text beside a figure without caption, and the list that explains its callouts; ``words`` are those
    inside it.
    """

    tag: str | None
    figure_id: str | None
    bbox: tuple[float, float, float, float]
    role: str
    kind: str
    caption: str
    step: str
    words: str
    reason: str


class InspectedRegion(Frozen):
    """The part of a table on one page; ``found_by`` names what found it."""

    page: int
    bbox: tuple[float, float, float, float]
    found_by: FoundBy


class InspectedTable(Frozen):
    """A table, on the page where it begins; ``regions`` are on all its pages.

    ``rows`` include the header, ``spans`` are those cells over several columns or rows. ``html`` is escaped but for tags.
    """

    bbox: tuple[float, float, float, float]
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
    bbox: tuple[float, float, float, float]
    text: str


class InspectedHeading(Frozen):
    """A section that begins on a page; ``node_id`` is its node's."""

    level: int
    title: str
    node_id: int


class InspectedPage(Frozen):
    """A page: its tagged text in reading order, its figures, its furniture, and the tables and sections that begin on it.

    ``label`` is what is printed on the page, or what the PDF calls it; null where that is its number.
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
