"""How evidence is found for a question: a plan of steps, as data.

A preset is a plan with a name; ``tasks/answering/presets`` holds those that Inset brings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas.corpus import LEXICAL_FIELDS, Section, Share, Text, Weight
from schemas.evidence import NO_FILTERS, Filters, Modality
from schemas.models import DEFAULT_SPACE

MOST_ROWS = 1000
"""Rows that a step may ask for."""

Rows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Name = Annotated[Text, Field(min_length=1, max_length=60)]


class _Step(Section):
    """What a search must know of each step before it is done: the models and the spaces that its keys name."""

    @property
    def models(self) -> list[str]:
        """Those of ``retrieval.models`` that it asks: its ``model``, where it has such a key."""
        return self._named("model")

    @property
    def spaces(self) -> list[str]:
        """The spaces that it compares vectors in: its ``space``; the default one may be asked unnamed, as each version has it."""
        return self._named("space")

    def _named(self, key: str) -> list[str]:
        return [getattr(self, key)] if key in type(self).model_fields else []


class _Retriever(_Step):
    """What every retriever has: the rows that it looks at, and those of them that it gives.

    Attributes:
        asked_at_once: Whether it is asked in a thread of its own, beside others: it puts a question to the engine and asks no
            generative model, which belongs to the thread of its search.
        is_lexical: Whether it counts as words, and not as meaning, where two kinds are weighed.
        stands_alone: Whether it gives rows for most questions, so that it can be judged by itself.
    """

    asked_at_once: ClassVar[bool] = True
    is_lexical: ClassVar[bool] = False
    stands_alone: ClassVar[bool] = True
    by: str

    filters: Filters = Field(NO_FILTERS, description="Rows that it looks at, beside what the request is narrowed to.")
    k: Rows | None = Field(None, description="Rows that it gives at most; as many as a fusion needs where none is given.")
    floor: float | None = Field(None, description="The score below which a row is left out, in the retriever's own scale.")
    asks: Literal["question", "evidence"] = Field(
        "question", description="What it looks for; evidence: the question with the best text found by those before it."
    )

    @property
    def title(self) -> str:
        """What a trace calls it."""
        return self.by

    @property
    def preset_name(self) -> str:
        """What it is called where it is all that is asked."""
        return self.by


class Words(_Retriever):
    """Rows that share words with the question, by BM25."""

    is_lexical = True
    by: Literal["bm25"]
    weights: dict[str, Weight] | None = Field(
        None, min_length=1, description="Fields, and how much each counts; none: ranking.weights of the corpus file."
    )
    stop_words: Literal["english"] | list[Text] | None = Field(
        None, description="Words left out of the question; none: ranking.stop_words of the corpus file."
    )

    @field_validator("weights")
    @classmethod
    def _known(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        if unknown := sorted(set(weights or {}) - set(LEXICAL_FIELDS)):
            raise ValueError(f"BM25 can't look in {', '.join(unknown)}; known here: {', '.join(LEXICAL_FIELDS)}")
        return weights


class Vectors(_Retriever):
    """Rows whose vectors are near to the question's: by cosine, or by late interaction where a row has many."""

    by: Literal["dense"]
    space: Name = Field(
        DEFAULT_SPACE, description="Whose vectors; /v1/corpora/{corpus}/presets says which ones a version has or lacks."
    )

    @property
    def title(self) -> str:
        """Its kind and its space."""
        return f"{self.by} {self.space}"

    @property
    def preset_name(self) -> str:
        """Its space, which is a preset's name for most; its kind in the default one."""
        return self.by if self.space == DEFAULT_SPACE else self.space


class Sections(_Retriever):
    """Rows of the sections that a generative model picks from the table of contents of the documents looked at."""

    asked_at_once = False
    by: Literal["sections"]
    model: Name = Field("llm", description="One of retrieval.models.")
    order: Literal["sections", "nearness"] = Field(
        "sections", description="How its rows are ranked: section after section as they were picked, or by meaning."
    )


class Places(_Retriever):
    """Rows where the question says to look: on a page that it names, or of a figure or table by its number.

    Both mean something inside a document only, so it gives rows where the search is narrowed to documents, and all alike.
    """

    asked_at_once = False
    stands_alone = False
    by: Literal["places"]


Retriever = Annotated[Words | Vectors | Sections | Places, Field(discriminator="by")]


