"""Retrieval plans: the steps of a search, as data. A preset is a plan with a name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from schemas.base import Frozen, Section, Share, Text, Weight
from schemas.filters import NO_FILTERS, Filters, Modality
from schemas.models import DEFAULT_SPACE

MOST_ROWS = 1000
"""Maximum number of rows of a step."""

MOST_SEEN = 20
"""Maximum number of candidates whose pictures a model sees."""

Rows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Name = Annotated[Text, Field(min_length=1, max_length=60)]
StopWord = Annotated[Text, Field(max_length=100)]

LEXICAL_FIELDS = ("search_text", "title", "section_path", "text", "caption")
"""Fields that BM25 may search; ``search_text`` is title, section and text in one."""


def _lexical(weights: dict[str, float]) -> dict[str, float]:
    if unknown := sorted(set(weights) - set(LEXICAL_FIELDS)):
        raise ValueError(f"BM25 can't look in {', '.join(unknown)}; known here: {', '.join(LEXICAL_FIELDS)}")
    return weights


FieldWeights = Annotated[dict[str, Weight], Field(min_length=1), AfterValidator(_lexical)]


class _Part(Section):
    """A part of a plan, which takes numbers and truth values as they are, and never reads them from text."""

    model_config = ConfigDict(strict=True)


class _Step(_Part):
    """A step, with the models and spaces that it needs."""

    @property
    def models(self) -> list[str]:
        """The names of the corpus file's models that it uses."""
        return self._named("model")

    @property
    def spaces(self) -> list[str]:
        """The spaces that it compares vectors in; the default one, which each version has, may be omitted."""
        return self._named("space")

    def _named(self, key: str) -> list[str]:
        return [getattr(self, key)] if key in type(self).model_fields else []


class _Retriever(_Step):
    """A retriever: the rows that it searches, and those that it returns.

    Attributes:
        runs_in_thread: Whether it runs in parallel with others; generative models belong to the thread of their search.
        stands_alone: Whether it finds rows for most questions, so that it can be evaluated alone.
    """

    runs_in_thread: ClassVar[bool] = True
    stands_alone: ClassVar[bool] = True
    by: str

    filters: Filters = Field(NO_FILTERS, description="Filters, in addition to the request's.")
    k: Rows | None = Field(None, description="Maximum number of rows; default: as many as the fusion needs.")
    floor: float | None = Field(None, description="Minimum score, in the retriever's own scale.")
    asks: Literal["question", "evidence"] = Field(
        "question",
        description="What it searches for; evidence: the question with the best text found by earlier retrievers.",
    )

    @property
    def title(self) -> str:
        return self.by

    @property
    def preset_name(self) -> str:
        """The name of a preset with this retriever alone."""
        return self.by


class Words(_Retriever):
    """BM25: rows that share words with the question."""

    by: Literal["bm25"]
    weights: FieldWeights = Field(
        {"search_text": 1.0},
        description=f"How much each field counts, of {', '.join(LEXICAL_FIELDS)}; search_text is title, section and text in one.",
    )
    stop_words: Literal["english"] | Annotated[list[StopWord], Field(max_length=1_000)] = Field(
        [], description="Words left out of the question."
    )


class Vectors(_Retriever):
    """Rows with the nearest vectors, by cosine or late interaction."""

    by: Literal["dense"]
    space: Name = Field(
        DEFAULT_SPACE, description="Whose vectors; /v1/corpora/{corpus}/presets says which ones a version has or lacks."
    )

    @property
    def title(self) -> str:
        """Kind and space."""
        return f"{self.by} {self.space}"

    @property
    def preset_name(self) -> str:
        """The space; the kind for the default one."""
        return self.by if self.space == DEFAULT_SPACE else self.space


class Sections(_Retriever):
    """Rows of the sections that a generative model picks from the contents of the nearest documents."""

    runs_in_thread = False
    by: Literal["sections"]
    model: Name = Field("llm", description="A model of the corpus file.")
    order: Literal["sections", "nearness"] = Field(
        "sections", description="How its rows are ranked: section after section as they were picked, or by meaning."
    )


class Places(_Retriever):
    """Rows on the pages, and of the figures and tables, that the question names by number.

    They exist inside documents only, so it returns rows only if the search is restricted to documents, all with equal
    scores.
    """

    runs_in_thread = False
    stands_alone = False
    by: Literal["places"]


Retriever = Annotated[Words | Vectors | Sections | Places, Field(discriminator="by")]


class Describe(_Step):
    """Add a vision-language model's description of the query picture to the words."""

    model: Name = Field("vlm", description="A model of the corpus file, which sees pictures.")


