"""Delete documents from every version and from everything that is stored of them.

Versions keep their names: their files are rewritten without the documents, one version after the other. What nothing needs any
more then goes, as by ``prune``, together with model replies that may quote them. The digests stay in a list, by which ``plan``
leaves the documents out. A killed deletion is finished by the next refresh, or by forgetting again.
"""

import json
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from backends.stores.objects import read_model, read_table
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import INDEX_FILE, INDEX_FOLDER, Workspace
from pipeline.records.cache import spent_on_replies
from pipeline.records.collection import fill, open_vectors
from pipeline.records.columns import read_columns
from pipeline.records.descriptions import add_spent, read_spent
from pipeline.records.evidence import evidence_parts, read_placements
from pipeline.records.lease import alone
from pipeline.records.ledger import (
    Forgotten,
    ForgottenDocument,
    indexed_pages,
    read_forgotten,
    read_ledger,
    write_forgotten,
)
from pipeline.records.manifests import manifest_name, manifests, read_manifest, write_inventory
from pipeline.records.notes import DERIVATIONS, StageNote, counts_of, read_notes
from pipeline.records.publication import note_rewritten, this_person
from pipeline.records.retention import update_alias
from pipeline.records.row_parts import (
    DocumentFacts,
    Facts,
    VersionParts,
    by_document,
    new_rows,
    read_documents,
    read_parts,
    write_version_rows,
)
from pipeline.upkeep.prune import prune_all, sweep
from schemas.corpus import LEXICAL_FIELDS
from schemas.errors import UserError
from schemas.evidence import VersionRows
from schemas.ids import key, sha256, version_file
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore
from schemas.reports import ForgetResult, VersionDiff
from schemas.stages import Report, Stage, silent
from schemas.versions import AuditEvent, LedgerRow, Manifest, Status
from tasks.versions.diff import release_note

_DIGEST = re.compile(r"[0-9a-f]{64}")
_GONE = "a forgotten document"
"""What stands in messages in place of a document's name."""


@dataclass(frozen=True)
class _Deletion:
    """What is deleted: digests, and the names of sources that no other document has."""

    doc_ids: frozenset[str]
    sources: frozenset[str]

    def has(self, doc_id: str | None, source: str) -> bool:
        return doc_id in self.doc_ids or (not doc_id and source in self.sources)


def forget(
    workspace: Workspace, source: str, *, dry_run: bool, reason: str | None = None, report: Report = silent
) -> ForgetResult:
    """Delete every document that a source ever was in a kept version, or the one of a digest; or list what would go.

    The lease is held meanwhile. ``reason`` is for the audit log. Raises ``UserError`` where neither a kept version nor the
    corpus's source knows the source, and ``TransientError`` where a refresh is running, the engine doesn't answer, or a
    version can't be read: refresh, and then repeat it.
    """
    with alone(workspace.store, "forget"):
        deletion = _find(workspace, source)
        versions_with_documents = [
            manifest.version
            for manifest in manifests(workspace.store)
            if _has_documents(workspace.store, manifest.version, deletion)
        ]
        before = read_forgotten(workspace.store)
        objects, records = dict[str, int](), dict[str, int]()
        if not dry_run:
            at, by, why = datetime.now(UTC), this_person(), (reason or "").strip() or None
            added_ids = sorted(deletion.doc_ids - before.doc_ids)
            added = [ForgottenDocument(doc_id=doc_id, at=at, by=by, reason=why) for doc_id in added_ids]
            record = Forgotten(
                documents=[*before.documents, *added],
                pending=sorted({*before.pending, *deletion.doc_ids}),
                sources=sorted({*before.sources, *deletion.sources}),
            )
            # Written before anything is deleted: a killed deletion is finished by it, and no refresh takes the
            # documents in again.
            write_forgotten(workspace.store, record)
            objects, records = _finish(workspace, record, resumed=bool(before.pending), report=report)
    return ForgetResult(
        corpus=workspace.corpus.name,
        removed=not dry_run,
        documents=sorted(deletion.doc_ids),
        sources=sorted(deletion.sources),
        versions=versions_with_documents,
        objects=objects,
        records=records,
    )