class Describe(_Step):
    """Have a vision-language model describe the picture that is asked by; what it writes is added to the words."""

    model: Name = Field("vlm", description="One of retrieval.models, which sees pictures.")


class Rewrite(_Step):
    """Have a generative model put the question into the words that documents use."""

    model: Name = Field("llm", description="One of retrieval.models.")


class Expand(Section):
    """Look for what terms of the question are made of, too: a measure's parts stand in documents, its name may not."""

    glossary: Literal["finance"] = Field(description="Which terms: finance has the measures of annual reports.")


class ChangedDocumentStep(Section):
    """Which documents are looked at, otherwise than in a preset: what is left out stays as it is."""

    by: Retriever | None = Field(None, description="What ranks rows; needed where the preset looks in all documents.")
    k: Rows = Field(3, description="Documents kept.")
    reranked_by: Name | None = Field(
        None, description="One of retrieval.models that orders the documents anew, by their titles."
    )


class DocumentStep(ChangedDocumentStep, _Step):
    """Which documents are looked at: those whose rows rank best."""

    by: Retriever = Field(description="What ranks rows; a document counts by the ranks of its rows.")

    @property
    def models(self) -> list[str]:
        """Those that rank rows, and the one that orders documents."""
        return [*self.by.models, *([self.reranked_by] if self.reranked_by else [])]

    @property
    def spaces(self) -> list[str]:
        """Those of its retriever."""
        return self.by.spaces


class Fuse(Section):
    """How several rankings become one. What is left out is as ``ranking`` of the corpus file has it."""

    method: Literal["rrf", "weighted", "shares", "in_turn"] | None = Field(
        None,
        description="By rank (rrf), by scores brought to one scale (weighted), by their shares of each ranking's best score "
        "(shares), or one ranking behind the other (in_turn).",
    )
    rrf_k: int | None = Field(None, gt=0, le=1_000_000, description="Rank offset of reciprocal rank fusion.")
    weights: list[Weight] | None = Field(None, description="What each retriever counts, in their order.")


class Nearness(_Step):
    """Rank candidates by how near their vectors are to the question's, whichever retriever found them."""

    by: Literal["nearness"]
    space: Name = DEFAULT_SPACE
    pool: Rows = Field(50, description="Candidates that are looked at; the others keep their order behind them.")


class Judged(_Step):
    """Have a generative model order the best candidates."""

    by: Literal["llm"]
    model: Name = Field("llm", description="One of retrieval.models.")
    pool: Rows = Field(20, description="Candidates that it is shown; the others keep their order behind them.")


class Scored(_Step):
    """Rank candidates by a model that reads question and passage together, or token by token."""

    by: Literal["cross_encoder", "late"]
    model: Name | None = Field(None, description="One of retrieval.models; none: that of the kind's name.")
    pool: Rows = Field(50, description="Candidates that are looked at; the others keep their order behind them.")

    @property
    def models(self) -> list[str]:
        """The one that it names, or that of the kind's name."""
        return [self.model or self.by]


class Pages(_Step):
    """Rank pages, each by its best row and by the question's words on it; further rows of a page come behind its first.

    A page is judged by the rows of it that are looked at.
    """

    by: Literal["pages"]
    pool: Rows = Field(100, description="Candidates that are looked at; the others keep their order behind them.")
    words: Annotated[float, Field(ge=0, le=100)] = Field(
        0.15, description="What the words of a page count; its best row counts 1."
    )
    further: Share = Field(
        0.7, description="What each further row of a page keeps of its score, times that of the one before."
    )


Reranker = Annotated[Nearness | Judged | Scored | Pages, Field(discriminator="by")]


class Select(Section):
    """Which of the ranked rows are given."""

    k: Rows | None = Field(None, description="Rows given at most, where a request asks for no number.")
    quota: dict[Modality, Annotated[int, Field(ge=0, le=MOST_ROWS)]] = Field(
        {}, description="Rows of a modality at most; a modality that isn't named gives none, where any is."
    )
    floor: float | None = Field(None, description="The score below which a row isn't given.")
    diversity: Share | None = Field(
        None, description="How far rows must differ from those above (MMR); none: as ranking.diversity of the corpus file."
    )
    pool: Rows = Field(200, description="Rows that diverse ones are chosen from.")


