"""The table of models, and the sections captions and embeddings, which name its entries."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from schemas.base import GpuShare, Money, Revision, Section, Server, Text, Variable, Workers
from schemas.models import FLOAT32, MINILM, MULTILINGUAL, ModelName, settings


class EndpointOptions(Section):
    """A server that speaks OpenAI's protocol: vLLM, Ollama, a cloud."""

    url: Server = Field(description="Its address up to the version, such as http://localhost:8000/v1.")
    api_key_env: Variable | None = Field(None, description="Environment variable with its API key, if it needs one.")
    concurrency: int = Field(8, ge=1, le=1024, description="Calls at once.")
    timeout_s: float = Field(60, gt=0, le=3600, description="Seconds one call may take.")
    retries: int = Field(4, ge=0, le=20, description="Tries after the first, for what may succeed later.")


class Price(Section):
    """What a model costs, in the currency that the budget is in."""

    input: Money = Field(0.0, description="For a million tokens that the model reads.")
    output: Money = Field(0.0, description="For a million tokens that it writes.")
    call: Money = Field(0.0, description="For a call.")
    batch: float = Field(0.5, ge=0, le=1, description="Share of these prices that a request in a batch costs.")


_WRITES = frozenset(("temperature", "top_p", "max_tokens", "prompt", "language", "price"))
_SEES = _WRITES | {"max_side_px"}
_POOL = frozenset(("batch", "workers", "gpus"))


