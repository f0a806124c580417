"""The corpus file: everything a corpus is, in one YAML document, validated.

Only ``name`` and ``source`` are required. Unknown keys are errors, so that a typing mistake never passes as a default.
"""

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, create_model, field_validator, model_validator

from schemas.gates import GATES, Gate
from schemas.ids import CORPUS_NAME
from schemas.models import MINILM
from schemas.printing import is_plain
from schemas.tags import CANONICAL, DIGITS_DEFAULT, DIGITS_MOST, NAMED_TEMPLATES, TagTemplate

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError("write one line of plain text, without control characters or bytes that are not UTF-8")
    return text


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("write the name of an environment variable, such as PDF_PASSWORDS, and never what it holds")
    return name


def _without_user(address: str) -> str:
    """Refuse what stands before an @ in an address: it would be stored with every version, and shown."""
    if "@" in address.partition("://")[2].partition("/")[0]:
        raise ValueError("an address holds no user or password; give those in environment variables")
    return address


def _place(address: str) -> str:
    scheme, found, rest = address.partition("://")
    if found and scheme not in ("file", "s3"):
        raise ValueError("use a path, or s3://bucket/prefix")
    if scheme == "s3" and found and not _BUCKET.fullmatch(rest.partition("/")[0]):
        raise ValueError("write s3://bucket/prefix, the bucket's name in letters, digits, '.', '-' and '_'")
    return address


def _source(address: str) -> str:
    if any("**" in part and part != "**" for part in address.split("/")) and not address.startswith("s3://"):
        raise ValueError("'**' stands alone between slashes and means all folders below: write docs/**/*.pdf")
    return address


Text = Annotated[str, AfterValidator(_plain)]
Variable = Annotated[Text, AfterValidator(_variable)]
Location = Annotated[Text, Field(min_length=1, max_length=4000), AfterValidator(_without_user), AfterValidator(_place)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0, le=1e6)]
Money = Annotated[float, Field(ge=0, le=1e9)]
Workers = Annotated[int, Field(ge=1, le=10_000)]

CONTEXT = "context"
"""The captioner that is no model: own caption, section and recognised words."""

PERSON = "person"
"""Who wrote what stands in the file of corrections."""

DEFAULT_PRESET = "pages"
"""How to search where neither a request nor a corpus file says."""

LEXICAL_FIELDS = ("search_text", "title", "section_path", "text", "caption")
"""What BM25 may look in; ``search_text`` is title, section and text in one."""


class Section(BaseModel):
    """Base of every part of a corpus file: frozen, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ParseOptions(Section):
    """How PDFs are read, and how much one document may cost."""

    timeout_s: float = Field(120, gt=0, le=1e6, description="Seconds one document may take before it goes to quarantine.")
    timeout_s_per_page: float = Field(1, ge=0, le=1e6, description="Seconds added to timeout_s for each page.")
    memory_mb: int = Field(2048, ge=256, le=1 << 24, description="Memory one parse process may take, in MiB.")
    max_pages: int = Field(10_000, ge=1, le=1_000_000, description="Pages beyond which a document goes to quarantine.")
    render_dpi: int = Field(150, ge=36, le=600, description="Resolution of figures that are more than one embedded image.")
    max_figure_pixels: int = Field(
        16_000_000, ge=10_000, le=1 << 30, description="Pixels one figure may have; larger ones are scaled."
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


def _served(address: str) -> str:
    """Refuse what is no address of a server, before anything is asked of it."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError("write an address such as http://host:8000/v1")
    return address.rstrip("/")


Server = Annotated[Text, AfterValidator(_without_user), AfterValidator(_served)]


class EndpointOptions(Section):
    """A server that speaks OpenAI's protocol: vLLM, Ollama, a cloud."""

    url: Server = Field(description="Its address up to the version, such as http://localhost:8000/v1.")
    api_key_env: Variable | None = Field(None, description="Environment variable with its API key, where it wants one.")
    concurrency: int = Field(8, ge=1, le=1024, description="Calls at once.")
    requests_per_minute: float | None = Field(None, gt=0, le=1e6, description="Calls a minute at most; none: no limit.")
    timeout_s: float = Field(60, gt=0, le=3600, description="Seconds one call may take.")
    retries: int = Field(4, ge=0, le=20, description="Tries after the first, for what may succeed later.")