class Steps(Section):
    """The steps of a plan, in the order in which they run; what is left out doesn't happen."""

    describe: Describe | None = Field(None, description="Add a description of the picture to the words.")
    rewrite: Rewrite | None = Field(None, description="Put the question into other words.")
    expand: Expand | None = Field(None, description="Look for more words than the question has.")
    documents: DocumentStep | None = Field(None, description="Look in the best documents only.")
    retrieve: list[Retriever] = Field(min_length=1, max_length=10, description="What is asked of the index.")
    fuse: Fuse = Fuse()
    rerank: list[Reranker] = Field([], max_length=5, description="Order the best candidates anew, step after step.")
    select: Select = Select()

    @model_validator(mode="after")
    def _weighed(self) -> "Steps":
        if self.fuse.weights is not None and len(self.fuse.weights) != len(self.retrieve):
            raise ValueError(f"fuse.weights has {len(self.fuse.weights)} numbers for {len(self.retrieve)} retrievers")
        return self

    @property
    def retrievers(self) -> Iterator[Retriever]:
        """All that ask the index, in the order in which they do."""
        if self.documents is not None:
            yield self.documents.by
        yield from self.retrieve

    @property
    def spaces(self) -> list[str]:
        """The spaces that they need, each once."""
        return list(dict.fromkeys(name for step in self._in_order for name in step.spaces))

    @property
    def looks_at_pages_alone(self) -> bool:
        """Whether a retriever finds nothing in a version without rows of whole pages."""
        return any(one.filters.modalities == [Modality.PAGE] for one in self.retrievers)

    @property
    def models(self) -> list[str]:
        """The names of the models that they need of ``retrieval.models``, each once."""
        return list(dict.fromkeys(name for step in self._in_order for name in step.models))

    @property
    def _in_order(self) -> Iterator[_Step]:
        yield from (step for step in (self.describe, self.rewrite, self.documents) if step is not None)
        yield from self.retrieve
        yield from self.rerank


class ChangedSteps(Section):
    """Steps of a preset that are otherwise for one request: what a step leaves out stays as it is; a list is taken whole."""

    describe: Describe | None = None
    rewrite: Rewrite | None = None
    expand: Expand | None = None
    documents: ChangedDocumentStep | None = None
    retrieve: list[Retriever] | None = Field(None, min_length=1, max_length=10)
    fuse: Fuse | None = None
    rerank: list[Reranker] | None = Field(None, max_length=5)
    select: Select | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What is otherwise, as a preset's file would have it; null takes away a step that a plan may lack, and no other."""
        return {
            name: step
            for name, step in self.model_dump(exclude_unset=True).items()
            if step is not None or Steps.model_fields[name].default is None
        }


class Preset(Steps):
    """A plan with a name.

    Attributes:
        name: What callers name it by; that of its file.
        label: What people see of it.
        sentence: What it does, in a few words for people, without a full stop.
        source: Which paper or page it is from; "" where it is Inset's own.
    """

    name: Annotated[Name, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    label: Name
    sentence: Text
    source: Text = ""


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PresetInfo(_Result):
    """A preset as it is listed."""

    name: str
    label: str
    sentence: str
    source: str = Field("", description="Which paper or page it is from; empty where it is Inset's own.")
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

    Attributes:
        text: What to search for; "" to search by picture alone.
        picture: An encoded picture, for presets that search by pictures.
        preset: A retrieval preset; None for the default.
        steps: Steps of the preset to override, as in a preset file.
        k: Maximum hits; None for the preset's number.
        offset: Hits to skip.
        filters: Which rows to search.
        version: None for the live version.
        group_by: Return the best hit of each group; ``k`` and ``offset`` then count groups.
        highlight: Mark the sentence of each hit that is nearest in meaning.
        trace: Report what each step did.
    """

    text: str
    picture: bytes | None = None
    preset: str | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)
    k: int | None = None
    offset: int = 0
    filters: Filters = NO_FILTERS
    version: str | None = None
    group_by: GroupBy | None = None
    highlight: bool = False
    trace: bool = False


@dataclass(frozen=True)
class AnswerQuery:
    """A request for an answer.

    Attributes:
        text: The question.
        answer: An answer preset; None for the default.
        settings: Settings of the answer preset to override.
        picture: An encoded picture that goes with the question.
        preset: A retrieval preset; None for that of the answer preset, or else the default.
        steps: Steps of the retrieval preset to override.
        filters: Which rows to answer from.
        version: None for the live version.
        trace: Report what each step did.
    """

    text: str
    answer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    picture: bytes | None = None
    preset: str | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)
    filters: Filters = NO_FILTERS
    version: str | None = None
    trace: bool = False
