"""Finished documents: which are parsed, which are taken over from the live version, and the parts that rows are made of."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from backends.models.languages import Py3LangId
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.document_files import parsed_file
from backends.stores.objects import existing, unless_damaged
from pipeline.corpus.workspace import Workspace
from pipeline.records.converted import read_converted
from pipeline.records.corrections import corrections_of, ids_by_document
from pipeline.records.descriptions import Descriptions, StructuredFiles, drawn_cache
from pipeline.records.ledger import indexed_pages, read_failures, read_ledger
from pipeline.records.manifests import missing_or_cut, readable_manifest
from pipeline.records.row_parts import DocumentFacts, VersionParts, read_documents, read_parts, rows_of_documents
from schemas.errors import UNFINISHED, Failure
from schemas.evidence import VersionRows
from schemas.ports import ObjectStore
from schemas.stages import Step
from schemas.versions import Manifest, Plan
from tasks.enriching.caption import as_one_line, describe, description_subject, fit_summaries
from tasks.enriching.language import language_of
from tasks.enriching.spaces import RowText
from tasks.versions.assemble import DocumentChunks


@dataclass(frozen=True)
class Inherited:
    """Documents of the parent that the next version takes over, with their number of pages; their rows stay in the parent.

    ``failures`` are those of their pages. ``parts`` and ``facts`` are those of all documents of the parent.
    """

    pages: Mapping[str, int]
    failures: Sequence[Failure]
    version: str | None = None
    """The parent; None if nothing is taken over."""
    parts: VersionParts = field(default_factory=VersionParts)
    facts: Mapping[str, DocumentFacts] = field(default_factory=dict)
    embedded: bool = True
    """Whether their rows have vectors in the spaces of the next version."""

    @property
    def documents(self) -> Set[str]:
        """Ids of the documents."""
        return self.pages.keys()

    def without(self, doc_ids: Collection[str]) -> "Inherited":
        """Return the rest without some documents."""
        if self.documents.isdisjoint(doc_ids):
            return self
        pages = {doc_id: count for doc_id, count in self.pages.items() if doc_id not in doc_ids}
        failures = [failure for failure in self.failures if failure.doc_id in pages]
        return dataclasses.replace(self, pages=pages, failures=failures)

    def converted(self, store: ObjectStore) -> dict[str, str]:
        """Return the names of their converted PDFs, by document id."""
        if self.version is None:
            return {}
        names = read_converted(store, self.version)
        return {doc_id: name for doc_id, name in names.items() if doc_id in self.documents}

    def rows(self, store: ObjectStore) -> Iterator[VersionRows]:
        """Yield their rows, a document at a time."""
        if self.version is not None:
            yield from (rows for _, rows in rows_of_documents(store, self.version, self.documents))


NOTHING = Inherited({}, ())


def inherit(workspace: Workspace, plan: Plan) -> Inherited:
    """Return the documents of a plan whose rows the parent made with the same keys; none if its files are damaged."""
    store = workspace.store
    manifest = readable_manifest(store, plan.parent)
    if manifest is None or manifest.keys.get("assembled") != workspace.keys.assembled:
        return NOTHING
    if any(missing_or_cut(store, manifest.version)):
        return NOTHING
    return unless_damaged(lambda: _inherited_from(workspace, plan, manifest)) or NOTHING


def _inherited_from(workspace: Workspace, plan: Plan, manifest: Manifest) -> Inherited:
    store = workspace.store
    failures, parts = read_failures(store, manifest), read_parts(store, manifest.version)
    # The next version reports the failures of pages again, so without them it takes no document over.
    if failures is None:
        return NOTHING
    before = indexed_pages(read_ledger(store, manifest.version))
    corrected, before_corrected = map(ids_by_document, (workspace.by_hand, corrections_of(store, manifest.version)))
    # A document that is parsed again was damaged; one that a budget left unread may be read now.
    redone = {doc_id for shard in plan.shards for doc_id in shard}
    redone |= {
        doc_id for doc_id in {**corrected, **before_corrected} if corrected.get(doc_id) != before_corrected.get(doc_id)
    }
    redone |= {failure.doc_id for failure in failures if failure.doc_id and failure.code in UNFINISHED}
    pages = {
        document.doc_id: before[document.doc_id]
        for document in plan.documents
        if document.doc_id in before and document.doc_id not in redone
    }
    # Tagged copies that failed are tried again.
    failures = [failure for failure in failures if failure.doc_id in pages and failure.step != Step.TAG]
    facts, embedded = read_documents(store, manifest.version), manifest.spaces == workspace.spaces
    return Inherited(pages, failures, manifest.version, parts, facts, embedded)


def parsed_documents(workspace: Workspace, doc_ids: Iterable[str]) -> list[str]:
    """Return the documents that are parsed, sorted."""
    files = {parsed_file(doc_id, workspace.keys.parse): doc_id for doc_id in doc_ids}
    return sorted(files[name] for name in existing(workspace.store, "parsed", files))


class DocumentReader:
    """Reads structured documents with their descriptions."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._drawn = drawn_cache(workspace)
        self._count_tokens = TEXT_EMBEDDERS.find(workspace.corpus.embedding_models.text_model).token_counter()
        self._languages = Py3LangId()
        self._descriptions = Descriptions(workspace)

    def read(self, doc_id: str, sources: tuple[str, ...]) -> DocumentChunks:
        """Return what rows are made of."""
        files = StructuredFiles(self._workspace, doc_id, self._drawn)
        tokens = self._workspace.corpus.chunks.tokens
        wordings = fit_summaries(self._descriptions.of(files), self._count_tokens, max_tokens=tokens)
        return DocumentChunks(
            doc_id=doc_id,
            title=files.head.title,
            date=files.head.date,
            sources=sources,
            chunks=describe(files.rows(), files.figures, wordings, self._count_tokens, max_tokens=tokens),
            figures=files.all_figures,
            placements=files.placements,
            captions={figure.placement.order: figure.caption for figure in files.figures},
            wordings=wordings,
            language=language_of(files.chunks, self._languages),
            labels=files.head.labels,
            doc_type=self._workspace.corpus.doc_type(sources),
            tree=files.tree,
        )

    def passages(self, doc_id: str, source: str) -> list[RowText]:
        """Return what can be embedded of each row of a document."""
        parts = self.read(doc_id, (source,))
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
