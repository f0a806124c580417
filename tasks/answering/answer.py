"""Answer a question out of passages, with the figures where the pages put them."""

import re
from collections.abc import Iterable, Sequence

from schemas.corpus import AnswerOptions
from schemas.evidence import AnswerResult, Citation, FigurePart, Hit, Modality, TextPart
from schemas.tags import TagTemplate, restore


def least_similarity(similarities: Iterable[float], options: AnswerOptions) -> float | None:
    """Return how similar a passage has to be to its question to answer it; None where none is similar enough: abstain.

    Args:
        similarities: Cosine similarity of the passages nearest to the question.
        options: The corpus's floor, and how far behind the nearest passage another may lie.
    """
    best = max(similarities, default=0.0)
    return best - options.similarity_margin if best >= options.min_similarity else None


def answer(version: str, hits: Sequence[Hit], template: TagTemplate, *, passages: int) -> AnswerResult:
    """Return the best passages as one ordered answer, each with its figures in place and one citation.

    Extractive: every word is the documents'. A figure that a chosen passage shows already isn't shown again; a tag that
    names no figure of its hit is dropped, never shown as a broken picture.

    Args:
        version: The version that all hits come from.
        hits: Passages, best first; [] makes an abstention.
        template: How the version's tags are spelled.
        passages: Passages at most.
    """
    parts: list[TextPart | FigurePart] = []
    citations: list[Citation] = []
    shown: set[str] = set()
    for hit in hits:
        if len(citations) == passages:
            break
        if hit.modality is Modality.FIGURE and set(hit.figure_refs) <= shown:
            continue
        n = len(citations) + 1
        made = _parts(hit, n, template, shown)
        if made:
            parts.extend(made)
            citations.append(_citation(hit, n))
    return AnswerResult(version=version, abstained=not parts, parts=parts, citations=citations)


def _parts(hit: Hit, n: int, template: TagTemplate, shown: set[str]) -> list[TextPart | FigurePart]:
    parts: list[TextPart | FigurePart] = []
    captions: list[str] = []
    figures = {figure.number: figure for figure in hit.figures}
    for words, number in template.split(hit.tagged_text):
        if number is None:
            parts.append(TextPart(text=words, citations=[n]))
        elif (figure := figures.get(number)) is not None and figure.figure_id not in shown:
            shown.add(figure.figure_id)
            captions.append(figure.caption)
            parts.append(
                FigurePart(
                    figure_id=figure.figure_id,
                    tag=words,
                    caption=restore(figure.caption),
                    page=figure.page,
                    bbox=figure.bbox,
                    citations=[n],
                )
            )
    return [kept for part in parts if (kept := _without(captions, part)) is not None]


def _without(captions: Sequence[str], part: TextPart | FigurePart) -> TextPart | FigurePart | None:
    """Take captions out of running text, since each stands under its figure; None where nothing is left."""
    if part.type == "figure":
        return part
    text = part.text
    for caption in filter(None, captions):
        spelled = r"\s+".join(map(re.escape, caption.split()))
        # Tried once for each run of white space, not once for each of its characters.
        text = re.sub(rf"(?<!\s)\s*+{spelled}\s*+", "\n\n", text, count=1)
    text = restore(text).strip()
    return part.model_copy(update={"text": text}) if text else None


def _citation(hit: Hit, n: int) -> Citation:
    return Citation(
        n=n,
        evidence_id=hit.evidence_id,
        source=hit.source,
        page=hit.page,
        bbox=hit.bbox,
        doc_id=hit.doc_id,
        section_path=hit.section_path,
        regions=hit.regions,
        tagged_pdf=hit.tagged_pdf,
    )