def finish_forgetting(workspace: Workspace, report: Report = silent) -> None:
    """Finish a deletion that was killed. Call it under the lease; raises as ``forget`` does."""
    noted = read_forgotten(workspace.store)
    if noted.pending:
        _finish(workspace, noted, resumed=True, report=report)


def readmit(workspace: Workspace, source: str) -> list[str]:
    """Let a forgotten document be taken in again, by source or digest, and return the digests, or raise ``UserError``."""
    with alone(workspace.store, "forget"):
        before = read_forgotten(workspace.store)
        doc_ids = {source} if _DIGEST.fullmatch(source) else _digest_in_source(workspace, source)
        readmitted = before.doc_ids & doc_ids
        if not readmitted:
            raise UserError(f"corpus {workspace.corpus.name}: {source} isn't forgotten; see: inset doctor")
        if readmitted.intersection(before.pending):
            raise UserError(
                f"corpus {workspace.corpus.name}: {source} is being deleted; finish it first: "
                f"inset refresh {workspace.corpus.name}"
            )
        remaining = [document for document in before.documents if document.doc_id not in readmitted]
        write_forgotten(workspace.store, before.model_copy(update={"documents": remaining}))
        return sorted(readmitted)


def _find(workspace: Workspace, source: str) -> _Deletion:
    """Return the documents that a source, or digest, stands for, with all their sources."""
    store = workspace.store
    rows: list[LedgerRow] = [row for manifest in manifests(store) for row in read_ledger(store, manifest.version)]
    if _DIGEST.fullmatch(source):
        doc_ids = {source}
    else:
        doc_ids = {row.doc_id for row in rows if row.source == source and row.doc_id} | _digest_in_source(workspace, source)
        if not doc_ids and not any(row.source == source for row in rows):
            raise UserError(
                f"corpus {workspace.corpus.name}: neither a kept version nor the source has {source}; name it as "
                f"'inset search' shows it, below the corpus's source, or by its SHA-256"
            )
    document_sources = {row.source for row in rows if row.doc_id in doc_ids} | ({source} - doc_ids)
    other_sources = {row.source for row in rows if row.doc_id and row.doc_id not in doc_ids}
    return _Deletion(frozenset(doc_ids), frozenset(document_sources - other_sources))


def _digest_in_source(workspace: Workspace, source: str) -> set[str]:
    """Return the digest of a PDF that the corpus's source has now."""
    files = workspace.source()
    if source not in {file.source for file in files.files()}:
        return set()
    return {files.digest(source)}


def _has_documents(store: ObjectStore, version: str, deletion: _Deletion) -> bool:
    return any(deletion.has(row.doc_id, row.source) for row in read_ledger(store, version))


def _finish(
    workspace: Workspace, record: Forgotten, *, resumed: bool, report: Report
) -> tuple[dict[str, int], dict[str, int]]:
    """Delete what is pending; return numbers of deleted objects and cache records by folder."""
    store = workspace.store
    deletion = _Deletion(frozenset(record.pending), frozenset(record.sources))
    # Only finished versions are rewritten, so unfinished ones and those beyond retention go as a whole.
    sweep(workspace, with_spare=True)
    finished_versions = manifests(store)
    for rewritten_count, manifest in enumerate(finished_versions):
        report("rewrite versions", rewritten_count, len(finished_versions))
        _rewrite(workspace, manifest.version, deletion, resumed=resumed)
    report("rewrite versions", len(finished_versions), len(finished_versions))
    for name in store.names("quarantine"):
        _filter_table(store, name, deletion)
    first = next((document for document in record.documents if document.doc_id in deletion.doc_ids), None)
    event = AuditEvent(
        action="forget",
        at=first.at if first else datetime.now(UTC),
        by=first.by if first else this_person(),
        reason=first.reason if first else None,
        from_version=None,
        to_version="",
        documents=sorted(deletion.doc_ids),
    )
    note_rewritten(store, event)
    update_alias(workspace)
    # The budget goes on counting what was paid for the replies that are deleted with the caches.
    paid = spent_on_replies(store)
    if paid.calls or read_spent(store).calls:
        add_spent(store, paid)
    pruned = prune_all(workspace, report)
    write_forgotten(store, record.model_copy(update={"pending": [], "sources": []}))
    return pruned.objects, pruned.records


