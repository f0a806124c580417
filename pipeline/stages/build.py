"""Stage 6: a fresh physical collection for the version, its rows counted back."""

import time

from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.collection import fill, read_back
from pipeline.records.evidence import evidence_parts
from pipeline.records.notes import StageNote, write_note
from pipeline.records.vectors import open_vectors
from schemas.corpus import LEXICAL_FIELDS
from schemas.stages import Stage


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Join evidence with its vectors and write the version's collection; whatever a killed build left is dropped first.

    Raises:
        DamagedError: A row has no vector.
    """
    started = time.monotonic()
    workspace.settle_index(version)
    index = workspace.index(version)
    vectors = open_vectors(workspace.store, workspace.spaces)
    rows = fill(index, lambda: evidence_parts(workspace.store, version), vectors, LEXICAL_FIELDS, report)
    gates = read_back(index, evidence_parts(workspace.store, version), rows, [one.space for one in vectors])
    note = StageNote(seconds=time.monotonic() - started, gates=gates, counts={"rows_built": index.count()})
    return write_note(workspace.store, version, Stage.BUILD, note)
