"""Stage 2: parse documents, which a scheduler runs by shards of them."""

import time
from collections.abc import Sequence

from pipeline.corpus.workspace import Workspace
from pipeline.records.notes import StageNote, read_plan, write_note
from schemas.errors import Failure
from schemas.stages import Report, Stage, silent
from workers.parse_shard import ParseJob, parse_documents


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
        report(Stage.PARSE, parsed_count, len(sources))
    note = StageNote(
        seconds=time.monotonic() - started,
        failures=failures,
        counts={"parsed": len(sources), "pages_parsed": pages},
    )
    return write_note(workspace.store, version, Stage.PARSE, note, shard=shard)
