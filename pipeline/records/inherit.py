"""Documents that a new version takes over from the live one: unchanged, and processed with the same keys."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.corpus.workspace import Workspace
from pipeline.records.evidence import evidence_parts, placement_parts
from pipeline.records.inventory import missing_or_cut
from pipeline.records.ledger import indexed_pages, read_ledger
from pipeline.records.publication import readable_manifest
from pipeline.records.quarantine import read_failures
from pipeline.records.row_parts import DocumentFacts, VersionParts, read_documents, read_parts
from schemas.errors import UNFINISHED, DamagedError, Failure
from schemas.ports import ObjectStore
from schemas.stages import Step
from schemas.versions import Manifest, Plan


@dataclass(frozen=True)
class Inherited:
    """Documents of the parent that the next version takes over, with their number of pages; their rows stay in the parent.

    ``failures`` are those of their pages. ``parts`` and ``facts`` are those of all documents of the parent.
    """

    pages: Mapping[str, int]
    failures: Sequence[Failure]
    version: str | None = None
    """The parent; None where nothing is taken over."""
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

    def evidence(self, store: ObjectStore) -> Iterator[pa.Table]:
        """Yield their evidence."""
        return self._inherited_rows(evidence_parts, store)

    def placements(self, store: ObjectStore) -> Iterator[pa.Table]:
        """Yield their placements."""
        return self._inherited_rows(placement_parts, store)

    def _inherited_rows(
        self, parts: Callable[[ObjectStore, str], Iterator[pa.Table]], store: ObjectStore
    ) -> Iterator[pa.Table]:
        if self.version is not None and self.pages:
            inherited_ids = pa.array(sorted(self.pages), pa.string())
            yield from (_rows_of(table, inherited_ids) for table in parts(store, self.version))


NOTHING = Inherited({}, ())


def inherit(workspace: Workspace, plan: Plan) -> Inherited:
    """Return the documents of a plan whose rows the parent made with the same keys; none where its files are damaged.

    They make a refresh cost as much as the change, and not as the corpus.
    """
    store = workspace.store
    manifest = readable_manifest(store, plan.parent)
    if manifest is None or manifest.keys.get("assembled") != workspace.keys.assembled:
        return NOTHING
    if any(missing_or_cut(store, manifest.version)):
        return NOTHING
    try:
        return _inherited_from(workspace, plan, manifest)
    except DamagedError:
        return NOTHING


def _inherited_from(workspace: Workspace, plan: Plan, manifest: Manifest) -> Inherited:
    store = workspace.store
    failures, parts = read_failures(store, manifest), read_parts(store, manifest.version)
    if failures is None or parts is None:
        return NOTHING
    before = indexed_pages(read_ledger(store, manifest.version))
    # A document that is parsed again was damaged; one that a budget left unread may be read now.
    redone = {doc_id for shard in plan.shards for doc_id in shard}
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


def _rows_of(table: pa.Table, documents: "pa.Array[Any]") -> pa.Table:
    return table.filter(pc.is_in(table.column("doc_id"), documents))