def _rewrite(workspace: Workspace, version: str, deletion: _Deletion, *, resumed: bool) -> None:
    """Rewrite a version without documents; its manifest comes last, so that a killed rewrite is seen."""
    store, has_documents = workspace.store, _has_documents(workspace.store, version, deletion)
    manifest = read_manifest(store, version)
    if manifest is None:
        return
    counts, changed = _delete_rows(store, version, deletion.doc_ids)
    notes = read_notes(store, version, [Stage.BUILD])
    # Files of a derived collection are shared with those it comes from, deleted rows included.
    derived = Stage.BUILD in notes and notes[Stage.BUILD].counts.get(DERIVATIONS, 1) > 0
    if counts["rows"] != manifest.counts.rows or derived:
        index, vectors = workspace.index(version), open_vectors(store, manifest.spaces)
        columns = read_columns(store, version)
        fill(index, lambda: evidence_parts(store, version), vectors, LEXICAL_FIELDS, columns=columns)
        changed = True
    for file in ("ledger.parquet", "plan.parquet"):
        changed |= _filter_table(store, version_file(version, file), deletion)
    if has_documents or resumed:
        changed |= _delete_reports(store, version)
    # Files that name no document, or are written below.
    separate_files = manifest_name(version), version_file(version, INDEX_FILE), f"{version_file(version, INDEX_FOLDER)}/"
    for name in store.names(version_file(version, "")):
        if name.endswith(".json") and not name.startswith(separate_files):
            changed |= _filter_json(store, name, deletion)
    if not (changed or resumed):
        return
    diff, note = version_file(version, "diff.json"), version_file(version, "release_note.md")
    if store.exists(diff):
        store.replace(note, release_note(read_model(store, diff, VersionDiff)).encode())
    _finish_version(workspace, manifest, deletion, counts)


def _finish_version(workspace: Workspace, manifest: Manifest, deletion: _Deletion, counted: Mapping[str, int]) -> None:
    """Write the inventory and the manifest of a rewritten version."""
    store, version = workspace.store, manifest.version
    ledger = read_ledger(store, version)
    counts = {
        **counted,
        "sources": len(ledger),
        "documents": len(indexed_pages(ledger)),
        "quarantined": len({row.doc_id or row.source for row in ledger if row.status is Status.QUARANTINED}),
        "partly_read": manifest.counts.partly_read,
        "pages": sum(indexed_pages(ledger).values()),
    }
    note_name = version_file(version, f"stages/{Stage.ASSEMBLE}.json")
    if store.exists(note_name):
        note = read_model(store, note_name, StageNote)
        store.replace(note_name, note.model_copy(update={"counts": counts}).model_dump_json().encode())
    sizes = {"sources": sum(row.size for row in ledger), "evidence": counts["evidence_bytes"]}
    fingerprint = manifest.fingerprint
    if "settings" in manifest.keys:
        sources = {row.source: row.doc_id for row in ledger}
        fingerprint = key(settings=manifest.keys["settings"], sources=sources)
    filtered = Manifest.model_validate(_without_documents(json.loads(store.get(manifest_name(version))), deletion))
    rewritten = filtered.model_copy(
        update={
            "counts": counts_of(StageNote(seconds=0, counts=counts)),
            "fingerprint": fingerprint,
            "sizes": {**manifest.sizes, **sizes},
            "ledger": sha256(store.get(version_file(version, "ledger.parquet"))),
        }
    )
    rewritten = rewritten.model_copy(update={"inventory": write_inventory(store, version)})
    store.replace(manifest_name(version), rewritten.model_dump_json(indent=1).encode())


