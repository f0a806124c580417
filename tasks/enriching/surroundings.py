"""The document's context of a figure, page or text, for a model's prompt."""

from collections.abc import Iterable

from schemas.documents import Chunk, PlacedFigure
from schemas.filters import Modality
from schemas.tags import placeholder, strip
from tasks.enriching.page_rows import PageWords
from tasks.enriching.prompts import Surroundings

AROUND_CHARACTERS = 600
"""Maximum characters of text on either side of a figure: some 150 tokens."""


def surroundings(title: str, figure: PlacedFigure, chunks: Iterable[Chunk], *, language: str = "") -> Surroundings:
    """Return the context of one placement of a figure, from the document's rows in order."""
    before, after = _neighbouring_text(figure, chunks)
    return Surroundings(
        caption=figure.caption or figure.step,
        section=" > ".join(figure.section_path),
        before=before[-AROUND_CHARACTERS:],
        after=after[:AROUND_CHARACTERS],
        words=figure.inner_text,
        title=title,
        page=str(figure.placement.page),
        language=language,
    )


def surroundings_of_page(title: str, page: PageWords, *, language: str = "") -> Surroundings:
    """Return the context of a page."""
    section = " > ".join(page.section_path)
    return Surroundings(section=section, words=page.text, title=title, page=page.printed, language=language)


def surroundings_of_text(title: str, piece: Chunk, *, language: str = "") -> Surroundings:
    """Return a row of text or table with its context."""
    section, page = " > ".join(piece.section_path), str(piece.regions[0].page) if piece.regions else ""
    return Surroundings(caption=piece.caption, section=section, words=piece.text, title=title, page=page, language=language)


def _neighbouring_text(figure: PlacedFigure, chunks: Iterable[Chunk]) -> tuple[str, str]:
    """Return the text before and after a figure in its row; if it is in several, in the row on its page."""
    mark = placeholder(figure.placement.figure_id or "")
    holding = [piece for piece in chunks if piece.modality == Modality.TEXT and mark in piece.tagged_text]
    if not holding:
        return "", ""
    page = figure.placement.page
    nearest = next((piece for piece in holding if any(part.page == page for part in piece.regions)), holding[0])
    before, _, after = nearest.tagged_text.partition(mark)
    return _one_line(before), _one_line(after)


def _one_line(text: str) -> str:
    return " ".join(strip(text).split())