class Price(Section):
    """What a model costs, in the currency that the budget is in."""

    input: Money = Field(0.0, description="For a million tokens that the model reads.")
    output: Money = Field(0.0, description="For a million tokens that it writes.")
    call: Money = Field(0.0, description="For a call.")


class CaptionerKind(StrEnum):
    """What describes a figure, a page or a text."""

    # A row each, of all that its kind decides; its module is in the registry of models.
    means: str
    """What it is, for people."""
    is_at_endpoint: bool
    """Whether it is called where ``endpoint`` says, by the process that asks; any other works as actors of Ray."""
    sees: bool
    """Whether it gets the picture, and not the words that were read in it alone."""

    def __new__(cls, name: str, means: str, is_at_endpoint: bool, sees: bool) -> Self:
        """Make a row."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.means, made.is_at_endpoint, made.sees = means, is_at_endpoint, sees
        return made

    VLM = "vlm", "a vision-language model behind an endpoint", True, True
    LOCAL = "local", "one of transformers on Ray", False, True
    OCR_LLM = "ocr_llm", "a language model behind an endpoint, which reads the recognised words", True, False


_AT_ENDPOINTS = " and ".join(kind for kind in CaptionerKind if kind.is_at_endpoint)


class GenerativeModel(Section):
    """A generative model, and how it is asked."""

    model: Text = Field(description="The model's name at the endpoint; of a local one the folder, or its name at the hub.")
    revision: Text = Field(description="Which revision, so that the same name always means the same model.")
    temperature: float = Field(0.0, ge=0, le=2, description="0: the likeliest words.")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="Share of likelihood that words are drawn from.")
    max_tokens: int = Field(300, ge=1, le=32_768, description="Tokens a reply may have.")
    max_side_px: int = Field(1024, ge=64, le=8192, description="Longer side of the picture that the model gets.")


class ModelCaptioner(GenerativeModel):
    """A generative model that describes figures, pages or texts."""

    kind: CaptionerKind = Field(description="; ".join(f"'{kind}': {kind.means}" for kind in CaptionerKind) + ".")
    prompt: Text | None = Field(
        None, description="A preset's name, or a file; default: the preset for this kind and subject."
    )
    language: Text | None = Field(
        None, description="Language that descriptions must be in, such as en; none: that of the document's words."
    )
    endpoint: EndpointOptions | None = Field(None, description=f"Where {_AT_ENDPOINTS} call.")
    price: Price = Price()
    batch: int = Field(8, ge=1, le=1024, description="On Ray: figures at once.")
    workers: Workers | None = Field(None, description="On Ray: actors; default: one a GPU, or one where there is none.")
    gpus: float = Field(
        1.0, ge=0, le=64, description="On Ray: GPUs, or a part of one, that each actor takes; 0, or none there: CPU."
    )

    @model_validator(mode="after")
    def _reachable(self) -> "ModelCaptioner":
        if self.kind.is_at_endpoint != (self.endpoint is not None):
            raise ValueError(f"{_AT_ENDPOINTS} need an endpoint, and no other kind has one")
        return self


class CaptionOptions(Section):
    """What a figure is described by."""

    captioner: Text = Field(
        "context", description="'context': own caption, recognised words and section; or one of models."
    )
    by_source: dict[Text, Text] = Field(
        {},
        description="Captioners of some documents, by a glob of their source such as phones/**; the first that fits counts.",
    )
    models: dict[Text, ModelCaptioner] = Field({}, description="Captioners that are models, each by a name of its own.")
    pages: Text | None = Field(
        None,
        description="What describes whole pages, each a row with its picture: 'context', the page's own words, or one of models; "
        "none: there are no such rows.",
    )
    summaries: Text | None = Field(None, description="One of models that summarises rows of text, to be found by; or none.")
    near_duplicates: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Bits in which the perceptual hashes of two figures may differ to share a description.",
    )
    corrections: Location | None = Field(
        None, description="A person's descriptions, YAML or CSV, by figure, page or text; they win."
    )

    @model_validator(mode="after")
    def _known(self) -> "CaptionOptions":
        if taken := sorted({CONTEXT, PERSON} & set(self.models)):
            raise ValueError(f"captions.models: {taken[0]!r} means something else; call the model otherwise")
        named = {"captioner": self.captioner} | {f"by_source.{glob}": name for glob, name in self.by_source.items()}
        for place, name in named.items():
            if name not in {CONTEXT, *self.models}:
                known = ", ".join([CONTEXT, *self.models])
                raise ValueError(f"{place}: there is no captioner {name!r}; known here: {known}")
        if self.pages not in {None, CONTEXT, *self.models}:
            known = ", ".join([CONTEXT, *self.models])
            raise ValueError(f"pages: there is no captioner {self.pages!r}; known here: {known}")
        if self.summaries is not None and self.summaries not in self.models:
            raise ValueError(f"summaries: there is no model {self.summaries!r} below captions.models")
        return self

    ocr: Text = Field("rapidocr", description="What reads words inside figures and scanned pages; or none.")
    ocr_workers: Workers | None = Field(None, description="OCR actors; default: one a CPU core.")
    layout: Text = Field("rapid-layout", description="What finds figures and tables on pages that are a picture; or none.")


class PoolOptions(Section):
    """How many actors embed, and with what."""

    batch: int = Field(32, ge=1, le=65_536, description="Texts or pictures embedded at once.")
    workers: Workers | None = Field(None, description="Embedding actors; default: as many as there are CPU cores, or GPUs.")
    gpus: float = Field(
        0.0, ge=0, le=64, description="GPUs, or a part of one, that each actor takes; 0, or none there: CPU."
    )


_TEXT_MODEL = f"'{MINILM}' (packaged), or a sentence-transformers model name or folder."

Prefix = Annotated[str, Field(max_length=10_000)]
Revision = Annotated[Text, Field(min_length=1)]


class TextModelOptions(PoolOptions):
    """A model that turns texts into vectors."""

    model: Text = Field(description=_TEXT_MODEL)
    revision: Revision | None = Field(None, description="Revision of a model that is not packaged; needed for those.")
    document_prompt: Prefix | None = Field(
        None, description="What stands before each text; default: as the model's files say."
    )
    query_prompt: Prefix | None = Field(
        None, description="What stands before a question; default: as the model's files say."
    )


Precision = Literal["float32", "bfloat16"]


class ImageModelOptions(PoolOptions):
    """A model of open_clip, that turns pictures and texts into vectors of one space."""

    model: Text = Field(
        description="A folder with open_clip_config.json, a name on the Hugging Face hub, or an architecture such as ViT-L-14."
    )
    revision: Revision = Field(description="Which revision, so that the same name always means the same model.")
    weights: Text | None = Field(None, description="Of an architecture: the file of its weights.")
    precision: Precision = Field(
        "float32", description="bfloat16: several times as fast on a GPU; other vectors, so changing it embeds anew."
    )
    texts: bool = Field(False, description="Embed rows without a picture by it, too: space joint.")
    batch: int = Field(16, ge=1, le=65_536, description="Pictures embedded at once.")
    gpus: float = Field(
        1.0, ge=0, le=64, description="GPUs, or a part of one, that each actor takes; 0, or none there: CPU."
    )


class UnifiedOptions(Section):
    """How the vectors that embeddings.image gives for a picture and for its words become one."""

    combine: Literal["mean", "concatenation"] = Field(
        "mean", description="mean: weighted, of unit vectors; concatenation: twice as long, its cosine is the mean of both."
    )
    image_weight: Share = Field(0.5, description="What the picture counts; its words count the rest.")


class LateModelOptions(PoolOptions):
    """A model of transformers for late interaction: ColPali, ColQwen2."""

    model: Text = Field(description="A folder, or a name on the Hugging Face hub.")
    revision: Revision = Field(description="Which revision, so that the same name always means the same model.")
    precision: Precision = Field(
        "float32", description="bfloat16: several times as fast on a GPU; other vectors, so changing it embeds anew."
    )
    batch: int = Field(4, ge=1, le=65_536, description="Pictures embedded at once.")
    gpus: float = Field(
        1.0, ge=0, le=64, description="GPUs, or a part of one, that each actor takes; 0, or none there: CPU."
    )


class EmbeddingOptions(PoolOptions):
    """What turns rows into vectors: a space each. Batch, workers and gpus are those of text."""

    text: Text = Field(MINILM, description=_TEXT_MODEL)
    revision: Revision | None = Field(None, description="Revision of a model that is not packaged; needed for those.")
    document_prompt: Prefix | None = Field(
        None, description="What stands before each text; default: as the model's files say."
    )
    query_prompt: Prefix | None = Field(
        None, description="What stands before a question; default: as the model's files say."
    )
    tables: TextModelOptions | None = Field(
        None, description="A model for tables alone, beside the one for all text; or none."
    )
    image: ImageModelOptions | None = Field(None, description="A model for pictures and questions in one space; or none.")
    unified: UnifiedOptions | None = Field(
        None, description="A picture and its words in one vector, by the model of image."
    )
    late: LateModelOptions | None = Field(
        None, description="A model for many vectors a picture, late interaction; or none."
    )

    @model_validator(mode="after")
    def _complete(self) -> "EmbeddingOptions":
        if self.unified is not None and self.image is None:
            raise ValueError("unified combines what the model of embeddings.image makes: name one there")
        return self


class RayOptions(Section):
    """Where the heavy work runs."""

    address: Annotated[Text, AfterValidator(_without_user)] | None = Field(
        None, description="Address of a Ray cluster; without one Ray runs in this process tree."
    )
    num_cpus: Workers | None = Field(None, description="CPUs a local Ray may take; default: all.")
    jobs: Server | None = Field(
        None,
        description="Address of the cluster's job server, such as http://head:8265: Airflow has enrich run there as a Ray Job, "
        "and no worker of Airflow waits for it.",
    )
    runtime_env: dict[Text, JsonValue] = Field(
        {},
        description="Runtime environment of the cluster's workers, as Ray spells it, such as {pip: [...]}. Inset's own code is "
        "sent along, unless this names py_modules.",
    )

    @field_validator("runtime_env")
    @classmethod
    def _without_secrets(cls, runtime_env: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "env_vars" in runtime_env:
            raise ValueError("set environment variables where the cluster's nodes start; a corpus file is stored and shown")
        if "working_dir" in runtime_env:
            raise ValueError("a job's working_dir holds its order; bring code as py_modules, or in the image")
        return runtime_env


class Ranking(Section):
    """What a preset leaves open; one that names its own, such as pages, keeps that. Nothing is built again for it."""

    weights: dict[str, Weight] = Field(
        {"search_text": 1.0},
        min_length=1,
        description="What BM25 looks in, and how much each counts: search_text (title, section and text in one), title, "
        "section_path, text, caption.",
    )
    stop_words: Literal["english"] | list[Text] = Field([], description="Words that BM25 leaves out of a question.")
    fusion: Literal["rrf", "weighted"] = Field(
        "rrf", description="How hybrid merges: by rank (reciprocal rank fusion), or by scores brought to one scale."
    )
    alpha: Share = Field(0.5, description="What dense counts in a weighted fusion; BM25 counts the rest.")
    rrf_k: int = Field(60, gt=0, le=1_000_000, description="Rank offset of reciprocal rank fusion.")
    diversity: Share = Field(0.0, description="How far rows must differ from those above (MMR): 0 not at all, 1 above all.")

    @field_validator("weights")
    @classmethod
    def _known(cls, weights: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(set(weights) - set(LEXICAL_FIELDS)):
            raise ValueError(f"BM25 can't look in {', '.join(unknown)}; known here: {', '.join(LEXICAL_FIELDS)}")
        return weights


class ModelConfig(GenerativeModel):
    """A generative model that is asked when a question comes."""

    kind: Literal["llm", "vlm", "local"] = Field(
        description="'llm': a language model behind an endpoint; 'vlm': one that sees, too; 'local': one of transformers, run "
        "by the process that asks."
    )
    endpoint: EndpointOptions | None = Field(None, description="Where llm and vlm are called.")
    price: Price = Price()
    gpus: float = Field(1.0, ge=0, le=64, description="Of local: above 0 it runs on a GPU where there is one.")

    @model_validator(mode="after")
    def _reachable(self) -> "ModelConfig":
        if (self.kind == "local") != (self.endpoint is None):
            raise ValueError("llm and vlm need an endpoint, and local has none")
        return self


class ScorerConfig(Section):
    """A model that says how well a passage answers a question."""

    kind: Literal["cross_encoder", "late"] = Field(
        description="'cross_encoder': of sentence-transformers; 'late': late interaction over a text encoder's tokens (ColBERT)."
    )
    model: Text = Field(description="A folder, or its name on the hub.")
    revision: Text = Field(description="Which revision.")


class RetrievalOptions(Section):
    """Which ways there are to search: decided when a question comes, so that nothing is built again for it."""

    models: dict[Text, Annotated[ModelConfig | ScorerConfig, Field(discriminator="kind")]] = Field(
        {}, description="Models that steps of presets name: they rewrite questions, choose sections, order passages."
    )

    preset: Text = Field(DEFAULT_PRESET, description="The preset of those who name none; gates judge a version by it.")
    presets: Location | None = Field(
        None, description="A folder of presets of one's own, a YAML file each, beside those packaged."
    )


class ChunkOptions(Section):
    """How documents are cut into rows."""

    tokens: int = Field(220, ge=32, le=8192, description="Tokens of the embedder one chunk may hold.")


class IndexOptions(Section):
    """Which engine holds the index."""

    engine: Literal["lancedb", "weaviate"] = Field("lancedb", description="'lancedb' (embedded), or 'weaviate' (a server).")
    url: Annotated[Text, AfterValidator(_without_user)] | None = Field(
        None, description="Address of the Weaviate server, such as http://localhost:8080."
    )
    grpc_port: int = Field(50051, ge=1, le=65535, description="Port of the server's gRPC service, on the same host.")
    api_key_env: Variable | None = Field(
        None, description="Environment variable with the server's API key, where it wants one."
    )
    exact: bool = Field(False, description="Weaviate: compare with every vector (a flat index) instead of HNSW.")
    replicas: int = Field(1, ge=1, le=1000, description="Weaviate: nodes that each row is kept on.")

    def shape(self) -> dict[str, object]:
        """Return what distinguishes one collection from another: its engine, its server and how rows are kept there.

        Which port and which key lead to a server is nothing that its collections depend on.
        """
        if self.engine == "lancedb":
            return {"engine": self.engine}
        return {"engine": self.engine, "url": self.url, "exact": self.exact, "replicas": self.replicas}

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        wanted = "use http://host:port or https://host:port"
        parts = urlsplit(url or "http://unset")
        try:
            _ = parts.port
        except ValueError as error:  # what it says holds what stands there
            raise ValueError(wanted) from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(wanted)
        if parts.query or parts.fragment:
            raise ValueError(wanted)
        return url and url.rstrip("/")

    @model_validator(mode="after")
    def _placed(self) -> "IndexOptions":
        if self.engine == "weaviate" and self.url is None:
            raise ValueError("engine weaviate needs a url, such as http://localhost:8080")
        if self.url is not None and urlsplit(self.url).port == self.grpc_port:
            raise ValueError("url and grpc_port name the same port; the gRPC service has one of its own, 50051 by default")
        return self


class Collection(IndexOptions):
    """Where a version's collection is, as it was written down then: with keys that nothing reads any more."""

    model_config = ConfigDict(extra="ignore")

    languages: list[str] = Field([], description="Those of its documents, by which questions are analysed.")


