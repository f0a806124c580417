"""Give a version its collection: bring one forward, derive or fill it; bring the rows of a kept version back."""

import contextlib
from collections.abc import Mapping, Sequence

from backends.stores.objects import attempt
from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import SpaceVectors, bring_forward, derive, fill, holds, open_vectors, read_back
from pipeline.records.columns import read_columns
from pipeline.records.differences import Difference, difference
from pipeline.records.evidence import evidence_parts, evidence_sample
from pipeline.records.manifests import check_index_files, missing_or_cut, read_manifest, readable_manifest
from pipeline.records.notes import DERIVATIONS, SINCE_FILL, read_notes, read_plan_summary
from pipeline.records.retention import spare_versions
from schemas.errors import InsetError, TransientError
from schemas.gates import GateResult
from schemas.stages import Report, Stage, silent
from schemas.versions import Counts, Manifest, VectorSpace

MOST_DERIVATIONS = 8
"""Most derivations in a row, since each adds a segment to the vector index and keeps its cells.

On 40,000 rows a vector search takes 18 ms after them, and 12 in a filled collection.
"""

MOST_CHANGED = 0.2
"""Largest share of changed documents since the last fill, or of changed rows since the version that is brought forward."""


def bring_back(workspace: Workspace, manifest: Manifest, report: Report = silent) -> None:
    """Give a kept version whose collection was taken one again; call it under the lease.

    Raises ``TransientError`` where the engine then doesn't hold its rows.
    """
    gates, _ = put_into_engine(workspace, manifest.version, manifest.counts, manifest.spaces, report)
    for gate in gates:
        if not gate.passed:
            raise TransientError(f"{manifest.version} was brought back, but {gate.message.partition(';')[0]}; try again")
    workspace.complete_collection(manifest.version)


def rows_to_bring_back(workspace: Workspace, manifest: Manifest) -> int:
    """Return how many rows are written to the engine before a version can go live; 0 if its collection is there."""
    if not workspace.is_taken(manifest.version):
        return 0
    changes = _forwardable(workspace, manifest.version, manifest.counts, manifest.spaces)
    return manifest.counts.rows if changes is None else sum(part.num_rows for part in changes.changed_rows())


def put_into_engine(
    workspace: Workspace,
    version: str,
    counted: Counts,
    vector_spaces: Mapping[str, VectorSpace],
    report: Report,
    *,
    is_afresh: bool = False,
) -> tuple[list[GateResult], dict[str, int]]:
    """Bring forward, derive or fill a version's collection; return the verdicts on it, and counts of rows.

    Where ``is_afresh`` it is filled: nothing of another collection is in it.
    """
    store, rows = workspace.store, counted.rows
    spaces, is_taken = open_vectors(store, vector_spaces), workspace.is_taken(version)
    row_count, error = attempt(lambda: None if is_afresh else _bring_forward(workspace, version, counted, vector_spaces))
    # Damage of an earlier version or of its collection only rules this way out; any other damage would stop a fill as well.
    if error is not None and not error.name.startswith("versions/") and error.name != workspace.collection(version):
        raise error
    counts_since_fill = {DERIVATIONS: 0, SINCE_FILL: 0}
    if row_count is None:
        if workspace.forwarded_from(version) is None:
            spare = [] if is_afresh else spare_versions(workspace, version)
            _take_over(workspace, version, counted, next(iter(spare), None))
        usable = None if is_taken or is_afresh else _usable_difference(workspace, version, counted.documents)
        if usable is not None and (row_count := _derive_from_parent(workspace, version, usable[0], spaces)) is not None:
            counts_since_fill = usable[1]
    index = workspace.index(version)
    if row_count is None:
        parts, columns = lambda: evidence_parts(store, version), read_columns(store, version)
        row_count = fill(index, parts, spaces, report, columns)
    report("build", rows, rows)
    gates = read_back(index, evidence_sample(store, version), rows, [vectors.space for vectors in spaces])
    return gates, {"rows_built": index.count(), "rows_written": row_count} | counts_since_fill


def _take_over(workspace: Workspace, version: str, counted: Counts, earlier: str | None) -> None:
    """Give a version the collection of an earlier one, if any, which nobody may read from now on."""
    workspace.write_index_options(version, counted.documents_by_language, earlier)
    if earlier is not None:
        workspace.give_up_collection(earlier)


def _bring_forward(
    workspace: Workspace, version: str, counted: Counts, vector_spaces: Mapping[str, VectorSpace]
) -> int | None:
    """Bring a spare version's collection forward, and return the rows written; None where a fresh one has to be filled.

    A killed attempt is repeated as a whole: rows are deleted by document and written by id.
    """
    store = workspace.store
    changes = _forwardable(workspace, version, counted, vector_spaces)
    if changes is None:
        return None
    if workspace.forwarded_from(version) is None:
        _take_over(workspace, version, counted, changes.earlier)
    # Killed between the two writes; an earlier version that was brought back since has another collection.
    elif workspace.collection(changes.earlier) == workspace.collection(version):
        workspace.give_up_collection(changes.earlier)
    index, spaces = workspace.index(version), open_vectors(store, vector_spaces)
    return bring_forward(index, changes, spaces, counted.rows, read_columns(store, version))


def _forwardable(
    workspace: Workspace, version: str, counted: Counts, vector_spaces: Mapping[str, VectorSpace]
) -> Difference | None:
    """Return the difference to the version whose collection a version takes over; None if there is none, or too much changed."""
    store, forwarded_from = workspace.store, workspace.forwarded_from(version)
    earlier = forwarded_from or next(iter(spare_versions(workspace, version)), None)
    if earlier is None:
        return None
    changes = difference(store, version, earlier, with_columns=True)
    if max(len(changes.removed), len(changes.changed)) > MOST_CHANGED * counted.documents:
        return None
    if sum(part.num_rows for part in changes.changed_rows()) > MOST_CHANGED * counted.rows:
        return None
    if forwarded_from is None:
        manifest = read_manifest(store, earlier)
        if manifest is None or manifest.spaces != vector_spaces or not holds(workspace, manifest):
            return None
    return changes


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
