"""Section answer: how questions are answered. Nothing is rebuilt when it changes."""

from pydantic import Field

from schemas.corpus.budget import Spend
from schemas.corpus.fields import Location, Section, Share, Text


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
