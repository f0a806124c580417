"""Stages 2 and 5, which a scheduler runs by shards of documents: parse them, and write tagged copies."""

import time
from collections.abc import Sequence

from pipeline.corpus.workspace import Workspace
from pipeline.records.ledger import first_sources, read_ledger
from pipeline.records.notes import StageNote, read_plan, read_plan_summary, slowest, write_note
from pipeline.records.tagged_copies import missing_copies, shard_of, write_copies
from schemas.errors import Failure
from schemas.stages import Report, Stage, silent
from schemas.versions import SlowDocument
from workers.parse_shard import ParseJob, parse_documents

DOCUMENTS_A_SHARD = 100
MOST_SHARDS = 500
"""Most shards, since Airflow's scheduler is slow with thousands of tasks; larger versions have larger shards."""


def parse(workspace: Workspace, version: str, shard: int | None = None, report: Report = silent) -> StageNote:
    """Parse one shard of a plan, counted from 0, or all where None; failures are in the note, and don't stop the others."""
    started = time.monotonic()
    plan = read_plan(workspace.store, version)
    shards: Sequence[Sequence[str]] = plan.shards if shard is None else [plan.shards[shard]]
    doc_ids_of_shards = {doc_id for doc_ids in shards for doc_id in doc_ids}
    sources = {
        document.doc_id: document.source for document in reversed(plan.documents) if document.doc_id in doc_ids_of_shards
    }
    kept_ids = {document.doc_id for document in plan.documents if document.newer is not None}
    failures: list[Failure] = []
    pages = 0
    slowest_documents: list[SlowDocument] = []
    outcomes = parse_documents(
        [
            ParseJob(doc_id, source, doc_id in kept_ids)
            for doc_id, source in sorted(sources.items(), key=lambda item: item[1])
        ],
        source=workspace.source(),
        store_address=workspace.store.root,
        options=workspace.corpus.parse,
        passwords=workspace.passwords(),
        run_id=plan.run_id,
    )
    report(Stage.PARSE, 0, len(sources))
    for parsed_count, outcome in enumerate(outcomes, 1):
        failures.extend(outcome.failures)
        pages += outcome.pages
        if not outcome.failures:
            document = SlowDocument(source=sources[outcome.doc_id], pages=outcome.pages, seconds=round(outcome.seconds, 3))
            slowest_documents = slowest([*slowest_documents, document])
        report(Stage.PARSE, parsed_count, len(sources))
    note = StageNote(
        seconds=time.monotonic() - started,
        failures=failures,
        counts={"parsed": len(sources), "pages_parsed": pages},
        slowest=slowest_documents,
    )
    return write_note(workspace.store, version, Stage.PARSE, note, shard=shard)


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