def _delete_rows(store: ObjectStore, version: str, doc_ids: Set[str]) -> tuple[dict[str, int], bool]:
    """Write a version's rows, as parts, without those of some documents; return its counts, and whether there were any."""
    parts, documents = read_parts(store, version), dict[str, DocumentFacts]()
    remaining_rows = []
    if parts is None:  # of release 0.2.0
        rows = VersionRows(pa.concat_tables(evidence_parts(store, version)), read_placements(store, version))
        remaining_rows.append(new_rows(by_document(rows.without(doc_ids))))
    else:
        documents = read_documents(store, version)
    with TemporaryTables() as tables:
        facts = Facts(store, parts or VersionParts(), tables)
        counts = write_version_rows(
            store, version, parts or VersionParts(), documents, doc_ids, remaining_rows, facts, joined=True
        )
    for folder in ("evidence", "placements", "changed") if parts is None else ():
        for name in store.names(version_file(version, folder)):
            store.delete(name)
    return counts, parts is None or not doc_ids.isdisjoint(documents)


def _delete_reports(store: ObjectStore, version: str) -> bool:
    """Delete reports that may quote documents: the pages of ``check``, and results of experiments."""
    names = store.names(version_file(version, "quality"))
    # Files of experiments are one folder deeper than the reports of ``evaluate``, which are filtered as JSON.
    names += [name for name in store.names(version_file(version, "evaluation")) if name.count("/") > 3]
    for name in names:
        store.delete(name)
    return bool(names)


def _filter_table(store: ObjectStore, name: str, deletion: _Deletion) -> bool:
    """Rewrite a table of sources without those of deleted documents; return whether it had any."""
    if not store.exists(name):
        return False
    rows = read_table(store, name)
    documents = zip(rows.column("doc_id").to_pylist(), rows.column("source").to_pylist(), strict=True)
    is_left = [not deletion.has(doc_id, str(source)) for doc_id, source in documents]
    if all(is_left):
        return False
    store.replace(name, to_parquet(rows.filter(pa.array(is_left, pa.bool_())).combine_chunks()))
    return True


def _filter_json(store: ObjectStore, name: str, deletion: _Deletion) -> bool:
    """Rewrite a JSON object without deleted documents; return whether it named any."""
    stored = json.loads(store.get(name))
    remaining = _without_documents(stored, deletion)
    if remaining == stored:
        return False
    store.replace(name, json.dumps(remaining, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return True


def _without_documents(value: Any, deletion: _Deletion) -> Any:
    """Return a JSON value without entries of deleted documents, and with their names replaced in messages."""
    if isinstance(value, dict):
        return {
            name: _without_documents(entry, deletion)
            for name, entry in value.items()
            if name not in deletion.doc_ids | deletion.sources
        }
    if isinstance(value, list):
        return [_without_documents(entry, deletion) for entry in value if not _is_of_document(entry, deletion)]
    if isinstance(value, str):
        return _replaced(value, deletion.doc_ids | deletion.sources)
    return value


def _is_of_document(entry: object, deletion: _Deletion) -> bool:
    if isinstance(entry, str):
        return entry in deletion.doc_ids or entry in deletion.sources
    if isinstance(entry, dict):
        return entry.get("doc_id") in deletion.doc_ids or entry.get("source") in deletion.sources
    return False


def _replaced(text: str, names: Iterable[str]) -> str:
    # Longer names first, since one may contain another, as ``manuals/pump.pdf`` does ``pump.pdf``.
    for name in sorted(names, key=len, reverse=True):
        if name in text:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _GONE, text)
    return text
