"""Section captions: what describes figures, pages and texts."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from schemas.corpus.fields import GpuShare, Location, Section, Text, Workers
from schemas.corpus.models import EndpointOptions, GenerativeModel, Price

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
    tensor_parallel: int = Field(
        1, ge=1, le=64, description="Of local: GPUs of one node over which each actor's model is split, by vLLM; above 1."
    )

    @model_validator(mode="after")
    def _reachable(self) -> "ModelCaptioner":
        if self.kind.is_at_endpoint != (self.endpoint is not None):
            raise ValueError(f"{_AT_ENDPOINTS} need an endpoint, and no other kind has one")
        if self.tensor_parallel > 1 and (self.kind is not CaptionerKind.LOCAL or self.gpus not in ("auto", 1)):
            raise ValueError("tensor_parallel splits a local model over whole GPUs: leave out gpus, and use kind: local")
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
    pages_by_source: dict[Text, Text] = Field(
        {}, description="What describes pages of some documents, as by_source; pages has to be set for the others."
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
        if reserved_names := sorted({CONTEXT, PERSON} & set(self.models)):
            raise ValueError(f"captions.models: {reserved_names[0]!r} means something else; call the model otherwise")
        captioners_by_key = {"captioner": self.captioner} | {
            f"by_source.{glob}": name for glob, name in self.by_source.items()
        }
        if self.pages is not None:
            captioners_by_key["pages"] = self.pages
        elif self.pages_by_source:
            raise ValueError("pages_by_source: set pages too, to what describes pages of the other documents")
        captioners_by_key |= {f"pages_by_source.{glob}": name for glob, name in self.pages_by_source.items()}
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
    ocr_workers: Workers | None = Field(None, description="OCR actors; default: one a CPU core.")
    layout: Text = Field("rapid-layout", description="What finds figures and tables on pages that are a picture; or none.")
