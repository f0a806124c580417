"""Delete documents from every version and from everything that is stored of them.

Versions never change: a version without the documents goes live in place of one that held them, and every other version that
held them, names them, or shares files with one that did is removed. What nothing needs any more then goes, as by ``prune``,
together with model replies that may quote them. The digests stay in a list, by which ``plan`` leaves the documents out. A killed
deletion is finished by the next refresh, or by forgetting again.
"""

import contextlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from tenacity import Retrying, retry_if_exception_type, wait_fixed

from backends.stores.objects import read_table
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import INDEX_FOLDER, Workspace
from pipeline.published.webhooks import forget_in_webhooks
from pipeline.records import access
from pipeline.records.columns import write_columns
from pipeline.records.corrections import remove_corrections
from pipeline.records.differences import write_numbers_diff
from pipeline.records.feedback import remove_feedback
from pipeline.records.indexing import put_into_engine
from pipeline.records.lease import HeldError, alone
from pipeline.records.ledger import (
    Forgotten,
    ForgottenDocument,
    change_forgotten,
    document_counts,
    read_failures,
    read_forgotten,
    read_ledger,
    write_failures,
    write_ledger,
)
from pipeline.records.manifests import (
    manifest_name,
    manifests,
    named_manifest,
    next_version,
    write_inventory,
)
from pipeline.records.notes import (
    DERIVATIONS,
    StageNote,
    counts_of,
    read_last_refresh,
    read_notes,
    write_last_refresh,
    write_note,
)
from pipeline.records.publication import read_pointer, replace_forgotten, rewrite_reasons, this_person
from pipeline.records.retention import removable_versions, update_alias
from pipeline.records.row_parts import FIGURES, Facts, read_documents, read_parts, write_version_rows
from pipeline.records.tagged_copies import tagged_copies, write_copies
from pipeline.upkeep.prune import prune_all, remove_versions, sweep
from schemas.errors import TransientError, UserError
from schemas.ids import document_file, key, sha256, version_file
from schemas.parquet import Rows
from schemas.ports import ObjectStore
from schemas.reports import ForgetResult, PruneResult
from schemas.rights import Rights
from schemas.stages import Report, Stage, silent
from schemas.versions import UNDONE, AuditEvent, Lease, LedgerRow, Manifest

_DIGEST = re.compile(r"[0-9a-f]{64}")
_GONE = "a forgotten document"
"""What stands in messages in place of a document's name."""

_RUN = "forget-"
"""Begins the names of runs that made a version here."""

_WAIT_S = 1.0
"""Seconds between two looks whether a running refresh has ended."""


@dataclass(frozen=True)
class _Deletion:
    """What is deleted: digests, and the names of sources that no other document has."""

    doc_ids: frozenset[str]
    sources: frozenset[str]

    def has(self, doc_id: str | None, source: str) -> bool:
        return doc_id in self.doc_ids or (not doc_id and source in self.sources)

    def is_named_in(self, text: str) -> bool:
        """Whether a JSON text names one of them."""
        names = {json.dumps(name, ensure_ascii=False)[1:-1] for name in self._names}
        return any(re.search(rf"(?<![\w/]){re.escape(name)}(?!\w)", text) for name in names)

    def redacted(self, text: str) -> str:
        """Return a text with their names replaced."""
        # Longer names first, since one may contain another, as ``manuals/pump.pdf`` does ``pump.pdf``.
        for name in sorted(self._names, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _GONE, text)
        return text

    @property
    def _names(self) -> frozenset[str]:
        return self.doc_ids | self.sources


