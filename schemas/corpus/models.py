"""Sections captions and embeddings, and models: what describes pictures and texts, and what embeds them."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.base import GpuShare, Location, Money, Revision, Section, Server, Share, Text, Variable, Workers
from schemas.models import DIMENSION, ENDPOINT, MINILM, MULTILINGUAL, ModelName, settings


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


class GenerativeModel(Section):
    """A generative model and its sampling settings."""

    model: Text = Field(description="The model's name at the endpoint; of a local one the folder, or its name at the hub.")
    revision: Text = Field(description="Which revision, so that the same name always means the same model.")
    temperature: float = Field(0.0, ge=0, le=2, description="0: the likeliest words.")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="Share of likelihood that words are drawn from.")
    max_tokens: int = Field(300, ge=1, le=32_768, description="Tokens a reply may have.")
    max_side_px: int = Field(1024, ge=64, le=8192, description="Longer side of the picture that the model gets.")


class ModelConfig(GenerativeModel):
    """A generative model that is used at query time."""

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
    """A model that scores how well a passage answers a question."""

    kind: Literal["cross_encoder", "late"] = Field(
        description="'cross_encoder': of sentence-transformers, which sees pictures of figures and pages if it is multimodal; "
        "'late': late interaction over a text encoder's tokens (ColBERT)."
    )
    model: Text = Field(description="A folder, or its name on the hub.")
    revision: Text = Field(description="Which revision.")


CONTEXT = "context"
"""The captioner without a model: own caption, section and recognised words."""

PERSON = "person"
"""The author of the corrections."""


class CaptionerKind(StrEnum):
    """What describes a figure, a page or a text."""

    means: str
    """Its description."""
    is_at_endpoint: bool
    """Whether the process of the refresh calls it at ``endpoint``; any other runs in Ray actors."""
    sees: bool
    """Whether it gets the picture; otherwise only the words recognised in it."""

    def __new__(cls, name: str, means: str, is_at_endpoint: bool, sees: bool) -> Self:
        """Make a kind with its attributes."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.means, member.is_at_endpoint, member.sees = means, is_at_endpoint, sees
        return member

    VLM = "vlm", "a vision-language model behind an endpoint", True, True
    LOCAL = "local", "one of transformers on Ray", False, True
    OCR_LLM = "ocr_llm", "a language model behind an endpoint, which reads the recognised words", True, False


_AT_ENDPOINTS = " and ".join(kind for kind in CaptionerKind if kind.is_at_endpoint)


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
    gpus: GpuShare = "auto"

    @model_validator(mode="after")
    def _reachable(self) -> "ModelCaptioner":
        if self.kind.is_at_endpoint != (self.endpoint is not None):
            raise ValueError(f"{_AT_ENDPOINTS} need an endpoint, and no other kind has one")
        return self


class CaptionOptions(Section):
    """Captioners, OCR and layout detection."""

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
    corrections: Location | None = Field(
        None, description="A person's descriptions, YAML or CSV, by figure, page or text; they win."
    )

    @model_validator(mode="after")
    def _known(self) -> "CaptionOptions":
        if reserved_names := sorted({CONTEXT, PERSON} & set(self.models)):
            raise ValueError(f"captions.models: {reserved_names[0]!r} means something else; call the model otherwise")
        captioners_by_key = {"captioner": self.captioner} | {
            f"by_source.{glob}": name for glob, name in self.by_source.items()
        }
        if self.pages is not None:
            captioners_by_key["pages"] = self.pages
        captioner_names = [CONTEXT, *self.models]
        for key, name in captioners_by_key.items():
            if name not in captioner_names:
                raise ValueError(f"{key}: there is no captioner {name!r}; known here: {', '.join(captioner_names)}")
        if self.summaries is not None and self.summaries not in self.models:
            raise ValueError(f"summaries: there is no model {self.summaries!r} below captions.models")
        return self

    ocr: Text = Field(
        "rapidocr", description="What reads words inside figures and scanned pages, and replaces poor text layers; or none."
    )
    layout: Text = Field("rapid-layout", description="What finds figures and tables on pages that are a picture; or none.")


Prefix = Annotated[str, Field(max_length=10_000)]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    Field(description="bfloat16: several times as fast on a GPU; other vectors, so changing it embeds again."),
]
Part = Literal["captions", "descriptions", "descriptions_and_texts", "summaries", "tagged_texts"]
_TEXT_MODEL = (
    f"'{MINILM}' for English or '{MULTILINGUAL}' (both packaged), a sentence-transformers model name or folder, or a model's "
    "name at endpoint."
)


class PoolOptions(Section):
    """The actors that embed."""

    batch: int = Field(32, ge=1, le=65_536, description="Texts or pictures embedded at once.")
    workers: Workers | None = Field(None, description="Embedding actors; default: as many as there are CPU cores, or GPUs.")
    gpus: GpuShare = 0.0