class EntryKind(StrEnum):
    """What a model is; its attributes say what it can do, and which options it has."""

    means: str
    """Its description."""
    options: frozenset[str]
    """Its options beside ``kind``, ``model`` and ``revision``."""
    batch: int
    """The default of ``batch``."""

    def __new__(cls, name: str, means: str, options: frozenset[str] = frozenset(), batch: int = 1) -> Self:
        """Make a kind with its attributes."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.means, member.options, member.batch = means, options, batch
        return member

    LLM = (
        "llm",
        "a language model behind an endpoint; figures are described to it by their words",
        _WRITES | {"endpoint", "mode"},
        8,
    )
    VLM = "vlm", "one that sees pictures, too", _SEES | {"endpoint", "mode"}, 8
    LOCAL = "local", "one of transformers, on Ray or in the process that asks; it sees if it can", _SEES | _POOL, 8
    CROSS_ENCODER = "cross_encoder", "a scorer of passages by sentence-transformers, of pictures too if it is multimodal"
    TEXT_EMBEDDER = (
        "text_embedder",
        "of sentence-transformers, or behind an endpoint",
        _POOL
        | {"endpoint", "dimension", "shorten", "price"}
        | {"document_prompt", "query_prompt", "trust_remote_code", "code_revision"},
        32,
    )
    IMAGE_EMBEDDER = (
        "image_embedder",
        "of open_clip: pictures and texts in one space",
        _POOL | {"precision"},
        16,
    )
    LATE_EMBEDDER = (
        "late_embedder",
        "of transformers, many vectors a picture (ColPali, ColQwen2, ColQwen2.5)",
        _POOL | {"precision"},
        4,
    )

    @property
    def writes(self) -> bool:
        """Whether it is a generative model."""
        return "max_tokens" in self.options

    @property
    def sees(self) -> bool:
        """Whether it gets the picture; otherwise only the words recognised in it."""
        return "max_side_px" in self.options

    @property
    def is_at_endpoint(self) -> bool:
        """Whether it is called at ``endpoint``; any other runs in Ray actors or in the process that asks."""
        return self.writes and "endpoint" in self.options

    @property
    def gpus(self) -> float | Literal["auto"]:
        """The default of ``gpus``."""
        return 0.0 if self is EntryKind.TEXT_EMBEDDER else "auto"


class ModelEntry(Section):
    """A model: what it is, where it runs, and how it is called."""

    kind: EntryKind = Field(description="; ".join(f"{kind}: {kind.means}" for kind in EntryKind) + ".")
    model: Text = Field(
        description="Its name at the endpoint or on the Hugging Face hub, or its folder. Of a text_embedder also "
        f"{MINILM} or {MULTILINGUAL}."
    )
    revision: Revision | None = Field(
        None,
        description="Which revision, so that the same name always means the same model; required unless it is packaged.",
    )
    endpoint: EndpointOptions | None = Field(None, description="The server that runs it; llm and vlm need one.")
    price: Price = Field(Price(), description="What it costs; calls, tokens and money count against budget.")
    mode: Literal["calls", "batch"] = Field(
        "calls",
        description="How it is asked for descriptions. batch: by the endpoint's /files and /batches, within a day and mostly "
        "at half the price. Questions are always calls.",
    )
    temperature: float = Field(0.0, ge=0, le=2, description="0: the likeliest words.")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="Share of likelihood that words are drawn from.")
    max_tokens: int = Field(300, ge=1, le=32_768, description="Tokens a reply may have.")
    max_side_px: int = Field(1024, ge=64, le=8192, description="Longer side of the picture that the model gets.")
    prompt: Text | None = Field(
        None, description="How it describes: a preset's name, or a file; default: the preset for this kind and subject."
    )
    language: Text | None = Field(
        None, description="Language that descriptions must be in, such as en; none: that of the document's words."
    )
    dimension: int | None = Field(
        None, ge=1, le=65_536, description="Of a text_embedder at an endpoint: numbers in one vector."
    )
    shorten: bool = Field(False, description="Ask for vectors of that dimension, of a model that can make shorter ones.")
    document_prompt: Annotated[str, Field(max_length=10_000)] | None = Field(
        None, description="Of a text_embedder: what stands before each text; default: as the model's files say."
    )
    query_prompt: Annotated[str, Field(max_length=10_000)] | None = Field(
        None, description="What stands before a question; default: as the model's files say."
    )
    trust_remote_code: bool = Field(
        False,
        description="Run code that comes with the model, such as gte-large-en-v1.5's. On the hub, revision must be a commit.",
    )
    code_revision: Revision | None = Field(
        None, description="The commit of that code if it is in another repository than the model."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Of pictures' vectors. bfloat16: several times as fast on a GPU; other vectors, so changing it embeds again.",
    )
    batch: int | None = Field(
        None,
        ge=1,
        le=65_536,
        description="Inputs at once; default: 32 texts, 16 pictures, 4 of a late_embedder, 8 of local.",
    )
    workers: Workers | None = Field(
        None, description="Ray actors; default: one a GPU, or without one as many as CPU cores (local: one)."
    )
    gpus: GpuShare | None = Field(
        None,
        description="GPUs, or a part of one, that each actor takes; a cluster that has none has to start them. 0: CPU. auto, the "
        "default but for texts: a GPU each if the cluster has any when the work begins, else CPU.",
    )

    @property
    def batch_size(self) -> int:
        """``batch``, or its default."""
        return self.batch or self.kind.batch

    @property
    def in_batch(self) -> Self:
        """The model at the prices of a batch."""
        share = self.price.batch
        prices = {name: share * getattr(self.price, name) for name in ("input", "output", "call")}
        return self.model_copy(update={"price": self.price.model_copy(update=prices)})

    @property
    def gpu_share(self) -> float | Literal["auto"]:
        """``gpus``, or its default."""
        return self.kind.gpus if self.gpus is None else self.gpus

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        options = self.kind.options
        wrong_options = [
            name
            for name, field in type(self).model_fields.items()
            if name not in ("kind", "model", "revision", *options) and getattr(self, name) != field.default
        ]
        if wrong_options:
            known_options = f"it has {', '.join(sorted(options))}" if options else "it has only model and revision"
            raise ValueError(f"{self.kind} has no option {wrong_options[0]!r}; {known_options}")
        if self.kind.is_at_endpoint and self.endpoint is None:
            raise ValueError(f"{self.kind} needs an endpoint")
        if self.revision is None and (self.kind is not EntryKind.TEXT_EMBEDDER or self.endpoint is not None):
            raise ValueError("it needs a revision, so that the same name always means the same model")
        if self.kind is EntryKind.TEXT_EMBEDDER and (self.endpoint is None) != (self.dimension is None):
            raise ValueError("a text_embedder at an endpoint needs a dimension, and no other has one")
        if self.trust_remote_code and (self.revision is None or self.endpoint is not None):
            raise ValueError("trust_remote_code runs code of a model that runs here, and needs its revision")
        if self.code_revision is not None and not self.trust_remote_code:
            raise ValueError("code_revision is of code that trust_remote_code allows: set both, or neither")
        return self

    def text_model(self, option: str) -> ModelName:
        """Return a text embedder as its loaders take it; ``option`` is the corpus file's key that names it."""
        endpoint = self._embedding_endpoint()
        return ModelName(
            self.model,
            self.revision,
            settings(
                document_prompt=self.document_prompt,
                trust_remote_code=float(self.trust_remote_code) or None,
                code_revision=self.code_revision,
                dimension=self.dimension,
            ),
            option,
            settings(query_prompt=self.query_prompt, endpoint=endpoint.model_dump_json() if endpoint else None),
        )

    def _embedding_endpoint(self) -> "EmbeddingEndpoint | None":
        if self.endpoint is None or self.dimension is None:
            return None
        options = self.endpoint.model_dump()
        return EmbeddingEndpoint(**options, dimension=self.dimension, price=self.price, shorten=self.shorten)

    def picture_model(self, option: str, **extra_settings: str | float) -> ModelName:
        """Return an embedder of pictures as its loaders take it; the default precision is in no key."""
        precision = None if self.precision == FLOAT32 else self.precision
        return ModelName(self.model, self.revision, settings(precision=precision, **extra_settings), option)


