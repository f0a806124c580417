"""Answer a question out of passages, with the figures where the pages put them."""

import re
from collections.abc import Mapping, Sequence

from schemas.answers import AnswerResult, Citation, FigurePart, Part, TablePart, TextPart
from schemas.evidence import CitedFigure, Hit, Modality
from schemas.tags import TagTemplate, restore
from tasks.tables.mark_up import markdown


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
    parts: list[Part] = []
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


def _parts(hit: Hit, n: int, template: TagTemplate, shown: set[str]) -> list[Part]:
    figures = {figure.number: figure for figure in hit.figures}
    parts: list[TextPart | FigurePart] = []
    for words, number in template.split(_before_cells(hit) if hit.tagged_rows else hit.tagged_text):
        if number is None:
            parts.append(TextPart(text=words, citations=[n]))
        elif (figure := figures.get(number)) is not None and figure.figure_id not in shown:
            shown.add(figure.figure_id)
            parts.append(_figure(figure, words, n))
    captions = [part.caption for part in parts if part.type == "figure"]
    made: list[Part] = [kept for part in parts if (kept := _without(captions, part)) is not None]
    return [*made, _table(hit, figures, n, template, shown)] if hit.tagged_rows else made


def _before_cells(hit: Hit) -> str:
    """Return what a table's text says before its cells: its caption."""
    cells = markdown(hit.tagged_rows)
    return hit.tagged_text.removesuffix(cells) if hit.tagged_text.endswith(cells) else hit.caption


def _table(hit: Hit, figures: Mapping[str, CitedFigure], n: int, template: TagTemplate, shown: set[str]) -> TablePart:
    """Return a table with its figures in their cells; a tag of none that is shown here is left out."""
    placed: dict[str, FigurePart] = {}

    def cell(text: str) -> str:
        kept = []
        for words, number in template.split(text):
            if number is None:
                kept.append(restore(words))
            elif words in placed:
                kept.append(words)
            elif (figure := figures.get(number)) is not None and figure.figure_id not in shown:
                shown.add(figure.figure_id)
                placed[words] = _figure(figure, words, n)
                kept.append(words)
        return "".join(kept).strip()

    return TablePart(
        rows=[[cell(text) for text in row] for row in hit.tagged_rows], figures=list(placed.values()), citations=[n]
    )


def _figure(figure: CitedFigure, tag: str, n: int) -> FigurePart:
    return FigurePart(
        figure_id=figure.figure_id,
        tag=tag,
        caption=restore(figure.caption),
        page=figure.page,
        bbox=figure.bbox,
        citations=[n],
    )


def _without(captions: Sequence[str], part: TextPart | FigurePart) -> TextPart | FigurePart | None:
    """Take captions out of running text, since each stands under its figure; None where nothing is left."""
    if part.type == "figure":
        return part
    text = restore(part.text)
    for caption in filter(None, captions):
        spelled = r"\s+".join(map(re.escape, caption.split()))
        # Tried once for each run of white space, not once for each of its characters.
        text = re.sub(rf"(?<!\s)\s*+{spelled}\s*+", "\n\n", text, count=1)
    text = text.strip()
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