def forget(
    workspace: Workspace,
    source: str,
    *,
    dry_run: bool,
    reason: str | None = None,
    by: str | None = None,
    report: Report = silent,
) -> ForgetResult:
    """Delete every document that a source ever was in a kept version, or the one of a digest; or list what would go.

    A refresh that is running is waited for; from now on no refresh takes the documents in. ``by``, by default the operating
    system's user, and ``reason`` are for the audit log. Raises ``UserError`` where neither a kept version nor the corpus's
    source knows the source, and ``TransientError`` where the engine doesn't answer, or a version can't be read: refresh, and
    then repeat it.
    """
    store, deletion = workspace.store, _find(workspace, source)
    holders = _holders(store, deletion)
    removed_versions = {*holders, *removable_versions(workspace)}
    kept_versions = [manifest.version for manifest in manifests(store) if manifest.version not in removed_versions]
    live = read_pointer(store)
    result = ForgetResult(
        corpus=workspace.corpus.name,
        removed=False,
        documents=sorted(deletion.doc_ids),
        sources=sorted(deletion.sources),
        versions=holders,
        replaced=live.version if live is not None and live.version in holders else None,
        pinned=[version for version in holders if version in workspace.corpus.retention.pinned],
        kept=kept_versions,
    )
    if dry_run:
        return result
    noted = _note(store, deletion, by or this_person(), deletion.redacted((reason or "").strip()) or None)
    pruned: PruneResult | None = None
    free = Retrying(retry=retry_if_exception_type(HeldError), wait=wait_fixed(_WAIT_S), reraise=True)
    with contextlib.ExitStack() as stack:
        lease = free(lambda: stack.enter_context(alone(store, "forget")))
        # A refresh that began meanwhile may have finished the deletion.
        if read_forgotten(store).pending or not noted.pending:
            pruned = _finish(workspace, lease, report)
    live = read_pointer(store)
    update: dict[str, object] = {"removed": True, "version": live.version if live is not None and result.replaced else None}
    if pruned is not None:
        update |= {"objects": pruned.objects, "records": pruned.records}
    return result.model_copy(update=update)


def finish_forgetting(workspace: Workspace, lease: Lease) -> None:
    """Finish a deletion that was killed. Call it under the lease; raises as ``forget`` does."""
    if read_forgotten(workspace.store).pending:
        _finish(workspace, lease, silent)


def readmit(workspace: Workspace, source: str) -> list[str]:
    """Let a forgotten document be taken in again, by source or digest, and return the digests, or raise ``UserError``."""
    doc_ids = {source} if _DIGEST.fullmatch(source) else _digest_in_source(workspace, source)
    readmitted: frozenset[str] = frozenset()

    def without(before: Forgotten) -> Forgotten:
        nonlocal readmitted
        readmitted = before.doc_ids & doc_ids
        if not readmitted:
            raise UserError(f"corpus {workspace.corpus.name}: {source} isn't forgotten; see: inset doctor")
        if readmitted.intersection(before.pending):
            raise UserError(
                f"corpus {workspace.corpus.name}: {source} is being deleted; finish it first: "
                f"inset refresh {workspace.corpus.name}"
            )
        remaining = [document for document in before.documents if document.doc_id not in readmitted]
        return before.model_copy(update={"documents": remaining})

    change_forgotten(workspace.store, without)
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
    return {files.digest(source)[0]}


def _note(store: ObjectStore, deletion: _Deletion, by: str, reason: str | None) -> Forgotten:
    """Note what is to be deleted before anything is: a killed deletion is finished by it."""
    at = datetime.now(UTC)

    def with_deletion(before: Forgotten) -> Forgotten:
        added = [
            ForgottenDocument(doc_id=doc_id, at=at, by=by, reason=reason)
            for doc_id in sorted(deletion.doc_ids - before.doc_ids)
        ]
        return Forgotten(
            documents=[*before.documents, *added],
            pending=sorted({*before.pending, *deletion.doc_ids}),
            sources=sorted({*before.sources, *deletion.sources}),
        )

    return change_forgotten(store, with_deletion)


def _holders(store: ObjectStore, deletion: _Deletion) -> list[str]:
    """Return the finished versions to remove, newest first.

    They hold a document or name one; or their index was derived from that of a version that held it, or that is gone, of which
    nobody knows: deleted rows stay in files that a derived index shares.
    """
    finished = {manifest.version: manifest for manifest in manifests(store)}
    holders = {version for version in finished if _holds(store, version, deletion)}
    if not holders and not any(store.exists(document_file(doc_id)) for doc_id in deletion.doc_ids):
        return []
    return [version for version in finished if version in holders or _derives_from_any(store, finished, version, holders)]