class _GateOptions(Section):
    """What a version must hold to be published."""

    def of(self, gate: Gate) -> float:
        """Return the bound of a gate."""
        return float(getattr(self, gate.key))


if TYPE_CHECKING:

    class GateOptions(_GateOptions):
        """A bound for each of ``schemas.gates.GATES``, by its key."""

        def __init__(self, **bounds: float) -> None: ...

else:
    GateOptions = create_model(
        "GateOptions",
        __base__=_GateOptions,
        __module__=__name__,
        __doc__=_GateOptions.__doc__,
        **{
            gate.key: (float, Field(gate.default, ge=gate.limits[0], le=gate.limits[1], description=gate.means))
            for gate in GATES
        },
    )


class Spend(Section):
    """What calls of generative models may cost at most; what is left out is no limit."""

    calls: int | None = Field(None, ge=0, le=1 << 40, description="Calls of generative models.")
    tokens: int | None = Field(None, ge=0, le=1 << 40, description="Tokens that they read and write.")
    money: Money | None = Field(None, description="Money, by the prices of captions.models.")


class AnswerOptions(Section):
    """How questions are answered. Changing it builds nothing again."""

    preset: Text | None = Field(
        None, description="The answer preset of requests that name none; default: ilt where model is set, else extractive."
    )
    presets: Location | None = Field(None, description="A folder of your own answer presets, a YAML file each.")
    model: Text | None = Field(
        None, description="One of retrieval.models, which writes answers, whatever model a preset names."
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


class BudgetOptions(Spend):
    """What one refresh may spend."""

    ocr_items: int | None = Field(
        None, ge=0, le=1 << 40, description="Figures and pages recognised in one refresh at most."
    )
    corpus: Spend = Field(Spend(), description="What all refreshes of the corpus together may spend on generative models.")


class RetentionOptions(Section):
    """What is kept."""

    versions: int = Field(5, ge=2, le=100_000, description="Versions kept, the live one included.")
    pinned: list[Text] = Field([], description="Versions kept beyond that, for those who query them by name.")


class Corpus(Section):
    """A corpus file.

    ``source``, ``store`` and ``questions`` are resolved against the file's folder when the file is loaded; here they are
    absolute paths or ``s3://`` addresses.
    """

    name: str = Field(description="The corpus's name: a-z, 0-9 and _, starting with a letter, at most 40 characters.")
    source: Annotated[Location, AfterValidator(_source)] = Field(
        description="A folder, a glob such as docs/**/*.pdf, or s3://bucket/prefix."
    )
    store: Location | None = Field(
        None, description="Where everything is kept: a folder or s3://bucket/prefix; default: .inset/store beside corpora/."
    )
    schedule: Text | None = Field(None, description="When Airflow refreshes: a cron expression or @daily; none: by hand.")
    questions: Location | None = Field(None, description="Golden questions, a JSONL file.")
    parse: ParseOptions = ParseOptions()
    tags: TagOptions = TagOptions()
    captions: CaptionOptions = CaptionOptions()
    embeddings: EmbeddingOptions = EmbeddingOptions()
    ray: RayOptions = RayOptions()
    chunks: ChunkOptions = ChunkOptions()
    index: IndexOptions = IndexOptions()
    retrieval: RetrievalOptions = RetrievalOptions()
    ranking: Ranking = Ranking()
    answer: AnswerOptions = AnswerOptions()
    gates: GateOptions = GateOptions()
    budget: BudgetOptions = BudgetOptions()
    retention: RetentionOptions = RetentionOptions()

    @field_validator("name")
    @classmethod
    def _spelled(cls, name: str) -> str:
        if not CORPUS_NAME.fullmatch(name):
            raise ValueError("use a-z, 0-9 and _ only, start with a letter, at most 40 characters")
        return name

    @field_validator("schedule")
    @classmethod
    def _cron(cls, schedule: str | None) -> str | None:
        presets = {"@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "@continuous", "@once"}
        if schedule is not None and schedule not in presets and len(schedule.split()) not in (5, 6):
            raise ValueError(f"use a cron expression of five fields or one of {', '.join(sorted(presets))}")
        return schedule
