"""Section embeddings: the models that turn rows into vectors."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.corpus.fields import GpuShare, Revision, Section, Share, Text, Workers
from schemas.corpus.models import EndpointOptions, Price
from schemas.models import DIMENSION, ENDPOINT, MINILM, MULTILINGUAL, ModelName, settings

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
