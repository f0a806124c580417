"""Finished work of documents: which of them are parsed, and what of theirs is embedded."""

from collections.abc import Iterable

from pipeline.corpus.workspace import Workspace
from ray_jobs.documents import is_finished, parsed_folder, read_chunks, read_head, structured_folder
from tasks.enriching.embed import search_text


def parsed_documents(workspace: Workspace, doc_ids: Iterable[str]) -> list[str]:
    """Return which documents have a finished parse, sorted."""
    store, parse = workspace.store, workspace.keys.parse
    return [doc_id for doc_id in sorted(doc_ids) if is_finished(store, parsed_folder(doc_id, parse))]


def texts_of(workspace: Workspace, doc_id: str) -> list[str]:
    """Return the text of each chunk of a document, as the embedder and BM25 see it."""
    folder = structured_folder(doc_id, workspace.keys.structured)
    title = read_head(workspace.store, folder).title
    return [search_text(title, piece.section_path, piece.text) for piece in read_chunks(workspace.store, folder)]
