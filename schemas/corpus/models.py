"""Models that a corpus file configures: endpoints, prices, generative models and scorers."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from schemas.corpus.fields import Money, Section, Server, Text, Variable


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
