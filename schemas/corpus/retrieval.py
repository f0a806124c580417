"""Sections retrieval and ranking: how questions are searched. Nothing is rebuilt when they change."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.corpus.fields import Location, Section, Share, Text, Weight
from schemas.corpus.models import ModelConfig, ScorerConfig

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
