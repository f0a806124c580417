"""Stage 5: write the tagged copies of a version's documents, where the corpus file asks for them."""

import time

from pipeline.corpus.workspace import Workspace
from pipeline.records.ledger import first_sources, read_ledger
from pipeline.records.notes import StageNote, read_plan_summary, write_note
from pipeline.records.tagged_copies import missing_copies, shard_of, write_copies
from schemas.stages import Report, Stage, silent

DOCUMENTS_A_SHARD = 100
MOST_SHARDS = 500
"""Most shards, since Airflow's scheduler is slow with thousands of tasks; larger versions have larger shards."""


def count_shards(workspace: Workspace, version: str) -> int:
    """Return into how many shards the missing copies of an assembled version are cut; 0 where none are wanted."""
    if not workspace.corpus.tags.pdf:
        return 0
    sources = first_sources(read_ledger(workspace.store, version))
    missing = sum(1 for _ in missing_copies(workspace.store, version, sources))
    return min(MOST_SHARDS, 1 + missing // DOCUMENTS_A_SHARD)


def tag(workspace: Workspace, version: str, shard: int, shards: int, report: Report = silent) -> StageNote:
    """Write the missing copies of shard ``shard`` of ``shards``, counted from 0; failures don't stop the others."""
    started = time.monotonic()
    store = workspace.store
    sources = first_sources(read_ledger(store, version))
    jobs = [job for job in missing_copies(store, version, sources) if shard_of(job.doc_id, shards) == shard]
    report(Stage.TAG, 0, len(jobs))
    failures = []
    for copy_count, outcome in enumerate(write_copies(workspace, jobs, read_plan_summary(store, version).run_id), 1):
        failures += [outcome.failure] if outcome.failure is not None else []
        report(Stage.TAG, copy_count, len(jobs))
    counts = {"copies_tagged": len(jobs) - len(failures)}
    note = StageNote(seconds=time.monotonic() - started, failures=failures, counts=counts)
    return write_note(store, version, Stage.TAG, note, shard=shard)