class EmbeddingEndpoint(EndpointOptions):
    """A server with an embedding model, called at /embeddings of its address."""

    dimension: int = Field(ge=1, le=65_536, description="Numbers in one vector.")
    price: Price = Field(Price(), description="What it costs; calls, tokens and money count against budget.")
    shorten: bool = Field(False, description="Ask for vectors of that dimension, of a model that can make shorter ones.")

    def texts_a_call(self, texts: int, batch: int) -> int:
        """Return how many texts one call has, so that ``concurrency`` calls run at once; ``batch`` at most."""
        return min(batch, -(-texts // self.concurrency))

    def calls(self, texts: int, batch: int) -> int:
        """Return how many calls texts take."""
        return -(-texts // self.texts_a_call(texts, batch))


class PromptOptions(PoolOptions):
    """Revision and prompts of a text embedder, and where it runs."""

    revision: Revision | None = Field(None, description="Revision of a model that is not packaged; needed for those.")
    document_prompt: Prefix | None = Field(
        None, description="What stands before each text; default: as the model's files say."
    )
    query_prompt: Prefix | None = Field(
        None, description="What stands before a question; default: as the model's files say."
    )
    endpoint: EmbeddingEndpoint | None = Field(
        None, description="A server that runs the model, as it is called there; default: it runs here."
    )

    trust_remote_code: bool = Field(
        False,
        description="Run code that comes with the model, such as gte-large-en-v1.5's. On the hub, revision must be a commit.",
    )
    code_revision: Revision | None = Field(
        None, description="The commit of that code where it lies in another repository than the model."
    )

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.endpoint is not None and self.revision is None:
            raise ValueError("a model behind an endpoint needs a revision: name the one that the server runs")
        if self.trust_remote_code and (self.revision is None or self.endpoint is not None):
            raise ValueError("trust_remote_code runs code of a model that runs here, and needs its revision")
        if self.code_revision is not None and not self.trust_remote_code:
            raise ValueError("code_revision is of code that trust_remote_code allows: set both, or neither")
        return self

    def named(self, name: str, option: str) -> ModelName:
        """Return the model of a name with these settings; ``option`` is its key in the corpus file."""
        dimension: dict[str, float] = {}
        endpoint: dict[str, str] = {}
        if self.endpoint is not None:
            dimension, endpoint = {DIMENSION: self.endpoint.dimension}, {ENDPOINT: self.endpoint.model_dump_json()}
        return ModelName(
            name,
            self.revision,
            settings(
                document_prompt=self.document_prompt,
                trust_remote_code=float(self.trust_remote_code) or None,
                code_revision=self.code_revision,
                **dimension,
            ),
            option,
            settings(query_prompt=self.query_prompt, **endpoint),
        )


class TextModelOptions(PromptOptions):
    """A model that turns texts into vectors."""

    model: Text = Field(description=_TEXT_MODEL)


class ImageModelOptions(PoolOptions):
    """An open_clip model: pictures and texts in one vector space."""

    model: Text = Field(
        description="A folder with open_clip_config.json, a name on the Hugging Face hub, or an architecture such as ViT-L-14."
    )
    revision: Revision = Field(description="Which revision, so that the same name always means the same model.")
    weights: Text | None = Field(None, description="Of an architecture: the file of its weights.")
    precision: Precision = "float32"
    texts: bool = Field(False, description="Embed rows without a picture by it, too: space joint.")
    batch: int = Field(16, ge=1, le=65_536, description="Pictures embedded at once.")
    gpus: GpuShare = "auto"


class UnifiedOptions(Section):
    """How a picture's and its words' vectors of embeddings.image become one."""

    combine: Literal["mean", "concatenation"] = Field(
        "mean", description="mean: weighted, of unit vectors; concatenation: twice as long, its cosine is the mean of both."
    )
    image_weight: Share = Field(0.5, description="What the picture counts; its words count the rest.")


class LateModelOptions(PoolOptions):
    """A model of transformers for late interaction: ColPali, ColQwen2, ColQwen2.5."""

    model: Text = Field(description="A folder, or a name on the Hugging Face hub.")
    revision: Revision = Field(description="Which revision, so that the same name always means the same model.")
    precision: Precision = "float32"
    batch: int = Field(4, ge=1, le=65_536, description="Pictures embedded at once.")
    gpus: GpuShare = "auto"


class EmbeddingOptions(PromptOptions):
    """Embedding models, one a vector space. Batch, workers and gpus are those of text."""

    text: Text = Field(MINILM, description=_TEXT_MODEL)
    tables: TextModelOptions | None = Field(
        None, description="A model for tables alone, beside the one for all text; or none."
    )
    image: ImageModelOptions | None = Field(None, description="A model for pictures and questions in one space; or none.")
    parts: list[Part] = Field(
        [],
        description="Parts of rows to embed alone, without titles and sections, each in a space of its name. captions: of "
        "figures, as printed; descriptions: of figures and pages, by a model or a person; descriptions_and_texts: those, and "
        "the other rows as in text; summaries: of texts and tables. tagged_texts: texts and tables as in text, with the tags "
        "of their figures in place.",
    )
    unified: UnifiedOptions | None = Field(
        None, description="A picture and its words in one vector, by the model of image."
    )
    late: LateModelOptions | None = Field(
        None, description="A model for many vectors a picture, late interaction; or none."
    )

    @property
    def text_model(self) -> ModelName:
        """The model of the default space."""
        return self.named(self.text, "embeddings.text")

    @model_validator(mode="after")
    def _complete(self) -> "EmbeddingOptions":
        if self.unified is not None and self.image is None:
            raise ValueError("unified combines what the model of embeddings.image makes: name one there")
        return self
