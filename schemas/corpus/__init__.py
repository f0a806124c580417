"""The corpus file: everything a corpus is, in one YAML document, validated.

Only ``name`` and ``source`` are required. Unknown keys are errors, so that a typing mistake never passes as a default.
Each module holds the sections that it names.
"""

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from schemas.base import Address, FolderName, Location, Section, Share, Source, Text, Variable, Workers, combined_address
from schemas.corpus.documents import (
    RESERVED,
    TITLE,
    AccessOptions,
    MetadataOptions,
    OwnField,
    Supersedes,
)
from schemas.corpus.models import (
    CONTEXT,
    PERSON,
    CaptionOptions,
    EmbeddingModels,
    EmbeddingOptions,
    ModelEntry,
    embedding_models,
)
from schemas.corpus.operations import GateOptions, OperationOptions, RayOptions, RetentionOptions, Spend
from schemas.filters import FieldName
from schemas.ids import CORPUS_NAME
from schemas.models import MINILM, MULTILINGUAL, NONE
from schemas.tags import CANONICAL, DIGITS_DEFAULT, DIGITS_MOST, NAMED_TEMPLATES, TagTemplate

Layout = Literal["never", "every_page"]
"""The pages on which the layout model runs."""


class ParseOptions(Section):
    """How PDFs are read, and how much one document may cost."""

    timeout_s: float = Field(
        120,
        gt=0,
        le=1e6,
        description="Seconds one document may take, and one more for each page, before it goes to quarantine.",
    )
    memory_mb: int = Field(2048, ge=256, le=1 << 24, description="Memory one parse process may take, in MiB.")
    max_pages: int = Field(10_000, ge=1, le=1_000_000, description="Pages beyond which a document goes to quarantine.")
    layout: Layout = Field(
        "every_page",
        description="Pages on which PyMuPDF's layout model tells paragraphs, list items, headings and tables apart, at 0.2 "
        "CPU-seconds each. Rules read the others.",
    )
    passwords_env: Variable | None = Field(
        None, description="Environment variable with passwords to try on encrypted documents, one a line."
    )
    workers: Workers | None = Field(None, description="Parse processes at once; default: one a CPU core.")
    shard_mb: float = Field(64, gt=0, le=1e6, description="Bytes of PDF one shard holds about, in MiB.")


class TagOptions(Section):
    """How tags are spelled."""

    template: Text = Field(
        CANONICAL,
        description="The spelling of a tag: canonical, paper, or one's own with {number} and any of {ext}, {width}, {height}, "
        "{kind}, {role}, {doc}, {title}, {page}, {bbox}.",
    )
    digits: int = Field(DIGITS_DEFAULT, ge=4, le=DIGITS_MOST, description="Digits of a tag's number before widening.")
    pdf: bool = Field(False, description="Make a copy of each PDF in which every figure's tag is written at its place.")

    @field_validator("template")
    @classmethod
    def _spelled(cls, template: str) -> str:
        return TagTemplate(NAMED_TEMPLATES.get(template, template)).template


class ChunkOptions(Section):
    """How documents are cut into rows."""

    tokens: int = Field(220, ge=32, le=8192, description="Tokens of the embedder one chunk may hold.")
    by: Literal["sections", "pages"] = Field(
        "sections",
        description="What text is grouped by. pages: whole consecutive pages as long as they fit, as in the code of Beyond Text; "
        "a page that doesn't fit alone is cut. Tables and figures have rows of their own either way.",
    )

    def shape(self) -> dict[str, object]:
        """Return what distinguishes chunks from others; a default that came later is left out."""
        return {"tokens": self.tokens} if self.by == "sections" else self.model_dump()


class IndexOptions(Section):
    """The engine of the index."""

    engine: Literal["lancedb", "weaviate"] = Field("lancedb", description="'lancedb' (embedded), or 'weaviate' (a server).")
    url: Address | None = Field(None, description="Address of the Weaviate server, such as http://localhost:8080.")
    grpc_port: int = Field(50051, ge=1, le=65535, description="Port of the server's gRPC service, on the same host.")
    api_key_env: Variable | None = Field(
        None, description="Environment variable with the server's API key, if it wants one."
    )
    replicas: int = Field(1, ge=1, le=1000, description="Weaviate: nodes that each row is kept on.")
    collections: int = Field(
        2,
        ge=2,
        le=1000,
        description="Weaviate: versions that the server holds, the live one included; rolling back to another brings one of "
        "these collections back to it first.",
    )

    def shape(self) -> dict[str, object]:
        """Return what distinguishes one collection from another; ports and keys don't."""
        if self.engine == "lancedb":
            return {"engine": self.engine}
        return {"engine": self.engine, "url": self.url, "replicas": self.replicas}

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        advice = "use http://host:port or https://host:port"
        parts = urlsplit(url or "http://unset")
        try:
            _ = parts.port
        except ValueError as error:  # what it says holds what stands there
            raise ValueError(advice) from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(advice)
        if parts.query or parts.fragment:
            raise ValueError(advice)
        return url and url.rstrip("/")

    @model_validator(mode="after")
    def _placed(self) -> "IndexOptions":
        if self.engine == "weaviate" and self.url is None:
            raise ValueError("engine weaviate needs a url, such as http://localhost:8080")
        if self.url is not None and urlsplit(self.url).port == self.grpc_port:
            raise ValueError("url and grpc_port name the same port; the gRPC service has one of its own, 50051 by default")
        return self


