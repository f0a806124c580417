"""The overview of a corpus that the service returns."""

from datetime import datetime

from pydantic import Field

from schemas.evidence import Links, Modality
from schemas.frozen import Frozen
from schemas.retrieval import ListedPreset


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
    language: str | None = Field(None, description="In ISO 639-1, else 639-3; null where it is not known.")
    rows: int = 0
    tables: int = 0
    figures: int = 0
    links: Links = Field({})


class DocumentInfo(DocumentSummary):
    """A document, and the version that it is from."""

    version: str


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
    modalities: list[Modality] = Field([], description="What its rows are.")
    suggestions: list[str] = Field([], description="Questions to start with, such as the corpus's golden ones.")
    sources: list[str] = Field([], description="Sources of its documents, for completing a filter; may be cut short.")
    presets: list[SearchPreset] = Field([], description="How it can be searched; the first is the default.")
    problem: str = Field("", description="Why it can't be searched now, in one line; empty when it can.")
