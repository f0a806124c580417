"""Answer presets: what is retrieved, what a model is sent, and how figures are shown."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from schemas.corpus.fields import Section, Text
from schemas.evidence import Modality
from schemas.retrieval import ListedPreset, Name, NamedPreset

MOST_ROUNDS = 3
MOST_PASSAGES = 50
MOST_IMAGES = 50


class Content(StrEnum):
    """What a model is sent of the rows found."""

    TEXTS = "texts"
    CAPTIONS = "captions"
    PICTURES = "pictures"
    MENTIONED_PICTURES = "mentioned_pictures"


class AnswerSettings(Section):
    """Settings of an answer preset; a request may change them.

    Attributes:
        retrieval: The retrieval preset; null is the corpus's default.
        context: ``retrieved`` passages; ``given``: all rows that the filters match, in reading order (gold contexts); or none.
        sends: What is sent, and nothing else: the ``texts`` of texts and tables; the ``captions`` of figures and pages, with
            their descriptions and recognised words; their ``pictures``; the ``mentioned_pictures`` of figures in texts.
        model: One of ``retrieval.models``; null gives the extractive answer.
        prompt: A packaged prompt, or a file.
        passages: Maximum number of rows sent to the model.
        max_texts: Maximum number of texts and tables among them; null is as many as ``passages``.
        max_images: Maximum number of pictures sent, those of the best rows first.
        figures: ``in_place``: where the model copies their tags; ``after`` the text, those of the figure rows found; or none.
        rounds: Maximum number of retrieval rounds.
        grounded: Add the figures that the cited passages have beside what a model wrote, and give the extractive answer in
            place of a reply that no passage supports.
    """

    retrieval: Name | None = None
    context: Literal["retrieved", "given", "none"] = "retrieved"
    sends: list[Content] = Field([*Content], min_length=1, max_length=len(Content))
    model: Name | None = None
    prompt: Annotated[Text, Field(max_length=1_000)] = "written"
    passages: Annotated[int, Field(ge=1, le=MOST_PASSAGES, strict=True)] = 4
    max_texts: Annotated[int, Field(ge=0, le=MOST_PASSAGES, strict=True)] | None = None
    max_images: Annotated[int, Field(ge=0, le=MOST_IMAGES, strict=True)] = 0
    figures: Literal["in_place", "after", "none"] = "in_place"
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS, strict=True)] = 1
    grounded: bool = False

    @property
    def sent_modalities(self) -> list[Modality]:
        """The modalities of rows of which something is sent, without whole pages."""
        texts = [Modality.TEXT, Modality.TABLE] if Content.TEXTS in self.sends else []
        return [*texts, *([Modality.FIGURE] if {Content.CAPTIONS, Content.PICTURES} & {*self.sends} else [])]


class AnswerPreset(NamedPreset, AnswerSettings):
    """Answer settings with a name."""


class AnswerPresetInfo(ListedPreset):
    """An answer preset with its requirements and settings."""

    needs: list[str] = Field([], description="What it needs, such as a model llm, or vectors image.")
    missing: list[str] = Field([], description="What is lacking of that, each with the setting that brings it.")
    settings: AnswerSettings