class Collection(IndexOptions):
    """Where a version's collection is, as its manifest records it; obsolete keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    collection: str | None = Field(
        None,
        exclude_if=lambda name: name is None,
        description="Its name in the engine, if it was brought forward; null: that of its version.",
    )
    forwarded_from: str | None = Field(
        None, exclude_if=lambda name: name is None, description="The version whose collection was brought forward."
    )
    is_taken: bool = Field(
        False,
        exclude_if=lambda is_taken: not is_taken,
        description="Whether its rows are in the store alone: its collection became another version's, or was dropped.",
    )
    languages: list[str] = Field([], description="Those of its documents, by which questions are analysed.")


DEFAULT_PRESET = "pages"
"""The default preset."""


class RetrievalOptions(Section):
    """Presets of search."""

    preset: Text = Field(DEFAULT_PRESET, description="The default preset; gates judge a version by it.")
    presets: Location | None = Field(
        None, description="A folder of presets of one's own, a YAML file each, beside those packaged."
    )
    synonyms: list[Annotated[list[Text], Field(min_length=2)] | Annotated[dict[Text, Text], Field(min_length=1)]] = Field(
        [],
        description="Wordings that mean the same: of a list, such as [ATC, automatic tool changer], each stands for the others; "
        "of a mapping, such as {torque wrench: tool}, the first for the second alone. A question is asked with both.",
    )


class PinnedAnswer(Section):
    """An answer of one's own, given to questions that mean the same."""

    questions: list[Text] = Field(min_length=1, max_length=50, description="Wordings of the question.")
    answer: str = Field(
        min_length=1,
        max_length=20_000,
        description="Markdown: [SOURCE, page N] cites a page of a document, a tag shows a figure.",
    )


class AnswerOptions(Section):
    """How questions are answered."""

    preset: Text | None = Field(
        None,
        description="The answer preset of requests that name none; default: written where model is set, else extractive.",
    )
    presets: Location | None = Field(None, description="A folder of your own answer presets, a YAML file each.")
    model: Text | None = Field(
        None,
        description="The generative one of models that writes answers in place of a preset's own; a preset that sends pictures "
        "keeps its own unless this one sees.",
    )
    context_chars: int = Field(24_000, ge=500, le=10_000_000, description="Characters of passages a model is sent at most.")
    abstain_below: Share | None = Field(
        None,
        description="Confidence below which there is no answer; default: as calibrated when the version was evaluated.",
    )


