"""Put into words what a figure shows: from what the document itself says of it, and what a model or a person wrote of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.corpus import CONTEXT, CaptionerKind
from schemas.documents import Chunk, PlacedFigure
from schemas.flags import Flag, is_refused
from schemas.generation import Description
from schemas.ports import LanguageDetector
from schemas.tags import escape, placeholder
from tasks.enriching.caption_quality import flags, unaskable
from tasks.enriching.cut import CountTokens, begin, searched
from tasks.enriching.prompts import Prompt, Surroundings

CAPTION_VERSION = "2"


@dataclass(frozen=True, slots=True)
class Wording:
    """What describes a figure beside its document's own words.

    Attributes:
        by: A captioner's name, or ``PERSON``.
        text: The description; "" where there is none that may be used.
        flags: What is doubtful about it, or why there is none.
    """

    by: str = CONTEXT
    text: str = ""
    flags: tuple[Flag, ...] = ()


def wording_of(
    by: str,
    kind: CaptionerKind,
    prompt: Prompt,
    around: Surroundings,
    made: Description | None,
    languages: LanguageDetector,
) -> Wording:
    """Return what of a model's reply describes a figure, and what is doubtful about it.

    Args:
        by: The captioner's name.
        kind: Of what kind it is.
        prompt: What it was asked, and what its replies are expected to be like.
        around: What the document says around the figure.
        made: The reply; None where there is none yet.
        languages: Detects another language than that of the document.
    """
    if made is None:
        return Wording(flags=(unaskable(kind, around) or Flag.NOT_DESCRIBED,))
    found = flags(made, prompt, around, languages=languages)
    return Wording(flags=found) if is_refused(found) else Wording(by, made.text, found)


def describe(
    chunks: Iterable[Chunk],
    figures: Iterable[PlacedFigure],
    wordings: Mapping[str, Wording],
    count_tokens: CountTokens,
    *,
    max_tokens: int,
) -> list[Chunk]:
    """Return the chunks of a document, the text of each figure's row composed.

    It is composed when rows are made, from finished work: another way of describing figures structures no document again.

    Args:
        chunks: As ``chunk`` cut them.
        figures: The document's tagged figures.
        wordings: By figure; a figure without one is described by its context alone.
        count_tokens: Tokens of each text, by the embedder that will read it.
        max_tokens: Tokens a row may hold; a longer description keeps its beginning.
    """
    placed = {figure.placement.order: figure for figure in figures}
    return [
        piece
        if piece.placement is None or piece.figure_id is None
        else replace(
            piece,
            text=searched(
                begin(_described(piece, placed[piece.placement], wordings.get(piece.figure_id)), count_tokens, max_tokens)
            ),
        )
        for piece in chunks
    ]


def _described(piece: Chunk, figure: PlacedFigure, wording: Wording | None) -> str:
    beside = piece.tagged_text.removeprefix(placeholder(piece.figure_id or ""))
    return compose(beside, wording.text if wording else "", figure.inner_text, figure.section_path)


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
