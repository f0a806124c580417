"""Stage 7: derive, bring forward or fill the version's collection, and read a sample of it back."""

import time

from pipeline.corpus.workspace import Workspace
from pipeline.records.columns import write_columns
from pipeline.records.indexing import put_into_engine
from pipeline.records.notes import StageNote, counts_of, read_notes, write_note
from schemas.stages import Report, Stage, silent


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Write a version's evidence and vectors to its collection; what a killed build left is dropped or completed first.

    Where few documents changed, an embedded collection is derived from the parent's, and one of a server's is brought
    forward.
    """
    started = time.monotonic()
    write_columns(workspace, version)
    counted = counts_of(read_notes(workspace.store, version, [Stage.ASSEMBLE])[Stage.ASSEMBLE].counts)
    gates, counts = put_into_engine(workspace, version, counted, workspace.spaces, report)
    note = StageNote(seconds=time.monotonic() - started, gates=gates, counts=counts)
    return write_note(workspace.store, version, Stage.BUILD, note)
