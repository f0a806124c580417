"""Sections index, retrieval, ranking and answer: how a corpus is searched and questions are answered."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from schemas.corpus.fields import Address, Location, Section, Share, Text, Variable, Weight
from schemas.corpus.models import ModelConfig, ScorerConfig
from schemas.corpus.operations import Spend


class IndexOptions(Section):
    """The engine of the index."""

    engine: Literal["lancedb", "weaviate"] = Field("lancedb", description="'lancedb' (embedded), or 'weaviate' (a server).")
    url: Address | None = Field(None, description="Address of the Weaviate server, such as http://localhost:8080.")
    grpc_port: int = Field(50051, ge=1, le=65535, description="Port of the server's gRPC service, on the same host.")
    api_key_env: Variable | None = Field(
        None, description="Environment variable with the server's API key, where it wants one."
    )
    exact: bool = Field(False, description="Weaviate: compare with every vector (a flat index) instead of HNSW.")
    replicas: int = Field(1, ge=1, le=1000, description="Weaviate: nodes that each row is kept on.")

    def shape(self) -> dict[str, object]:
        """Return what distinguishes one collection from another; ports and keys don't."""
        if self.engine == "lancedb":
            return {"engine": self.engine}
        return {"engine": self.engine, "url": self.url, "exact": self.exact, "replicas": self.replicas}

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
        description="Its name in the engine, where it was brought forward; null: that of its version.",
    )
    forwarded_from: str | None = Field(
        None, exclude_if=lambda name: name is None, description="The version whose collection was brought forward."
    )
    languages: list[str] = Field([], description="Those of its documents, by which questions are analysed.")


DEFAULT_PRESET = "pages"
"""The default preset."""

LEXICAL_FIELDS = ("search_text", "title", "section_path", "text", "caption")
"""Fields that BM25 may search; ``search_text`` is title, section and text in one."""


def _lexical(weights: dict[str, float]) -> dict[str, float]:
    if unknown := sorted(set(weights) - set(LEXICAL_FIELDS)):
        raise ValueError(f"BM25 can't look in {', '.join(unknown)}; known here: {', '.join(LEXICAL_FIELDS)}")
    return weights


FieldWeights = Annotated[dict[str, Weight], Field(min_length=1), AfterValidator(_lexical)]
"""Fields that BM25 searches, with their weights."""


class Ranking(Section):
    """Settings that a preset doesn't set itself."""

    weights: FieldWeights = Field(
        {"search_text": 1.0},
        description="Fields that BM25 searches, with their weights: search_text (title, section and text in one), title, "
        "section_path, text, caption.",
    )
    stop_words: Literal["english"] | list[Text] = Field([], description="Words that BM25 leaves out of a question.")
    fusion: Literal["rrf", "weighted"] = Field(
        "rrf", description="How hybrid merges: by rank (reciprocal rank fusion), or by scores brought to one scale."
    )
    alpha: Share = Field(0.5, description="Weight of dense in a weighted fusion; BM25 has the rest.")
    rrf_k: int = Field(60, gt=0, le=1_000_000, description="Rank offset of reciprocal rank fusion.")
    diversity: Share = Field(0.0, description="How far rows must differ from those above (MMR): 0 not at all, 1 above all.")


class RetrievalOptions(Section):
    """Presets of search, and the models that they use."""

    models: dict[Text, Annotated[ModelConfig | ScorerConfig, Field(discriminator="kind")]] = Field(
        {}, description="Models that steps of presets name: they rewrite questions, choose sections, order passages."
    )

    preset: Text = Field(DEFAULT_PRESET, description="The default preset; gates judge a version by it.")
    presets: Location | None = Field(
        None, description="A folder of presets of one's own, a YAML file each, beside those packaged."
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
        description="One of retrieval.models, which writes answers in place of a preset's own; a preset that sends pictures "
        "keeps its own unless this one sees.",
    )
    prompt: Text | None = Field(
        None, description="A packaged prompt, or a file of your own beside this one, in place of the preset's."
    )
    max_images: int | None = Field(
        None, ge=0, le=50, description="Pictures a model is sent at most, in place of the preset's."
    )
    passages: int = Field(4, ge=1, le=20, description="Passages an extractive answer shows at most.")
    context_chars: int = Field(24_000, ge=500, le=10_000_000, description="Characters of passages a model is sent at most.")
    abstain_below: Share | None = Field(
        None,
        description="Confidence below which there is no answer; default: as calibrated when the version was evaluated.",
    )
    sure_above: Share | None = Field(
        None, description="Confidence below which an answer is marked as not sure; default: as calibrated."
    )
    budget: Spend = Field(Spend(), description="What one answer may spend: no round or call starts beyond it.")
