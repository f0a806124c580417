"""Answers, and answer presets: what is retrieved, what a model is sent, how figures are shown."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base import Frozen, Section, Text
from schemas.evidence import AskedCorpora, CitedRegion, HasTaggedPdf, InCorpus, OwnFieldValues, Span, Superseded, TraceStep
from schemas.filters import Modality
from schemas.geometry import Box
from schemas.retrieval import ListedPreset, Name, NamedPreset
from schemas.versions import Spent

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
        model: One of ``models``; null gives the extractive answer.
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
    """Answer settings with a name.

    ``corrects_spelling``: whether misspelt words of a question are corrected; ``checks_answers``: whether what a model wrote
    is checked against the passages, and asked for again where it is no answer.
    """

    corrects_spelling: ClassVar[bool] = True
    checks_answers: ClassVar[bool] = True


class AnswerPresetInfo(ListedPreset):
    """An answer preset with its requirements and settings."""

    needs: list[str] = Field([], description="What it needs, such as a model llm, or vectors image.")
    missing: list[str] = Field([], description="What is lacking of that, each with the setting that brings it.")
    settings: AnswerSettings


Folded = Annotated[
    bool, Field(description="Whether it stands behind “more”: the rest of a passage, which a reader opens if needed.")
]
Citations = Annotated[
    list[int], Field(description="Numbers of citations; [] marks a sentence of a model that cites nothing.")
]


class Citation(Frozen):
    """The source of a part of an answer; ``n`` counts from 1.

    ``page_link``, ``pdf_link`` and ``original_link`` are paths of this API, below the service's address: the page's picture with
    the cited regions highlighted, the PDF at that page, and the document's own bytes, which may be in another format. They name
    the version, so they are permanent.
    """

    n: int
    evidence_id: str
    corpus: InCorpus = ""
    version: str = ""
    title: str = ""
    source: str
    page: int
    label: str | None = Field(None, description="What is printed on the page, such as iv; null if that is its number.")
    bbox: Box
    doc_id: str
    section_path: list[str]
    regions: list[CitedRegion]
    tagged_pdf: HasTaggedPdf = False
    fields: OwnFieldValues = {}
    superseded: Superseded = ""
    page_link: str = ""
    pdf_link: str = ""
    original_link: str = ""


class TextPart(Frozen):
    """Text of an answer.

    ``style``: prose; a heading; a list item or step, with its number or bullet; code, whose line breaks and spaces count.
    ``marked`` are the sentences that answer, ``[start, end)`` in characters of ``text``.
    """

    type: Literal["text"] = "text"
    text: str
    citations: Citations
    style: Literal["prose", "heading", "item", "code"] = "prose"
    marked: list[Span] = []
    continues: bool = Field(False, description="Whether it goes on in the paragraph of the part before.")
    folded: Folded = False


class FigurePart(Frozen):
    """A figure in an answer; its bytes are at ``/v1/corpora/{corpus}/figures/{figure_id}?version={version}``.

    ``page`` and ``bbox`` are its own, in the document of its citation.
    """

    type: Literal["figure"] = "figure"
    figure_id: str
    tag: str
    caption: str
    page: int
    bbox: Box
    citations: Citations
    folded: Folded = False
    added: bool = Field(
        False,
        description="Whether Inset, not the model, put it into an answer that a model wrote: the cited passage has it beside the "
        "sentence, or the question asks for it.",
    )


class TablePart(Frozen):
    """A table: its cells, the header first. Each of ``figures`` stands where a cell holds its ``tag``.

    ``key_rows`` are the rows that answer, counted from 0 with the header, and the second row of a header of two.
    """

    type: Literal["table"] = "table"
    rows: list[list[str]]
    figures: list[FigurePart]
    citations: Citations
    key_rows: list[int] = Field([], description="[]: no row stands out, all are shown.")
    key_column: int | None = Field(
        None, description="The column that the question names, counted from 0; null: none, or several."
    )
    folded: Folded = False


Part = TextPart | TablePart | FigurePart


def part_figures(part: Part) -> list[FigurePart]:
    """Return the figures of a part: itself, or those in the cells of a table."""
    if isinstance(part, TablePart):
        return part.figures
    return [part] if isinstance(part, FigurePart) else []


class AnswerCounts(Frozen):
    """Corrections to a model's reply."""

    unknown_tags: int = Field(0, description="Tags of no figure that was sent; each was dropped.")
    repaired_tags: int = Field(0, description="Misspelled tags that only one figure's tag resembles.")
    repeated_tags: int = Field(0, description="Tags of figures that were shown before.")
    unknown_citations: int = Field(0, description="Citations of no passage that was sent; each was dropped.")
    uncited_sentences: int = Field(0, description="Sentences that cite no passage.")
    unsupported: int = Field(
        0, description="Texts with a number, name or negation that no passage they cite has; their citations were dropped."
    )