class Rewrite(_Step):
    """Have a generative model rephrase the question in the words of documents."""

    model: Name = Field("llm", description="A model of the corpus file.")


class ChangedDocumentStep(_Part):
    """An overridden step of documents; keys that are omitted keep their values."""

    by: Retriever | None = Field(None, description="What ranks rows; required if the preset has no such step.")
    k: Rows = Field(3, description="Documents kept.")
    reranked_by: Name | None = Field(
        None, description="A model of the corpus file that orders the documents again, by their titles."
    )


class DocumentStep(ChangedDocumentStep, _Step):
    """Restrict the search to the documents whose rows rank best."""

    by: Retriever = Field(description="What ranks rows; a document counts by the ranks of its rows.")

    @property
    def models(self) -> list[str]:
        """The models that rank rows, and the one that orders documents."""
        return [*self.by.models, *([self.reranked_by] if self.reranked_by else [])]

    @property
    def spaces(self) -> list[str]:
        """The retriever's spaces."""
        return self.by.spaces


class Fuse(_Part):
    """How rankings are merged."""

    method: Literal["rrf", "shares", "in_turn"] = Field(
        "rrf",
        description="By rank (rrf), by their shares of each ranking's best score (shares), or one ranking behind the other "
        "(in_turn).",
    )
    rrf_k: int = Field(60, gt=0, le=1_000_000, description="Rank offset of reciprocal rank fusion.")
    weights: list[Weight] | None = Field(
        None, max_length=10, description="What each retriever counts, in their order; none: all count alike."
    )


class Nearness(_Step):
    """Rerank candidates by the similarity of their vectors to the question's."""

    by: Literal["nearness"]
    space: Name = DEFAULT_SPACE
    pool: Rows = Field(50, description="Candidates that are reranked; the others keep their order behind them.")


class Judged(_Step):
    """Have a generative model order the best candidates."""

    by: Literal["llm"]
    model: Name = Field("llm", description="A model of the corpus file.")
    pool: Rows = Field(20, description="Candidates that it is shown; the others keep their order behind them.")


class Seen(_Step):
    """Have a vision-language model order the best candidates; it sees the pictures of figures and pages."""

    by: Literal["vlm"]
    model: Name = Field("vlm", description="A model of the corpus file, which sees pictures.")
    pool: Annotated[int, Field(ge=1, le=MOST_SEEN)] = Field(
        8, description="Candidates that it is shown; the others keep their order behind them."
    )


class Scored(_Step):
    """Rerank candidates by a cross-encoder or by late interaction."""

    by: Literal["cross_encoder", "late"]
    model: Name | None = Field(None, description="A model of the corpus file; none: that of the kind's name.")
    pool: Rows = Field(50, description="Candidates that are reranked; the others keep their order behind them.")

    @property
    def models(self) -> list[str]:
        """The one that it names, or that of the kind's name."""
        return [self.model or self.by]


class Pages(_Step):
    """Rank page by page: by the best row, and by the question's words on the page; a page's further rows come later.

    Only the candidates of a page are examined.
    """

    by: Literal["pages"]
    pool: Rows = Field(100, description="Candidates that are reranked; the others keep their order behind them.")
    words: Annotated[float, Field(ge=0, le=100)] = Field(
        0.15, description="What the words of a page count; its best row counts 1."
    )
    further: Share = Field(
        0.7, description="What each further row of a page keeps of its score, times that of the one before."
    )


Reranker = Annotated[Nearness | Judged | Seen | Scored | Pages, Field(discriminator="by")]


class Select(_Part):
    """Which of the ranked rows are returned."""

    k: Rows | None = Field(None, description="Maximum number of rows if the request has none.")
    floor: float | None = Field(None, description="Minimum score of a row.")
    diversity: Share = Field(0.0, description="How far rows must differ from those above (MMR): 0 not at all, 1 above all.")
    pool: Rows = Field(200, description="Rows that diverse ones are chosen from.")