def _holds(store: ObjectStore, version: str, deletion: _Deletion) -> bool:
    """Return whether a version's ledger or facts have a document, or a report in its folder names one."""
    if any(deletion.has(row.doc_id, row.source) for row in read_ledger(store, version)):
        return True
    doc_ids = pa.array(sorted(deletion.doc_ids), pa.string())
    figures = (read_table(store, file, FIGURES) for file in read_parts(store, version).figures)
    if any(pc.any(pc.is_in(table.column("doc_id"), doc_ids)).as_py() for table in figures):
        return True
    index = f"{version_file(version, INDEX_FOLDER)}/"
    names = [
        name for name in store.names(version_file(version, "")) if name.endswith(".json") and not name.startswith(index)
    ]
    return any(deletion.is_named_in(store.get(name).decode("utf-8", "replace")) for name in names)


def _derives_from_any(store: ObjectStore, finished: Mapping[str, Manifest], version: str, holders: Iterable[str]) -> bool:
    """Return whether a version's collection was derived, by one or more steps, from one of ``holders`` or one that is gone."""
    notes = read_notes(store, version, [Stage.BUILD])
    for _ in range(notes[Stage.BUILD].counts.get(DERIVATIONS, 0) if Stage.BUILD in notes else 0):
        parent = finished[version].parent
        if parent is None or parent in holders or parent not in finished:
            return True
        version = parent
    return False


def _finish(workspace: Workspace, lease: Lease, report: Report) -> PruneResult:
    """Delete what is pending."""
    store, record = workspace.store, read_forgotten(workspace.store)
    deletion = _Deletion(frozenset(record.pending), frozenset(record.sources))
    sweep(workspace)  # unfinished versions, and those beyond retention
    holders, live = _holders(store, deletion), read_pointer(store, fresh=True)
    # Those that can't be read may hold it.
    readable = {manifest.version for manifest in manifests(store)}
    holders += [version for version in store.folders("versions") if version not in readable]
    version = None
    if live is not None and live.version in holders:
        # It may be there already, if the deletion was killed.
        finished = (
            manifest.version
            for manifest in manifests(store)
            if manifest.run_id.startswith(_RUN) and manifest.parent == live.version and manifest.version not in holders
        )
        version = next(finished, None)
        version = version or _make_version(
            workspace, named_manifest(store, workspace.corpus.name, live.version), deletion, report
        )
    unknown = ForgottenDocument(doc_id="", at=datetime.now(UTC), by=this_person())
    first = next((document for document in record.documents if document.doc_id in deletion.doc_ids), unknown)
    event = AuditEvent(
        action="forget",
        at=first.at,
        by=first.by,
        reason=first.reason,
        from_version=live.version if live else None,
        to_version=version or (live.version if live else ""),
        documents=sorted(deletion.doc_ids),
    )
    replace_forgotten(store, event, holders, lease.fence)
    update_alias(workspace)
    remove_versions(workspace, holders)
    _forget_rights(store, deletion, event)
    rewrite_reasons(store, deletion.redacted)
    remove_feedback(store, deletion.is_named_in)
    forget_in_webhooks(store, deletion.is_named_in)
    remove_corrections(store, deletion.is_named_in)
    if (last := read_last_refresh(store)) is not None:
        write_last_refresh(store, last.model_copy(update={"message": deletion.redacted(last.message)}))
    pruned = prune_all(workspace, report)

    def without_done(now: Forgotten) -> Forgotten:
        # Another deletion may have been noted meanwhile.
        pending = sorted(set(now.pending).difference(record.pending))
        return now.model_copy(update={"pending": pending, "sources": now.sources if pending else []})

    change_forgotten(store, without_done)
    return pruned


