"""Put into words what a figure shows, from what the document itself says of it."""

from collections.abc import Iterable
from dataclasses import replace

from schemas.documents import Chunk, PlacedFigure
from schemas.ports import Captioner
from schemas.tags import placeholder
from tasks.enriching.cut import CountTokens, begin, searched

CAPTION_VERSION = "2"


def describe(
    chunks: Iterable[Chunk],
    figures: Iterable[PlacedFigure],
    count_tokens: CountTokens,
    *,
    max_tokens: int,
    captioner: Captioner,
) -> list[Chunk]:
    """Return the chunks of a document, the text of each figure's row composed.

    It is composed when rows are made, from finished work: another way of describing figures structures no document again.

    Args:
        chunks: As ``chunk`` cut them.
        figures: The document's tagged figures.
        count_tokens: Tokens of each text, by the embedder that will read it.
        max_tokens: Tokens a row may hold; a longer description keeps its beginning.
        captioner: Composes the words.
    """
    placed = {figure.placement.order: figure for figure in figures}
    return [
        piece
        if piece.placement is None or piece.figure_id is None
        else replace(
            piece,
            text=searched(begin(_described(piece, placed[piece.placement], captioner), count_tokens, max_tokens)),
        )
        for piece in chunks
    ]


def _described(piece: Chunk, figure: PlacedFigure, captioner: Captioner) -> str:
    beside = piece.tagged_text.removeprefix(placeholder(piece.figure_id or ""))
    return captioner.compose(beside, figure.inner_text, figure.section_path)