class Corpus(Section):
    """A corpus file.

    ``source``, ``store`` and ``questions`` are resolved against the file's folder when the file is loaded; here they are
    absolute paths or ``s3://`` addresses.
    """

    name: str = Field(description="The corpus's name: a-z, 0-9 and _, starting with a letter, at most 40 characters.")
    source: Source = Field("", description="A folder, a glob such as docs/**/*.pdf, or s3://bucket/prefix.")
    sources: dict[FolderName, Source] = Field(
        {},
        description="Several sources in place of 'source', by name: the names of their documents begin with that of their "
        "source, as in handbooks/pump.pdf. A source that can't be listed whole is an error of all.",
    )
    store: Location | None = Field(
        None, description="Where everything is kept: a folder or s3://bucket/prefix; default: .inset/store beside corpora/."
    )
    schedule: Text | None = Field(None, description="When Airflow refreshes: a cron expression or @daily; none: by hand.")
    questions: Location | None = Field(None, description="Golden questions, a JSONL file.")
    experiment: Text = Field(
        "presets", description="A packaged experiment or a file .yaml: gates.metrics name its metrics, and Airflow runs it."
    )
    doc_types: dict[Text, Text] = Field(
        {},
        description="Types of documents by a glob of their sources, such as manuals/*: manual; the first that fits. Searches "
        "can be narrowed by type, and experiments give their results by type.",
    )
    access: AccessOptions | None = Field(
        None, description="Who may read which document; without it, who may search the corpus may read all of it."
    )
    fields: dict[FieldName, OwnField] = Field(
        {}, description="Fields of your own, by name: facts of each document, such as its product or revision."
    )
    metadata: MetadataOptions = MetadataOptions()
    supersedes: Supersedes | None = Field(
        None, description="Which revision replaces which; searches leave replaced documents out unless asked for."
    )
    models: dict[Text, ModelEntry] = Field(
        {},
        description="The models, each by a name of its own, that captions, embeddings, answer, experiments and steps of presets "
        "name.",
    )
    parse: ParseOptions = ParseOptions()
    tags: TagOptions = TagOptions()
    captions: CaptionOptions = CaptionOptions()
    embeddings: EmbeddingOptions = EmbeddingOptions()
    ray: RayOptions = RayOptions()
    chunks: ChunkOptions = ChunkOptions()
    index: IndexOptions = IndexOptions()
    retrieval: RetrievalOptions = RetrievalOptions()
    answer: AnswerOptions = AnswerOptions()
    answers: list[PinnedAnswer] = Field(
        [],
        max_length=500,
        description="Answers that are given to questions which mean the same, in place of what a search finds; marked as pinned.",
    )
    gates: GateOptions = GateOptions()
    budget: Spend = Spend()
    retention: RetentionOptions = RetentionOptions()
    operations: OperationOptions = OperationOptions()

    @property
    def source_address(self) -> str:
        """The address of the source, or of all sources."""
        return self.source or combined_address(self.sources)

    @model_validator(mode="after")
    def _has_source(self) -> "Corpus":
        if (not self.source) == (not self.sources):
            raise ValueError("name the folder or address of the documents in 'source', or several by name in 'sources'")
        return self

    @property
    def embedding_models(self) -> EmbeddingModels:
        """The models that the section embeddings names."""
        return embedding_models(self.models, self.embeddings)

    @property
    def gpus(self) -> int:
        """GPUs that the models of enrich ask for at most at once: each model's actors run alone, and ``auto`` asks for none."""
        embedders = self.embedding_models
        entries = [embedders.text, embedders.tables, embedders.image, embedders.late]
        entries += [self.models.get(name) for name in self.captions.named.values()]
        gpu_counts = [
            entry.gpu_share * (entry.workers or 1)
            for entry in entries
            if entry is not None and entry.endpoint is None and entry.gpu_share != "auto"
        ]
        return math.ceil(max(gpu_counts, default=0))

    @model_validator(mode="after")
    def _named_models(self) -> "Corpus":
        if reserved_names := sorted({CONTEXT, PERSON, NONE, MINILM, MULTILINGUAL} & set(self.models)):
            raise ValueError(f"models: {reserved_names[0]!r} means something else; give the model another name")
        captioners = [name for name, entry in self.models.items() if entry.kind.writes]
        for key, name in self.captions.named.items():
            known_names = captioners if key == "summaries" else [CONTEXT, *captioners]
            if name not in known_names:
                raise ValueError(
                    f"captions.{key}: there is no captioner {name!r}; known here: {', '.join(known_names) or 'none'}"
                )
        embedding_models(self.models, self.embeddings)
        return self

    def doc_type(self, sources: Iterable[str]) -> str | None:
        """Return the type of a document: that of the first glob that fits one of its sources; None if none does."""
        source_names = [*sources]
        fitting = (
            kind for glob, kind in self.doc_types.items() if any(fnmatchcase(source, glob) for source in source_names)
        )
        return next(fitting, None)

    @model_validator(mode="after")
    def _known_fields(self) -> "Corpus":
        if reserved := sorted(set(RESERVED).intersection(self.fields)):
            raise ValueError(f"fields: {reserved[0]} is the name of something else; choose another")
        field_names = [("metadata.path", name) for name in self.metadata.path_fields]
        if self.supersedes is not None:
            field_names += [("supersedes.by", name) for name in self.supersedes.by if name != TITLE]
            newest = self.fields.get(self.supersedes.newest)
            if newest is None or newest.type not in ("number", "date"):
                raise ValueError(f"supersedes.newest: {self.supersedes.newest} is no number or date of 'fields'")
        for key, name in field_names:
            if name not in self.fields:
                raise ValueError(f"{key}: there is no field {name}; known here: {', '.join(self.fields) or 'none'}")
        return self

    @field_validator("name")
    @classmethod
    def _spelled(cls, name: str) -> str:
        if not CORPUS_NAME.fullmatch(name):
            raise ValueError("use a-z, 0-9 and _ only, start with a letter, at most 40 characters")
        return name

    @field_validator("schedule")
    @classmethod
    def _cron(cls, schedule: str | None) -> str | None:
        from croniter import croniter

        presets = {"@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "@continuous", "@once"}
        if schedule is not None and schedule not in presets and not (" " in schedule and croniter.is_valid(schedule)):
            raise ValueError(f"use a cron expression of five fields or one of {', '.join(sorted(presets))}")
        return schedule
