"""Finished work of documents: which of them are parsed, and what of theirs is embedded."""

from collections.abc import Iterable

from pipeline.corpus.workspace import Workspace
from ray_jobs.documents import is_finished, parsed_folder, read_chunks, read_figures, read_head, structured_folder
from schemas.documents import Chunk, PlacedFigure
from tasks.enriching.caption import describe
from tasks.enriching.captioners import CAPTIONERS
from tasks.enriching.cut import CountTokens
from tasks.enriching.spaces import Passage


def parsed_documents(workspace: Workspace, doc_ids: Iterable[str]) -> list[str]:
    """Return which documents have a finished parse, sorted."""
    store, parse = workspace.store, workspace.keys.parse
    return [doc_id for doc_id in sorted(doc_ids) if is_finished(store, parsed_folder(doc_id, parse))]


def described(
    workspace: Workspace, chunks: Iterable[Chunk], figures: Iterable[PlacedFigure], count_tokens: CountTokens
) -> list[Chunk]:
    """Return the chunks of a document, its figures described as the corpus file says."""
    tokens, captioner = workspace.corpus.chunks.tokens, CAPTIONERS[workspace.corpus.captions.captioner]
    return describe(chunks, figures, count_tokens, max_tokens=tokens, captioner=captioner)


def passages_of(workspace: Workspace, doc_id: str, count_tokens: CountTokens) -> list[Passage]:
    """Return what of each row of a document can be embedded."""
    store, folder = workspace.store, structured_folder(doc_id, workspace.keys.structured)
    title = read_head(store, folder).title
    pieces = described(workspace, read_chunks(store, folder), read_figures(store, folder), count_tokens)
    return [Passage(piece.modality, title, piece.section_path, piece.text, piece.figure_id) for piece in pieces]
