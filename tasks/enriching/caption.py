"""Put into words what figures and pages show: what the document itself says of them, and what a model or a person wrote."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.corpus.captions import CONTEXT, CaptionerKind
from schemas.documents import Chunk, PlacedFigure
from schemas.evidence import Modality
from schemas.flags import Flag, is_refused
from schemas.generation import Description, Subject
from schemas.ports import LanguageDetector
from schemas.tags import escape, placeholder
from tasks.enriching.caption_quality import flags, unaskable
from tasks.enriching.cut import CountTokens, begin, searched
from tasks.enriching.embed import text_id
from tasks.enriching.prompts import Prompt, Surroundings

CAPTION_VERSION = "2"


@dataclass(frozen=True, slots=True)
class DescriptionResult:
    """What describes a figure, page or text beside its document's own words.

    Attributes:
        by: A captioner's name, or ``PERSON``.
        text: The description; "" where there is none that may be used.
        flags: What is doubtful about it, or why there is none.
    """

    by: str = CONTEXT
    text: str = ""
    flags: tuple[Flag, ...] = ()


def description_result(
    by: str,
    kind: CaptionerKind,
    prompt: Prompt,
    around: Surroundings,
    made: Description | None,
    languages: LanguageDetector,
) -> DescriptionResult:
    """Return what of a model's reply describes a figure, page or text, and what is doubtful about it.

    Args:
        by: The captioner's name.
        kind: Of what kind it is.
        prompt: What it was asked, and what its replies are expected to be like.
        around: What the document says around it.
        made: The reply; None where there is none yet.
        languages: Detects another language than that of the document.
    """
    if made is None:
        return DescriptionResult(flags=(unaskable(kind, around) or Flag.NOT_DESCRIBED,))
    found = flags(made, prompt, around, languages=languages)
    return DescriptionResult(flags=found) if is_refused(found) else DescriptionResult(by, made.text, found)


def described(piece: Chunk) -> tuple[Subject, str]:
    """Return what a model describes of a row, and the name of what it wrote: a picture's, or that of the text."""
    return described_of(piece.modality, piece.figure_id, piece.text)


def described_of(modality: str, figure_id: str | None, text: str) -> tuple[Subject, str]:
    """Return the same of a row by its columns."""
    if figure_id is None:
        return "text", text_id(text)
    return "page" if modality == Modality.PAGE else "figure", figure_id


DescriptionResults = Mapping[tuple[Subject, str], DescriptionResult]
"""What describes a document's figures, pages and texts; what is left out is described by its context, a text by nothing."""


def fitting(wordings: DescriptionResults, count_tokens: CountTokens, *, max_tokens: int) -> DescriptionResults:
    """Return what models and people wrote, summaries of texts cut to what a row may hold: they are searched as they are."""
    return {
        (subject, name): replace(wording, text=begin(wording.text, count_tokens, max_tokens))
        if subject == "text" and wording.text
        else wording
        for (subject, name), wording in wordings.items()
    }


def describe(
    chunks: Iterable[Chunk],
    figures: Iterable[PlacedFigure],
    wordings: DescriptionResults,
    count_tokens: CountTokens,
    *,
    max_tokens: int,
) -> list[Chunk]:
    """Return the chunks of a document, the text of each figure's row, and of each page's, composed.

    It is composed when rows are made, from finished work: another way of describing figures structures no document again.

    Args:
        chunks: As ``chunk`` cut them.
        figures: The document's tagged figures.
        wordings: What models and people wrote.
        count_tokens: Tokens of each text, by the embedder that will read it.
        max_tokens: Tokens a row may hold; a longer description keeps its beginning.
    """
    placed = {figure.placement.order: figure for figure in figures}

    def cut_to_fit(text: str) -> str:
        return searched(begin(text, count_tokens, max_tokens))

    made = []
    for piece in chunks:
        wording = wordings.get(described(piece), DescriptionResult())
        if piece.placement is not None and piece.figure_id is not None:
            made.append(replace(piece, text=cut_to_fit(_of_figure(piece, placed[piece.placement], wording))))
        elif piece.modality == Modality.PAGE:
            text = cut_to_fit(as_printed(wording.text) or piece.tagged_text or "Page without words")
            made.append(replace(piece, text=text, tagged_text=text))
        else:
            made.append(piece)
    return made


def _of_figure(piece: Chunk, figure: PlacedFigure, wording: DescriptionResult) -> str:
    beside = piece.tagged_text.removeprefix(placeholder(piece.figure_id or ""))
    return compose(beside, wording.text, figure.inner_text, figure.section_path)


def compose(caption: str, description: str, inner_text: str, section_path: Sequence[str]) -> str:
    """Return the words of a figure's row, a part a line, never none, so that every figure can be found.

    Args:
        caption: The caption as printed, or else the step that the figure stands by; "" where there is neither.
        description: What a model or a person wrote of it; "" where nobody did.
        inner_text: Words read inside the figure, by OCR or from a drawing's labels; "" where there are none.
        section_path: Titles of the sections around it, outermost first.
    """
    section = section_path[-1] if section_path else ""
    parts = (caption.strip(), as_printed(description), section.strip(), " ".join(inner_text.split()))
    return "\n".join(filter(None, parts)) or "Figure without caption or words"


def as_printed(description: str) -> str:
    """Return what a model or a person wrote as text of a document: one line, which no tag can hide in."""
    return escape(" ".join(description.split()))
