"""Finished work of documents: which of them are parsed, and what of it goes into rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backends.models.registry import TEXT_EMBEDDERS
from pipeline.corpus.workspace import Workspace
from pipeline.records.descriptions import Descriptions
from ray_jobs.documents import (
    is_finished,
    parsed_folder,
    read_chunks,
    read_figures,
    read_head,
    read_placements,
    structured_folder,
)
from schemas.documents import Chunk, Figure, PlacedFigure, Placement
from tasks.enriching.caption import Wording, describe
from tasks.enriching.spaces import Passage


def parsed_documents(workspace: Workspace, doc_ids: Iterable[str]) -> list[str]:
    """Return which documents have a finished parse, sorted."""
    store, parse = workspace.store, workspace.keys.parse
    return [doc_id for doc_id in sorted(doc_ids) if is_finished(store, parsed_folder(doc_id, parse))]


@dataclass(frozen=True)
class StructuredParts:
    """What of a structured document rows are made of; ``wordings`` go by figure."""

    title: str
    chunks: list[Chunk]
    figures: tuple[Figure, ...]
    placements: tuple[Placement, ...]
    placed: tuple[PlacedFigure, ...]
    wordings: Mapping[str, Wording]


class DocumentReader:
    """Reads structured documents, their figures described as the corpus file says."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._count_tokens = TEXT_EMBEDDERS.of(workspace.corpus.embeddings).token_counter()
        self._descriptions = Descriptions(workspace)

    def read(self, doc_id: str, source: str) -> StructuredParts:
        """Return a document's parts.

        Args:
            doc_id: The document.
            source: Its first source, which chooses the captioner.
        """
        store, folder = self._workspace.store, structured_folder(doc_id, self._workspace.keys.structured)
        placed = read_figures(store, folder)
        figures, placements = read_placements(store, folder)
        wordings = self._descriptions.of(source, placed, figures)
        chunks = describe(
            read_chunks(store, folder),
            placed,
            wordings,
            self._count_tokens,
            max_tokens=self._workspace.corpus.chunks.tokens,
        )
        return StructuredParts(read_head(store, folder).title, chunks, figures, placements, placed, wordings)

    def passages(self, doc_id: str, source: str) -> list[Passage]:
        """Return what of each row of a document can be embedded; arguments as for ``read``."""
        parts = self.read(doc_id, source)
        return [Passage(piece.modality, parts.title, piece.section_path, piece.text) for piece in parts.chunks]
