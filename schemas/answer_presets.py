"""How a question is answered, as data: what is retrieved, what a model is sent, and how figures are shown."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.corpus import Section, Text
from schemas.evidence import Modality
from schemas.retrieval import Name

MOST_ROUNDS = 3
MOST_PASSAGES = 50
MOST_IMAGES = 50


class AnswerSettings(Section):
    """What an answer preset sets, and a request may change.

    Attributes:
        retrieval: The retrieval preset that finds the passages; null is the corpus's default.
        context: Where passages come from: they are retrieved; they are all rows that the request's filters name, in reading
            order (gold contexts); or there are none.
        modalities: Rows of a given context that are sent; [] is all.
        model: The one of ``retrieval.models`` that writes the answer; null is the extractive answer, without a model.
        prompt: A packaged prompt, or a file.
        passages: Rows that the model is sent at most.
        max_images: Pictures that the model is sent at most, those of the best rows first.
        figures: Where figures stand in the answer: where the model copies their tags; behind the text, those of the figure
            rows that were found; or nowhere.
        rounds: Rounds of retrieval at most.
    """

    retrieval: Name | None = None
    context: Literal["retrieved", "given", "none"] = "retrieved"
    modalities: list[Modality] = Field([])
    model: Name | None = None
    prompt: Text = "ilt"
    passages: Annotated[int, Field(ge=1, le=MOST_PASSAGES)] = 4
    max_images: Annotated[int, Field(ge=0, le=MOST_IMAGES)] = 0
    figures: Literal["in_place", "after", "none"] = "in_place"
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] = 1


class AnswerPreset(AnswerSettings):
    """Answer settings with a name.

    Attributes:
        name: What callers name it by; that of its file.
        label: What people see of it.
        sentence: What it does, in a few words for people, without a full stop.
        source: Which paper or page it is from; "" where it is Inset's own.
    """

    name: Annotated[Name, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    label: Name
    sentence: Text
    source: Text = ""


class AnswerPresetInfo(BaseModel):
    """An answer preset as it is listed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    label: str
    sentence: str
    source: str = ""
    needs: list[str] = Field([], description="What it needs, such as a model llm, or vectors image.")
    missing: list[str] = Field([], description="What is lacking of that, each with the setting that brings it.")
    settings: AnswerSettings
