"""Compose the text of figures' and pages' rows: from the document, and from descriptions by models and people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.corpus.models import CONTEXT, EntryKind
from schemas.documents import Chunk, PlacedFigure
from schemas.filters import Modality
from schemas.models import Description, Flag, Subject, is_refused
from schemas.ports import LanguageDetector
from schemas.tags import escape, placeholder
from tasks.enriching.caption_quality import flags, missing_input
from tasks.enriching.cut import CountTokens, first_words, without_markup
from tasks.enriching.prompts import Prompt, Surroundings
from tasks.enriching.spaces import text_id

CAPTION_VERSION = "2"
WITHOUT_WORDS = "Figure without caption or words"


@dataclass(frozen=True, slots=True)
class DescriptionResult:
    """A usable description by a captioner or ``PERSON``, or "" and the reasons why there is none; ``flags`` are its doubts."""

    by: str = CONTEXT
    text: str = ""
    flags: tuple[Flag, ...] = ()


def description_result(
    by: str,
    kind: EntryKind,
    prompt: Prompt,
    around: Surroundings,
    description: Description | None,
    languages: LanguageDetector,
) -> DescriptionResult:
    """Return the usable part of a model's reply, with its flags; ``description`` is None before there is a reply."""
    if description is None:
        return DescriptionResult(flags=(missing_input(kind, around) or Flag.NOT_DESCRIBED,))
    reply_flags = flags(description, prompt, around, languages=languages)
    return (
        DescriptionResult(flags=reply_flags)
        if is_refused(reply_flags)
        else DescriptionResult(by, description.text, reply_flags)
    )


def description_subject(piece: Chunk) -> tuple[Subject, str]:
    """Return the subject of a row's description, and its id: a picture's, or the text's."""
    return description_subjects(piece.modality, piece.figure_id, piece.text)


def description_subjects(modality: str, figure_id: str | None, text: str) -> tuple[Subject, str]:
    """Return the same of a row's columns."""
    if figure_id is None:
        return "text", text_id(text)
    return "page" if modality == Modality.PAGE else "figure", figure_id


DescriptionResults = Mapping[tuple[Subject, str], DescriptionResult]
"""The descriptions of a document by subject and id; a missing figure is described by its context."""


def fit_summaries(results: DescriptionResults, count_tokens: CountTokens, *, max_tokens: int) -> DescriptionResults:
    """Return the descriptions with summaries cut to a row's tokens, since they are searched as they are."""
    return {
        (subject, name): replace(result, text=first_words(result.text, count_tokens, max_tokens))
        if subject == "text" and result.text
        else result
        for (subject, name), result in results.items()
    }


def describe(
    chunks: Iterable[Chunk],
    figures: Iterable[PlacedFigure],
    results: DescriptionResults,
    count_tokens: CountTokens,
    *,
    max_tokens: int,
) -> list[Chunk]:
    """Return the chunks of a document with the text of figures' and pages' rows composed, cut to ``max_tokens``.

    It runs when rows are made, so that other descriptions don't structure documents again.
    """
    placed = {figure.placement.order: figure for figure in figures}

    def cut_to_fit(text: str) -> str:
        return without_markup(first_words(text, count_tokens, max_tokens))

    composed_chunks = []
    for piece in chunks:
        result = results.get(description_subject(piece), DescriptionResult())
        if piece.placement is not None and piece.figure_id is not None:
            figure, beside = placed[piece.placement], piece.tagged_text.removeprefix(placeholder(piece.figure_id))
            text = cut_to_fit(compose(beside, result.text, figure.inner_text, figure.section_path))
            composed_chunks.append(replace(piece, text=text))
        elif piece.modality == Modality.PAGE:
            text = cut_to_fit(as_one_line(result.text) or piece.tagged_text or "Page without words")
            composed_chunks.append(replace(piece, text=text, tagged_text=text))
        else:
            composed_chunks.append(piece)
    return composed_chunks


def compose(caption: str, description: str, inner_text: str, section_path: Sequence[str]) -> str:
    """Return the text of a figure's row, a part a line, "" being none; never empty, so that every figure can be found.

    ``caption`` is as printed, or else the adjacent step; ``inner_text`` are words inside the figure, by OCR or labels.
    """
    section = section_path[-1] if section_path else ""
    parts = (caption.strip(), as_one_line(description), section.strip(), " ".join(inner_text.split()))
    return "\n".join(filter(None, parts)) or WITHOUT_WORDS


def as_one_line(description: str) -> str:
    """Return a description as one escaped line."""
    return escape(" ".join(description.split()))
