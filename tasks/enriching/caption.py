"""Put into words what a figure shows, from what the document itself says of it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas.documents import Chunk, PlacedFigure
from schemas.tags import placeholder
from tasks.enriching.cut import CountTokens, begin, searched

CAPTION_VERSION = "2"


def describe(
    chunks: Iterable[Chunk], figures: Iterable[PlacedFigure], count_tokens: CountTokens, *, max_tokens: int
) -> list[Chunk]:
    """Return the chunks of a document, the text of each figure's row composed.

    It is composed when rows are made, from finished work: another way of describing figures structures no document again.

    Args:
        chunks: As ``chunk`` cut them.
        figures: The document's tagged figures.
        count_tokens: Tokens of each text, by the embedder that will read it.
        max_tokens: Tokens a row may hold; a longer description keeps its beginning.
    """
    placed = {figure.placement.order: figure for figure in figures}
    return [
        piece
        if piece.placement is None or piece.figure_id is None
        else replace(piece, text=searched(begin(_described(piece, placed[piece.placement]), count_tokens, max_tokens)))
        for piece in chunks
    ]


def _described(piece: Chunk, figure: PlacedFigure) -> str:
    beside = piece.tagged_text.removeprefix(placeholder(piece.figure_id or ""))
    return compose(beside, figure.inner_text, figure.section_path)


def compose(caption: str, inner_text: str, section_path: Sequence[str]) -> str:
    """Return the ``context`` caption: what the document says of a figure, its section's title and the words inside it.

    Args:
        caption: The caption as printed, or else the step that the figure stands by; "" where there is neither.
        inner_text: Words read inside the figure, by OCR or from a drawing's labels; "" where there are none.
        section_path: Titles of the sections around it, outermost first.

    Returns:
        One text, a part a line, empty parts left out; never empty, so that every figure can be found.
    """
    section = section_path[-1] if section_path else ""
    parts = [part for part in (caption.strip(), section.strip(), " ".join(inner_text.split())) if part]
    return "\n".join(parts) or "Figure without caption or words"
