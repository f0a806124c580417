"""What a new version takes over from the live one: documents that are what they were, read by what they were read by."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.corpus.workspace import Workspace
from pipeline.records.damage_note import read_damage_note
from pipeline.records.evidence import evidence_parts, placement_parts, row_files, version_rows
from pipeline.records.ledger import indexed_pages, read_ledger
from pipeline.records.notes import read_notes
from pipeline.records.publication import readable_manifest
from pipeline.records.quarantine import read_failures
from schemas.errors import UNFINISHED, DamagedError, Failure
from schemas.evidence import VersionRows
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.stages import Stage, Step
from schemas.versions import Manifest, Plan


@dataclass(frozen=True)
class Inherited:
    """Documents of the parent that go into the next version as they are, by their number of pages; their rows stay there.

    ``failures`` are what could not be read of their pages.
    """

    pages: Mapping[str, int]
    failures: Sequence[Failure]
    version: str | None = None
    """The parent, where there are any."""

    @property
    def documents(self) -> Set[str]:
        """Ids of the documents."""
        return self.pages.keys()

    def without(self, doc_ids: Collection[str]) -> "Inherited":
        """Return what is left without some documents."""
        if self.documents.isdisjoint(doc_ids):
            return self
        pages = {doc_id: count for doc_id, count in self.pages.items() if doc_id not in doc_ids}
        failures = [failure for failure in self.failures if failure.doc_id in pages]
        return dataclasses.replace(self, pages=pages, failures=failures)

    def rows(self, store: ObjectStore) -> Iterator[VersionRows]:
        """Yield their rows, by document id."""
        if self.version is None or not self.pages:
            return
        known = pa.array(sorted(self.pages), pa.string())
        for rows in version_rows(store, self.version):
            yield VersionRows(*(_of(table, known) for table in (rows.evidence, rows.placements)))

    def evidence(self, store: ObjectStore) -> Iterator[pa.Table]:
        """Yield their evidence alone."""
        return self._kept(evidence_parts, store)

    def placements(self, store: ObjectStore) -> Iterator[pa.Table]:
        """Yield their placements alone."""
        return self._kept(placement_parts, store)

    def _kept(self, parts: Callable[[ObjectStore, str], Iterator[pa.Table]], store: ObjectStore) -> Iterator[pa.Table]:
        if self.version is not None and self.pages:
            known = pa.array(sorted(self.pages), pa.string())
            yield from (_of(table, known) for table in parts(store, self.version))


NOTHING = Inherited({}, ())


def inherit(workspace: Workspace, plan: Plan, *, is_first: bool = False) -> Inherited:
    """Return the documents of a plan that its parent made rows of by the very same keys: there is nothing to do for them.

    Going through them one by one again would make a refresh cost what the corpus costs, and not what its change does.

    Args:
        workspace: The corpus.
        plan: Of the version to be made.
        is_first: Read all rows of the parent, to see that they are whole. Later stages go by what the first one noted: what is
            damaged meanwhile they find as they read the rows, and whoever begins again after that has them read again.
    """
    store = workspace.store
    manifest = readable_manifest(store, plan.parent)
    if manifest is None or manifest.keys.get("assembled") != workspace.keys.assembled:
        return NOTHING
    try:
        if is_first or not _was_whole(store, plan.version, manifest.version):
            for name in row_files(store, manifest.version):
                store.get(name)  # found damaged while rows are made of it, it would be too late
        return _taken_over(workspace, plan, manifest)
    except DamagedError:
        return NOTHING


def _was_whole(store: ObjectStore, version: str, parent: str) -> bool:
    """Return whether ``enrich`` found the parent's rows whole, and nobody has found one of its files damaged since."""
    note = read_notes(store, version, (Stage.ENRICH,)).get(Stage.ENRICH)
    damaged = read_damage_note(store).names
    return (
        note is not None and note.whole == parent and not any(name.startswith(version_file(parent, "")) for name in damaged)
    )


def _taken_over(workspace: Workspace, plan: Plan, manifest: Manifest) -> Inherited:
    store = workspace.store
    failures = read_failures(store, manifest)
    if failures is None:
        return NOTHING
    before = indexed_pages(read_ledger(store, manifest.version))
    # What is parsed again, though the parent has it, was damaged; and what a budget left unread may be read now.
    anew = {doc_id for shard in plan.shards for doc_id in shard}
    anew |= {failure.doc_id for failure in failures if failure.doc_id and failure.code in UNFINISHED}
    pages = {
        document.doc_id: before[document.doc_id]
        for document in plan.documents
        if document.doc_id in before and document.doc_id not in anew
    }
    # Tagged copies that could not be made are tried again.
    failures = [failure for failure in failures if failure.doc_id in pages and failure.step != Step.TAG]
    return Inherited(pages, failures, manifest.version)


def _of(table: pa.Table, documents: "pa.Array[Any]") -> pa.Table:
    return table.filter(pc.is_in(table.column("doc_id"), documents))