class EmbeddingEndpoint(EndpointOptions):
    """A server with an embedding model, called at /embeddings of its address, as a loader gets it."""

    dimension: int
    price: Price = Price()
    shorten: bool = False

    def texts_a_call(self, texts: int, batch: int) -> int:
        """Return how many texts one call has, so that ``concurrency`` calls run at once; ``batch`` at most."""
        return min(batch, -(-texts // self.concurrency))

    def calls(self, texts: int, batch: int) -> int:
        """Return how many calls texts take."""
        return -(-texts // self.texts_a_call(texts, batch))


CONTEXT = "context"
"""The captioner without a model: own caption, section and recognised words."""

PERSON = "person"
"""The author of the corrections."""


class CaptionOptions(Section):
    """Captioners and OCR."""

    captioner: Text = Field(
        CONTEXT, description="context: own caption, recognised words and section; or a generative one of models."
    )
    pages: Text | None = Field(
        None,
        description="What describes whole pages, each a row with its picture: context, the page's own words, or one of models; "
        "none: there are no such rows.",
    )
    summaries: Text | None = Field(None, description="One of models that summarises rows of text, to be found by; or none.")
    ocr: Literal["rapidocr", "none"] = Field(
        "rapidocr", description="What reads words inside figures and scanned pages, and replaces poor text layers; or none."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_layout(cls, values: Any) -> Any:
        """Leave out ``layout: none`` of earlier releases, which is what holds now."""
        if isinstance(values, dict) and values.get("layout") == "none":
            return {name: value for name, value in values.items() if name != "layout"}
        return values

    @property
    def named(self) -> dict[str, str]:
        """The captioners, by the key that names each."""
        return {key: name for key in ("captioner", "pages", "summaries") if (name := getattr(self, key)) is not None}


Part = Literal["captions", "descriptions", "descriptions_and_texts", "summaries", "tagged_texts", "joint"]


class EmbeddingOptions(Section):
    """Embedding models, one a vector space."""

    text: Text = Field(
        MINILM,
        examples=[MINILM, MULTILINGUAL],
        description=f"{MINILM} for English or {MULTILINGUAL} (both packaged), or a text_embedder of models.",
    )
    tables: Text | None = Field(None, description="As text, for tables alone, beside the one for all text; or none.")
    image: Text | None = Field(
        None, description="An image_embedder of models, for pictures and questions in one space; or none."
    )
    parts: list[Part] = Field(
        [],
        description="Parts of rows to embed alone, without titles and sections, each in a space of its name. captions: of "
        "figures, as printed; descriptions: of figures and pages, by a model or a person; descriptions_and_texts: those, and "
        "the other rows as in text; summaries: of texts and tables. tagged_texts: texts and tables as in text, with the tags "
        "of their figures in place. joint: pictures, and other rows as in text, by the model of image.",
    )
    unified: Literal["mean", "concatenation"] | None = Field(
        None,
        description="A picture and its words in one vector, by the model of image. mean: of their unit vectors; concatenation: "
        "twice as long, its cosine is the mean of both.",
    )
    late: Text | None = Field(
        None, description="A late_embedder of models, for many vectors a picture, late interaction; or none."
    )

    @model_validator(mode="after")
    def _complete(self) -> "EmbeddingOptions":
        if (self.unified is not None or "joint" in self.parts) and self.image is None:
            raise ValueError("unified and joint are made by the model of embeddings.image: name one there")
        return self


class EmbeddingModels(Section):
    """The entries that the section embeddings names, and what is embedded by them."""

    text: ModelEntry = ModelEntry(kind=EntryKind.TEXT_EMBEDDER, model=MINILM)
    tables: ModelEntry | None = None
    image: ModelEntry | None = None
    late: ModelEntry | None = None
    parts: list[Part] = []
    unified: Literal["mean", "concatenation"] | None = None
    names: dict[str, str] = Field({}, description="The name of each entry of the table, by its key in the section.")

    @property
    def text_model(self) -> ModelName:
        """The model of the default space."""
        return self.text.text_model(self._option("text"))

    def model(self, key: Literal["text", "tables", "image", "late"], **more: str | float) -> ModelName | None:
        """Return the model of a key of the section as its loaders take it, with more settings; None if it isn't named."""
        entry: ModelEntry | None = getattr(self, key)
        if entry is None:
            return None
        option = self._option(key)
        return entry.text_model(option) if entry.kind is EntryKind.TEXT_EMBEDDER else entry.picture_model(option, **more)

    def _option(self, key: str) -> str:
        return f"models.{self.names[key]}" if key in self.names else f"embeddings.{key}"


_EMBEDDERS = {
    "text": EntryKind.TEXT_EMBEDDER,
    "tables": EntryKind.TEXT_EMBEDDER,
    "image": EntryKind.IMAGE_EMBEDDER,
    "late": EntryKind.LATE_EMBEDDER,
}


def embedding_models(models: Mapping[str, ModelEntry], options: EmbeddingOptions) -> EmbeddingModels:
    """Return the embedding models that a section names.

    Raises:
        ValueError: There is no such entry, or it is of another kind.
    """
    entries: dict[str, ModelEntry] = {}
    names: dict[str, str] = {}
    for key, kind in _EMBEDDERS.items():
        name = getattr(options, key)
        if name is None:
            continue
        if name in models and models[name].kind is kind:
            entries[key], names[key] = models[name], name
        elif kind is EntryKind.TEXT_EMBEDDER and name in (MINILM, MULTILINGUAL):
            entries[key] = ModelEntry(kind=kind, model=name)
        else:
            packaged = [MINILM, MULTILINGUAL] if kind is EntryKind.TEXT_EMBEDDER else []
            known_names = [*packaged, *(entry_name for entry_name, entry in models.items() if entry.kind is kind)]
            raise ValueError(
                f"embeddings.{key}: there is no {kind} {name!r} among models; "
                + (
                    f"known here: {', '.join(known_names)}"
                    if known_names
                    else f"add 'models: {{{name}: {{kind: {kind}, model: …}}}}'"
                )
            )
    return EmbeddingModels(**entries, names=names, parts=options.parts, unified=options.unified)