def _forget_rights(store: ObjectStore, deletion: _Deletion, event: AuditEvent) -> None:
    """Apply the rights that hold now without some documents, and delete earlier ones."""
    if not store.exists(access.CURRENT):
        return
    access.read_rights(store, access.read_current(store).digest)  # damaged ones must not end as none

    def without(before: Rights | None) -> Rights:
        return Rights({doc_id: readers for doc_id, readers in before or () if doc_id not in deletion.doc_ids})

    current, _ = access.apply_rights(store, without, by=event.by, reason=event.reason)
    access.remove_rights(store, {access.rights_file(current.digest)})


def _make_version(workspace: Workspace, base: Manifest, deletion: _Deletion, report: Report) -> str:
    """Make a version of the live one's rows without some documents, with its gates, and return its name.

    Nothing of the live version but its rows, vectors and verdicts is taken over: reports may quote the documents. Raises
    ``TransientError`` where the engine lacks rows.
    """
    store, started, run_id = workspace.store, time.monotonic(), f"{_RUN}{uuid.uuid4().hex[:12]}"
    ledger = [row for row in read_ledger(store, base.version) if not deletion.has(row.doc_id, row.source)]
    fingerprint = key(settings=base.keys["settings"], sources={row.source: row.doc_id for row in ledger})
    version = next_version(store, fingerprint)
    failures = [
        failure.model_copy(update={"run_id": run_id})
        for failure in read_failures(store, base) or []
        if not deletion.has(failure.doc_id, failure.source)
    ]
    write_failures(store, run_id, failures)
    write_ledger(store, version, Rows.of(LedgerRow, ledger))
    counts = document_counts(ledger, failures) | _write_rows(store, version, base.version, deletion.doc_ids)
    write_columns(workspace, version)
    write_note(store, version, Stage.ASSEMBLE, StageNote(seconds=0, counts=counts))
    gates, build_counts = put_into_engine(workspace, version, counts_of(counts), base.spaces, report, is_afresh=True)
    for gate in gates:
        if not gate.passed:
            raise TransientError(f"{version} was built, but {gate.message.partition(';')[0]}; forget it again")
    write_note(store, version, Stage.BUILD, StageNote(seconds=0, gates=gates, counts=build_counts))
    verdicts = {gate.gate: gate for gate in gates}
    manifest = base.model_copy(
        update={
            "version": version,
            "fingerprint": fingerprint,
            "parent": base.version,
            "created": datetime.now(UTC),
            "run_id": run_id,
            "spent": {},
            "counts": counts_of(counts),
            "collection": workspace.collection(version),
            "gates": [verdicts.get(gate.gate, gate) for gate in base.gates],
            "timings_s": {Stage.BUILD: round(time.monotonic() - started, 2)},
            "work": {name: base.work[name] for name in UNDONE if name in base.work},
            "sizes": {**base.sizes, "sources": sum(row.size for row in ledger), "evidence": counts["evidence_bytes"]},
            "ledger": sha256(store.get(version_file(version, "ledger.parquet"))),
        }
    )
    write_numbers_diff(store, base, manifest)
    manifest = manifest.model_copy(update={"inventory": write_inventory(store, version)})
    # Messages of gates may name a document.
    store.put(manifest_name(version), deletion.redacted(manifest.model_dump_json(indent=1)).encode())
    return version


def _write_rows(store: ObjectStore, version: str, base: str, doc_ids: frozenset[str]) -> dict[str, int]:
    """Write the rows and the list of tagged copies of a version, without some documents; return its counts."""
    parts = read_parts(store, base)
    with TemporaryTables() as tables:
        facts = Facts(store, parts, tables)
        counts = write_version_rows(store, version, parts, read_documents(store, base), doc_ids, [], facts, joined=True)
    if (copies := tagged_copies(store, base)) is not None:
        write_copies(store, version, {doc_id: name for doc_id, name in copies.items() if doc_id not in doc_ids})
    return counts
