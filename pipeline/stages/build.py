"""Stage 7: derive, bring forward or fill the version's collection, and read a sample of it back."""

import contextlib
import time
from collections.abc import Sequence

from backends.stores.objects import attempt
from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import SpaceVectors, bring_forward, derive, fill, holds, open_vectors, read_back
from pipeline.records.columns import read_columns, write_columns
from pipeline.records.differences import Difference, difference
from pipeline.records.evidence import evidence_parts, evidence_sample
from pipeline.records.manifests import (
    check_index_files,
    manifest_name,
    missing_or_cut,
    read_manifest,
    readable_manifest,
)
from pipeline.records.notes import DERIVATIONS, SINCE_FILL, StageNote, counts_of, read_notes, read_plan_summary, write_note
from pipeline.records.retention import spare_version
from schemas.errors import InsetError, TransientError
from schemas.stages import Report, Stage, silent
from schemas.versions import Counts

MOST_DERIVATIONS = 8
"""Most derivations in a row, since each adds a segment to the vector index and keeps its cells.

On 40,000 rows a vector search takes 18 ms after them, and 12 in a filled collection.
"""

MOST_CHANGED = 0.2
"""Largest share of changed documents since the last fill, or of changed rows since the version that is brought forward."""


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Write a version's evidence and vectors to its collection; what a killed build left is dropped or completed first.

    Where few documents changed, an embedded collection is derived from the parent's, and a server's collection that
    retention would delete next is brought forward.
    """
    started = time.monotonic()
    store = workspace.store
    write_columns(workspace, version)
    counted = counts_of(read_notes(store, version, [Stage.ASSEMBLE])[Stage.ASSEMBLE].counts)
    spaces, rows = open_vectors(store, workspace.spaces), counted.rows
    row_count, error = attempt(lambda: _bring_forward(workspace, version, counted, spaces))
    # Damage of an earlier version or of its collection only rules this way out; any other damage would stop a fill as well.
    if error is not None and not error.name.startswith("versions/") and error.name != workspace.collection(version):
        raise error
    counts_since_fill = {DERIVATIONS: 0, SINCE_FILL: 0}
    if row_count is None:
        workspace.write_index_options(version, counted.documents_by_language, workspace.forwarded_from(version))
        usable = _usable_difference(workspace, version, counted.documents)
        if usable is not None and (row_count := _derive_from_parent(workspace, version, usable[0], spaces)) is not None:
            counts_since_fill = usable[1]
    index = workspace.index(version)
    if row_count is None:
        if (spare := spare_version(workspace, version)) is not None:  # no more collections than take turns
            store.delete(manifest_name(spare))
            workspace.index(spare).drop()
        parts, columns = lambda: evidence_parts(store, version), read_columns(store, version)
        row_count = fill(index, parts, spaces, report, columns)
    report("build", rows, rows)
    gates = read_back(index, evidence_sample(store, version), rows, [vectors.space for vectors in spaces])
    counts = {"rows_built": index.count(), "rows_written": row_count} | counts_since_fill
    note = StageNote(seconds=time.monotonic() - started, gates=gates, counts=counts)
    return write_note(store, version, Stage.BUILD, note)


def _bring_forward(workspace: Workspace, version: str, counted: Counts, spaces: Sequence[SpaceVectors]) -> int | None:
    """Bring the spare version's collection forward, and return the rows written; None where a fresh one has to be filled.

    A killed attempt is repeated as a whole: rows are deleted by document and written by id.
    """
    store = workspace.store
    earlier = workspace.forwarded_from(version) or spare_version(workspace, version)
    if earlier is None:
        return None
    changes = difference(store, version, earlier, with_columns=True)
    if max(len(changes.removed), len(changes.changed)) > MOST_CHANGED * counted.documents:
        return None
    if sum(part.num_rows for part in changes.changed_rows()) > MOST_CHANGED * counted.rows:
        return None
    if workspace.forwarded_from(version) is None:
        manifest = read_manifest(store, earlier)
        if manifest is None or manifest.spaces != workspace.spaces or not holds(workspace, manifest):
            return None
        # From here on nobody opens the earlier version, and the next sweep removes the rest of it.
        store.delete(manifest_name(earlier))
        workspace.write_index_options(version, counted.documents_by_language, earlier)
    index = workspace.index(version)
    return bring_forward(index, changes, spaces, counted.rows, read_columns(store, version))


def _usable_difference(workspace: Workspace, version: str, documents: int) -> tuple[Difference, dict[str, int]] | None:
    """Return the difference to the parent, and counts of the derived collection.

    None unless the parent's collection is undamaged, with vectors of the same models, and little changed since it was
    filled.
    """
    store = workspace.store
    parent = readable_manifest(store, read_plan_summary(store, version).parent)
    if parent is None or parent.spaces != workspace.spaces or any(missing_or_cut(store, parent.version)):
        return None
    changes = difference(store, version, parent.version, with_columns=True)
    notes = read_notes(store, parent.version, [Stage.BUILD])
    before = notes[Stage.BUILD].counts if Stage.BUILD in notes else {}
    if DERIVATIONS not in before:
        return None
    changed = max(len(changes.changed), len(changes.removed)) + before[SINCE_FILL]
    since = {DERIVATIONS: before[DERIVATIONS] + 1, SINCE_FILL: changed}
    if since[DERIVATIONS] > MOST_DERIVATIONS or changed > MOST_CHANGED * documents:
        return None
    with contextlib.suppress(TransientError):  # a server that is gone
        return (changes, since) if holds(workspace, parent) else None
    return None


def _derive_from_parent(
    workspace: Workspace, version: str, changes: Difference, spaces: Sequence[SpaceVectors]
) -> int | None:
    """Derive a version's collection from its parent's and return the rows written; None if it has to be filled.

    A damaged file of the parent's would damage the derived collection too.
    """
    index, parent = workspace.index(version), workspace.index(changes.earlier)
    try:
        columns = read_columns(workspace.store, version)
        row_count = derive(index, parent, changes.removed, changes.changed_rows(), spaces, columns)
    except InsetError:
        # A damaged file of the parent may make the engine fail with any error; if all are intact, the error has another
        # cause.
        if _is_intact(workspace, changes.earlier):
            raise
        return None
    return row_count if row_count is not None and _is_intact(workspace, changes.earlier) else None


def _is_intact(workspace: Workspace, version: str) -> bool:
    return attempt(lambda: check_index_files(workspace, version, digests=True))[1] is None