class Round(Frozen):
    """A round of retrieval: its query, its evidence, and the judge's verdict on all evidence so far."""

    query: str
    evidence_ids: list[str]
    new: int = Field(description="Rows that no earlier round had found.")
    sufficient: bool | None = Field(None, description="null if no model judged.")
    missing: str = Field("", description="What the judge misses.")
    seconds: float = 0.0
    spent: Spent = Field(Spent(), description="What generative models used; money by the prices in the corpus file.")


class FollowUp(Frozen):
    """How a follow-up question was understood."""

    question: str = Field(description="The question that stands alone, made from it and the turns before it.")
    source: str = Field(
        "", description="The document that was searched because the last answer cites it first; empty for all."
    )


class AnswerResult(Frozen):
    """An answer as an ordered list of parts.

    ``abstained``: nothing in the version answers, and ``parts`` is empty. ``unsure``: the parts are of the nearest
    passages, which may not answer. Both are decided by ``confidence``, 0 to 1, null if nothing was searched. An answer that a
    model wrote is ``unsure`` if confidence is low or no passage supports any of it.
    """

    version: str
    abstained: bool
    unsure: bool = False
    confidence: float | None = None
    preset: str = Field("extractive", description="The answer preset.")
    model: str | None = Field(None, description="The model that wrote it; null: every word is the documents'.")
    note: str = Field(
        "",
        description="Why the answer is extractive despite a model or may lack something, or how misspelt words were read; "
        "else empty.",
    )
    pinned: bool = Field(False, description="Whether people pinned the answer to the question, in the corpus file.")
    follow_up: FollowUp | None = Field(
        None, description="How a question with a history was understood, if not as it stands."
    )
    parts: list[Part]
    citations: list[Citation]
    counts: AnswerCounts = AnswerCounts()
    rounds: list[Round] = []
    spent: Spent = Field(Spent(), description="What generative models used; money by the prices in the corpus file.")
    trace: list[TraceStep] | None = Field(None, description="What each step did, if the request asks for it.")
    corpora: AskedCorpora = []


class AnswerStarted(Frozen):
    """The first event of a stream."""

    event: Literal["start"] = "start"
    version: str
    preset: str
    model: str | None = None
    citations: list[Citation] = Field(
        [],
        description="Every passage that may be cited; the result lists those that are, and that of a figure which the question "
        "asks for.",
    )
    meanwhile: AnswerResult | None = Field(
        None,
        description="The extractive answer, for readers to see until the model's words come; null where there is none.",
    )


class TextDelta(Frozen):
    """More text of the current part."""

    event: Literal["text"] = "text"
    part: int = Field(description="Which part, counted from 0.")
    text: str


class PartFinished(Frozen):
    """A whole part; replaces its text so far."""

    event: Literal["part"] = "part"
    part: int
    value: Part


class AnswerFinished(Frozen):
    """The last event: the whole answer, which replaces everything before. If a model failed, it is the extractive answer."""

    event: Literal["result"] = "result"
    result: AnswerResult


AnswerEvent = AnswerStarted | TextDelta | PartFinished | AnswerFinished
