"""Stage 6: the version's own physical collection, derived from its parent's or filled, and rows of it read back."""

import contextlib
import time

from backends.engines.heap import share_heaps
from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.collection import derive, fill, holds, read_back
from pipeline.records.delta import Delta, changed_rows, read_delta
from pipeline.records.evidence import evidence_parts, evidence_sample
from pipeline.records.notes import StageNote, counts_of, read_notes, write_note
from pipeline.records.publication import readable_manifest
from pipeline.records.vectors import open_vectors
from schemas.corpus import LEXICAL_FIELDS
from schemas.errors import TransientError
from schemas.stages import Stage


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Join evidence with its vectors in the version's collection; whatever a killed build left is dropped first.

    Where few documents changed since the parent, and the engine can, the collection is the parent's but for their rows.

    Raises:
        DamagedError: A row has no vector.
    """
    started = time.monotonic()
    share_heaps()
    store = workspace.store
    counted = counts_of(read_notes(store, version, [Stage.ASSEMBLE])[Stage.ASSEMBLE])
    workspace.settle_index(version, counted.documents_by_language)
    index, spaces, rows = workspace.index(version), open_vectors(store, workspace.spaces), counted.rows
    delta, written = _usable_delta(workspace, version), None
    if delta is not None:
        changed = changed_rows(store, version)
        written = derive(index, workspace.index(delta.parent), delta.removed, changed, spaces, LEXICAL_FIELDS)
    if written is None:
        written = fill(index, lambda: evidence_parts(store, version), spaces, LEXICAL_FIELDS, report)
    report("build", rows, rows)
    gates = read_back(index, evidence_sample(store, version), rows, [one.space for one in spaces])
    counts = {"rows_built": index.count(), "rows_written": written}
    note = StageNote(seconds=time.monotonic() - started, gates=gates, counts=counts)
    return write_note(store, version, Stage.BUILD, note)


def _usable_delta(workspace: Workspace, version: str) -> Delta | None:
    """Return how a version differs from its parent, where the parent's collection is whole, with vectors of the same models."""
    delta = read_delta(workspace.store, version)
    parent = readable_manifest(workspace.store, delta.parent) if delta else None
    if parent is None or parent.spaces != workspace.spaces:
        return None
    with contextlib.suppress(TransientError):  # a server that is gone
        # What a file of the parent's has lost would be lost in each collection that is derived from it.
        return delta if holds(workspace, parent, digests=True) else None
    return None