class Steps(_Part):
    """The steps of a plan, in the order in which they run; omitted ones are skipped."""

    describe: Describe | None = Field(None, description="Add a description of the picture to the words.")
    rewrite: Rewrite | None = Field(None, description="Put the question into other words.")
    documents: DocumentStep | None = Field(None, description="Search in the best documents only.")
    retrieve: list[Retriever] = Field(min_length=1, max_length=10, description="The retrievers.")
    fuse: Fuse = Fuse()
    rerank: list[Reranker] = Field([], max_length=5, description="Rerankers, one after another.")
    select: Select = Select()

    @model_validator(mode="after")
    def _weighed(self) -> "Steps":
        if self.fuse.weights is not None and len(self.fuse.weights) != len(self.retrieve):
            raise ValueError(f"fuse.weights has {len(self.fuse.weights)} numbers for {len(self.retrieve)} retrievers")
        return self

    @property
    def retrievers(self) -> Iterator[Retriever]:
        """All retrievers, in the order in which they run."""
        if self.documents is not None:
            yield self.documents.by
        yield from self.retrieve

    @property
    def spaces(self) -> list[str]:
        """The spaces that the plan needs, each once."""
        return list(dict.fromkeys(name for step in self._in_order for name in step.spaces))

    @property
    def searches_only_pages(self) -> bool:
        """Whether a retriever needs rows of whole pages."""
        return any(retriever.filters.modalities == [Modality.PAGE] for retriever in self.retrievers)

    @property
    def models(self) -> list[str]:
        """The names of the corpus file's models that the plan needs, each once."""
        return list(dict.fromkeys(name for step in self._in_order for name in step.models))

    @property
    def _in_order(self) -> Iterator[_Step]:
        yield from (step for step in (self.describe, self.rewrite, self.documents) if step is not None)
        yield from self.retrieve
        yield from self.rerank


class ChangedSteps(_Part):
    """Overridden steps of a preset for one request: omitted keys keep their values; lists are replaced."""

    describe: Describe | None = None
    rewrite: Rewrite | None = None
    documents: ChangedDocumentStep | None = None
    retrieve: list[Retriever] | None = Field(None, min_length=1, max_length=10)
    fuse: Fuse | None = None
    rerank: list[Reranker] | None = Field(None, max_length=5)
    select: Select | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The overrides, as a preset's file would have them; null removes an optional step, and is ignored for others."""
        return {
            name: step
            for name, step in self.model_dump(exclude_unset=True).items()
            if step is not None or Steps.model_fields[name].default is None
        }


class NamedPreset(Section):
    """The names of a preset.

    Attributes:
        name: The identifier; the stem of its file.
        label: The name shown to people.
        sentence: What it does, in a few words, without a full stop.
        source: The paper or page that it comes from; "" for Inset's own.
    """

    name: Annotated[Name, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    label: Name
    sentence: Text
    source: Text = ""


class Preset(NamedPreset, Steps):
    """A plan with a name."""


class ListedPreset(Frozen):
    """What every listing says of a preset."""

    name: str
    label: str
    sentence: str
    source: str = Field("", description="The paper or page that it comes from; empty for Inset's own.")


class PresetInfo(ListedPreset):
    """A preset with its requirements and steps."""

    needs: list[str] = Field([], description="What a version must have for it, such as vectors image.")
    missing: list[str] = Field([], description="What this version lacks of that, each with the setting that brings it.")
    steps: Steps


class GroupBy(StrEnum):
    """What hits are grouped by."""

    PAGE = "page"
    DOCUMENT = "document"


@dataclass(frozen=True)
class Query:
    """A search request.

    ``query`` is "" to search by ``picture``, an encoded one, alone; ``preset`` None is the default, whose ``steps`` may be
    overridden as in a preset file; ``k`` None is the preset's number; ``version`` None is the live one. If ``group`` is given,
    ``k`` and ``offset`` count groups. ``highlight`` marks the question's words in each hit (None), its nearest sentence too
    (True), or nothing (False); ``trace`` reports what each step did.
    """

    query: str
    picture: bytes | None = None
    preset: str | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)
    k: int | None = None
    offset: int = 0
    filters: Filters = NO_FILTERS
    version: str | None = None
    group: GroupBy | None = None
    highlight: bool | None = None
    trace: bool = False


class Turn(Frozen):
    """A question that was answered before, and its answer."""

    question: str = Field(min_length=1, max_length=2_000)
    answer: str = Field("", max_length=8_000, description="The text of its answer; models read its beginning.")
    evidence_ids: list[str] = Field([], max_length=50, description="The rows that it cites, in its order.")


@dataclass(frozen=True)
class AnswerQuery:
    """A request for an answer; fields as of ``Query``.

    ``answer`` is an answer preset, None for the default, whose ``settings`` may be overridden; ``preset`` None is that of the
    answer preset, or else the default; ``history`` has the turns before a follow-up question, oldest first.
    """

    question: str
    answer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    picture: bytes | None = None
    preset: str | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)
    filters: Filters = NO_FILTERS
    version: str | None = None
    trace: bool = False
    history: Sequence[Turn] = ()
