"""Keep the earlier document of a source of which pages can't be read any more, such as a half copied file."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from backends.stores.document_files import ParsedDocumentFile, parsed_file
from pipeline.corpus.workspace import Workspace
from pipeline.records.documents import parsed_documents
from pipeline.records.ledger import readable_ledger
from pipeline.records.notes import read_notes, write_plan
from schemas.errors import BROKEN_FILE, UNREAD_PAGES
from schemas.parquet import Rows
from schemas.stages import Stage
from schemas.versions import LedgerRow, Plan, PlannedDocument, Status
from workers.parse_shard import ParseJob, parse_documents


def keep_earlier(workspace: Workspace, plan: Plan) -> Plan:
    """Return the plan with the live version's document for each source whose new bytes can be read less.

    The plan is stored, so that later stages agree. Sources in ``plan.options.accept`` are left as they are.
    """
    ledger = readable_ledger(workspace.store, plan.parent) if plan.parent else []
    before = {row.source: row for row in ledger if row.status is Status.INDEXED and row.source not in plan.options.accept}
    changed = {
        document.source: document
        for document in plan.documents
        if document.source in before and before[document.source].doc_id != document.doc_id
    }
    if not changed:
        return plan
    new_ids, old_ids = {successor.doc_id for successor in changed.values()}, {before[source].doc_id for source in changed}
    # The number of unread pages of each document that has any; None where the whole file is broken.
    notes = read_notes(workspace.store, plan.version, (Stage.PARSE,)).values()
    broken = {failure.doc_id for note in notes for failure in note.failures if failure.code in BROKEN_FILE}
    lost: dict[str, int | None] = {doc_id: None for doc_id in new_ids if doc_id in broken}
    lost |= _unread_pages(workspace, parsed_documents(workspace, new_ids))
    # The earlier document is looked at only if the new bytes lost something.
    worse = {source: row for source, row in before.items() if source in changed and changed[source].doc_id in lost}
    parsed = _parsed(workspace, plan, worse)
    unread = _unread_pages(workspace, old_ids & parsed)
    kept_documents = {
        source: replace(document, doc_id=before[source].doc_id, newer=document.doc_id, message=message)
        for source, document in changed.items()
        if before[source].doc_id in parsed
        and (message := _message(before[source], lost.get(document.doc_id, 0), unread.get(before[source].doc_id, 0)))
    }
    if not kept_documents:
        return plan
    documents = (kept_documents.get(document.source, document) for document in plan.documents)
    plan = plan.model_copy(update={"documents": Rows.of(PlannedDocument, documents)})
    write_plan(workspace.store, plan)
    return plan


def _unread_pages(workspace: Workspace, doc_ids: Collection[str]) -> dict[str, int]:
    unread = {}
    for doc_id in sorted(doc_ids):
        document = ParsedDocumentFile(workspace.store, parsed_file(doc_id, workspace.keys.parse))
        if pages := {failure.page for failure in document.failures if failure.code in UNREAD_PAGES}:
            unread[doc_id] = len(pages)
    return unread


def _parsed(workspace: Workspace, plan: Plan, rows: Mapping[str, LedgerRow]) -> set[str]:
    """Return the documents of rows that are parsed; those of an earlier release are parsed again from their stored bytes."""
    doc_ids = {row.doc_id for row in rows.values()}
    parsed_ids = set(parsed_documents(workspace, doc_ids))
    missing = {row.doc_id: source for source, row in rows.items() if row.doc_id not in parsed_ids}
    outcomes = parse_documents(
        [ParseJob(doc_id, source, is_stored=True) for doc_id, source in missing.items()],
        source=workspace.source(),
        store_address=workspace.store.root,
        options=workspace.corpus.parse,
        passwords=workspace.passwords(),
        run_id=plan.run_id,
    )
    return doc_ids - {outcome.doc_id for outcome in outcomes if outcome.failures}


def _message(row: LedgerRow, lost: int | None, unread: int) -> str:
    """Return why a document is kept; "" where its successor has no more unread pages."""
    if lost is not None and lost <= unread:
        return ""
    failure = "the file can't be read any more" if lost is None else f"{lost} pages can't be read any more"
    return f"{failure}: the document before, of {row.pages} pages, is kept"
