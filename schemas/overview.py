"""The overview of a corpus that the service returns."""

from datetime import datetime

from pydantic import Field

from schemas.evidence import Modality
from schemas.frozen import Frozen
from schemas.retrieval import ListedPreset


class SearchPreset(ListedPreset):
    """A preset that a corpus can be searched by."""

    takes_picture: bool = Field(False, description="Whether it accepts a query picture, alone or with words.")


class DocumentInfo(Frozen):
    """A document of a version."""

    version: str
    doc_id: str
    sources: list[str]
    pages: int = Field(description="The number of its last page, counted from 1.")


class CorpusOverview(Frozen):
    """What the live version of a corpus holds; zero and empty while none is live."""

    name: str
    version: str | None = Field(None, description="The live version; null while none is.")
    since: datetime | None = Field(None, description="When it went live.")
    documents: int = 0
    pages: int = 0
    figures: int = 0
    rows: int = 0
    languages: dict[str, int] = Field(
        {}, description="Documents by language, in ISO 639-1, of those whose language is known."
    )
    modalities: list[Modality] = Field([], description="What its rows are.")
    suggestions: list[str] = Field([], description="Questions to start with, such as the corpus's golden ones.")
    sources: list[str] = Field([], description="Sources of its documents, for completing a filter; may be cut short.")
    presets: list[SearchPreset] = Field([], description="How it can be searched; the first is the default.")
    problem: str = Field("", description="Why it can't be searched now, in one line; empty when it can.")
