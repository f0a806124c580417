"""Stage 7: derive, bring forward or fill the version's collection, and read a sample of it back."""

import contextlib
import time
from collections.abc import Collection, Sequence

from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import derive, fill, holds, is_forwarded, read_back
from pipeline.records.delta import (
    MOST_CHANGED,
    Delta,
    Difference,
    changed_rows,
    note_filled,
    read_delta,
)
from pipeline.records.delta import difference as difference_to
from pipeline.records.evidence import evidence_parts, evidence_sample
from pipeline.records.inventory import check_index_files, linked_index_files, missing_or_cut
from pipeline.records.notes import StageNote, counts_of, read_notes, write_note
from pipeline.records.publication import manifest_name, read_manifest, readable_manifest
from pipeline.records.retention import spare_version
from pipeline.records.vectors import SpaceVectors, open_vectors
from schemas.corpus.retrieval import LEXICAL_FIELDS
from schemas.errors import DamagedError, InsetError, TransientError
from schemas.progress import Report, silent
from schemas.stages import Stage
from schemas.versions import Counts


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Write a version's evidence and vectors to its collection; what a killed build left is dropped or completed first.

    Where few documents changed, an embedded collection is derived from the parent's, and a server's collection that retention
    would delete next is brought forward.

    Raises:
        DamagedError: A row has no vector.
    """
    started = time.monotonic()
    store = workspace.store
    counted = counts_of(read_notes(store, version, [Stage.ASSEMBLE])[Stage.ASSEMBLE])
    spaces, rows = open_vectors(store, workspace.spaces), counted.rows
    written = _brought_forward(workspace, version, counted, spaces)
    if written is None:
        workspace.write_index_options(version, counted.documents_by_language, workspace.forwarded_from(version))
        delta = _usable_delta(workspace, version, counted.documents)
        written = _derived(workspace, version, delta, spaces) if delta is not None else None
    index = workspace.index(version)
    if written is None:
        if (spare := spare_version(workspace, version)) is not None:  # no more collections than take turns
            store.delete(manifest_name(spare))
            workspace.index(spare).drop()
        written = fill(index, lambda: evidence_parts(store, version), spaces, LEXICAL_FIELDS, report)
        note_filled(store, version)
    report("build", rows, rows)
    gates = read_back(index, evidence_sample(store, version), rows, [one.space for one in spaces])
    counts = {"rows_built": index.count(), "rows_written": written}
    note = StageNote(seconds=time.monotonic() - started, gates=gates, counts=counts)
    return write_note(store, version, Stage.BUILD, note)


def _brought_forward(workspace: Workspace, version: str, counted: Counts, spaces: Sequence[SpaceVectors]) -> int | None:
    """Bring the spare version's collection forward, and return the rows written; None where a fresh one has to be filled.

    A killed attempt is repeated as a whole: rows are deleted by document and written by id.
    """
    store = workspace.store
    try:
        earlier = workspace.forwarded_from(version) or spare_version(workspace, version)
        difference = difference_to(store, version, earlier) if earlier else None
        if earlier is None or difference is None or not _is_small(difference, counted):
            return None
        if workspace.forwarded_from(version) is None:
            manifest = read_manifest(store, earlier)
            if manifest is None or manifest.spaces != workspace.spaces or not holds(workspace, manifest):
                return None
            # From here on nobody opens the earlier version, and the next sweep removes the rest of it.
            store.delete(manifest_name(earlier))
            workspace.write_index_options(version, counted.documents_by_language, earlier)
        index = workspace.index(version)
        written = derive(index, index, difference.removed, difference.changed_rows(), spaces, LEXICAL_FIELDS)
        note_filled(store, version)
        return written if written is not None and is_forwarded(index, difference, spaces, counted.rows) else None
    except DamagedError as error:
        if not error.name.startswith("versions/") and error.name != workspace.collection(version):
            raise
        return None


def _is_small(difference: Difference, counted: Counts) -> bool:
    rows = sum(part.num_rows for part in difference.changed_rows())
    return rows <= MOST_CHANGED * counted.rows and len(difference.removed) <= MOST_CHANGED * counted.documents


def _usable_delta(workspace: Workspace, version: str, documents: int) -> Delta | None:
    """Return the delta where the parent's collection exists, undamaged, with vectors of the same models."""
    store, delta = workspace.store, read_delta(workspace.store, version)
    parent = readable_manifest(store, delta.parent) if delta else None
    if delta is None or parent is None or parent.spaces != workspace.spaces or not delta.allows_derivation(documents):
        return None
    if any(missing_or_cut(store, parent.version)):
        return None
    with contextlib.suppress(TransientError):  # a server that is gone
        return delta if holds(workspace, parent) else None
    return None


def _derived(workspace: Workspace, version: str, delta: Delta, spaces: Sequence[SpaceVectors]) -> int | None:
    """Derive a version's collection from its parent's and return the rows written; None where it has to be filled.

    A damaged file of the parent's would damage the derived collection too, so the files that the engine rewrote are checked here.
    Linked files are checked when the version is published.
    """
    index, parent = workspace.index(version), workspace.index(delta.parent)
    changed = changed_rows(workspace.store, version)
    try:
        written = derive(index, parent, delta.removed, changed, spaces, LEXICAL_FIELDS)
    except InsetError:
        if _is_intact(workspace, delta.parent, skip=()):
            raise
        return None
    if written is None:
        return None
    shared = {item.name for item in linked_index_files(workspace.store, version, delta.parent).values()}
    return written if _is_intact(workspace, delta.parent, skip=shared) else None


def _is_intact(workspace: Workspace, version: str, *, skip: Collection[str]) -> bool:
    try:
        check_index_files(workspace, version, digests=True, skip=skip)
    except DamagedError:
        return False
    return True
