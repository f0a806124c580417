"""Read finished documents: which are parsed, and the parts that rows are made of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from backends.models.language import Py3LangId
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.document_files import parsed_file
from backends.stores.objects import existing
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.caption_targets import StructuredFiles, caption_targets, drawn_cache, target_ids
from pipeline.records.descriptions import Descriptions
from pipeline.records.inherit import Inherited
from schemas.documents import Chunk, DrawnPage, Figure, Node, PlacedFigure, Placement
from schemas.generation import Subject
from tasks.enriching.caption import DescriptionResults, as_one_line, describe, description_subject, fit_summaries
from tasks.enriching.language import language_of
from tasks.enriching.spaces import RowText

WITHOUT_TAG: tuple[Subject, ...] = ("page", "text")
"""Subjects that have no tag, and so no number."""


def parsed_documents(workspace: Workspace, doc_ids: Iterable[str]) -> list[str]:
    """Return the documents that are parsed, sorted."""
    files = {parsed_file(doc_id, workspace.keys.parse): doc_id for doc_id in doc_ids}
    return sorted(files[name] for name in existing(workspace.store, "parsed", files))


@dataclass(frozen=True)
class StructuredParts:
    """The parts of a structured document that rows are made of."""

    title: str
    date: str | None
    chunks: list[Chunk]
    figures: tuple[Figure, ...]
    placements: tuple[Placement, ...]
    placed: tuple[PlacedFigure, ...]
    wordings: DescriptionResults
    drawn: tuple[DrawnPage, ...]
    language: str | None
    labels: tuple[str, ...]
    tree: tuple[Node, ...]


class DocumentReader:
    """Reads structured documents with their descriptions.

    ``documents`` are all of the version whose rows are made, ``inherited`` all others.
    """

    def __init__(self, workspace: Workspace, documents: Iterable[str], inherited: Inherited) -> None:
        self._workspace = workspace
        self._drawn = drawn_cache(workspace)
        self._count_tokens = TEXT_EMBEDDERS.find(workspace.corpus.embeddings.text_model).token_counter()
        self._languages = Py3LangId()
        self._descriptions = Descriptions(workspace, lambda: _describable(workspace, documents, inherited, self._drawn))

    def read(self, doc_id: str, source: str) -> StructuredParts:
        """Return a document's parts; its first source selects the captioner."""
        files = StructuredFiles(self._workspace, doc_id, self._drawn)
        tokens = self._workspace.corpus.chunks.tokens
        wordings = fit_summaries(self._descriptions.of(source, files), self._count_tokens, max_tokens=tokens)
        rows = describe(files.rows(), files.figures, wordings, self._count_tokens, max_tokens=tokens)
        language = language_of(files.chunks, self._languages)
        head = files.head
        return StructuredParts(
            *(
                head.title,
                head.date,
                rows,
                files.all_figures,
                files.placements,
                files.figures,
                wordings,
                files.drawn,
                language,
            ),
            head.labels,
            files.tree,
        )

    def passages(self, doc_id: str, source: str) -> list[RowText]:
        """Return what can be embedded of each row of a document; arguments as for ``read``."""
        parts = self.read(doc_id, source)
        return [
            RowText(
                *(piece.modality, parts.title, piece.section_path, piece.text, piece.figure_id),
                description=as_one_line(parts.wordings[name].text)
                if (name := description_subject(piece)) in parts.wordings
                else None,
                caption=piece.caption,
                tagged_text=piece.tagged_text,
            )
            for piece in parts.chunks
        ]


def _describable(
    workspace: Workspace, documents: Iterable[str], inherited: Inherited, drawn: RecordCache | None
) -> Iterator[tuple[str, int | None]]:
    """Yield the ids that corrections may name, some more than once, and of figures the SHA-1 or its last digits."""
    for doc_id in documents:
        files = StructuredFiles(workspace, doc_id, drawn)
        yield from ((figure.figure_id, int(figure.sha1, 16)) for figure in files.all_figures)
        yield from ((name, None) for subject in WITHOUT_TAG for name in caption_targets(subject, files))
    for part in inherited.placements(workspace.store):
        for row in part.select(["figure_id", "number"]).to_pylist():
            if row["number"] is not None:
                yield row["figure_id"], int(row["number"])
    for part in inherited.evidence(workspace.store):
        yield from ((name, None) for subject in WITHOUT_TAG for name in target_ids(subject, part))
