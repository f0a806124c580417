"""What Inset makes of a single PDF or of a version's figures, and what is wrong with an installation: results of commands."""

from pydantic import BaseModel, ConfigDict, Field

from schemas.errors import Failure
from schemas.versions import Spent


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InspectedFigure(_Model):
    """A placement on a page; ``tag`` is null where its role gets none.

    ``step`` is the text that a figure without a caption stands by, and the list that explains its callouts; ``words`` are
    those inside it.
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


class InspectedRegion(_Model):
    """A part of a page."""

    page: int
    bbox: tuple[float, float, float, float]


class InspectedTable(_Model):
    """A table, on the page where it begins; ``regions`` names every page that it stands on.

    ``rows`` hold the header too, as their first. ``html`` is escaped, tags excepted: they stand in their cells as they do
    in the text.
    """

    bbox: tuple[float, float, float, float]
    caption: str
    header: list[str]
    rows: list[list[str]]
    markdown: str
    html: str
    regions: list[InspectedRegion]


class InspectedHeading(_Model):
    """A section that begins on a page; ``node_id`` is its number in the document's contents."""

    level: int
    title: str
    node_id: int


class InspectedPage(_Model):
    """A page: its text in reading order with tags, its figures, the tables and the sections that begin on it."""

    page: int
    width_pt: float
    height_pt: float
    tagged_text: str
    figures: list[InspectedFigure]
    tables: list[InspectedTable]
    outline: list[InspectedHeading]


class InspectedDocument(_Model):
    """A PDF as Inset takes it in; ``contents`` is its evidence tree as a table of contents, with the ids of its nodes."""

    doc_id: str
    source: str
    contents: str
    pages: list[InspectedPage]
    failures: list[Failure]


class Finding(_Model):
    """One thing that was looked at, and how to repair it where it isn't well."""

    subject: str
    ok: bool
    message: str
    remedy: str = ""


class Diagnosis(_Model):
    """Everything that ``inset doctor`` looked at."""

    ok: bool
    findings: list[Finding]


class CaptionSheet(_Model):
    """A contact sheet that was written, and what a version comes to, that included which it has no room for."""

    version: str
    file: str
    figures: int
    pages: int = Field(description="Those that anybody was to describe.")
    texts: int = Field(description="Those that anybody was to describe.")
    shown: int
    flagged: int
    described_by: dict[str, int]
    flags: dict[str, int]
    spent: dict[str, Spent] = Field(description="What their descriptions cost when they were made, by captioner.")
    unmatched: list[str] = Field(description="Corrections that are of nothing in the version, by their lines.")
