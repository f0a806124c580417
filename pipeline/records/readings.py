"""Keep the last good reading of a source whose new bytes give no document, or one that is doubtful or much smaller."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from backends.stores.document_files import ParsedDocumentFile, StructuredDocumentFile, parsed_file
from pipeline.corpus.workspace import Workspace
from pipeline.records.documents import parsed_documents
from pipeline.records.ledger import readable_ledger
from pipeline.records.notes import read_notes, write_plan
from schemas.errors import UNREAD_PAGES, FailureCode
from schemas.parquet import Rows
from schemas.stages import Stage
from schemas.versions import LedgerRow, Plan, PlannedDocument, Status
from workers.parse_shard import ParseJob, parse_documents

_LEAST_SHARE = 0.5
"""Share of the rows, the words or the figures of the last reading below which a document waits for a person."""


@dataclass(frozen=True)
class ChangedSource:
    """A source whose bytes changed: the row of the live version's document, and the document of the new bytes."""

    before: LedgerRow
    now: PlannedDocument


Faults = Mapping[str, tuple[FailureCode | None, str]]
"""Why documents are worse than those before, in words; with the failure's code where there is no document at all."""


def changes_of(workspace: Workspace, plan: Plan) -> list[ChangedSource]:
    """Return the sources of a plan with other bytes than the live version's, but those that a person accepted as they are."""
    ledger = readable_ledger(workspace.store, plan.parent)
    before = {row.source: row for row in ledger if row.status is Status.INDEXED and row.source not in plan.options.accept}
    return [
        ChangedSource(before[document.source], document)
        for document in plan.documents
        if document.source in before and before[document.source].doc_id != document.doc_id
    ]


def keep_earlier(
    workspace: Workspace, plan: Plan, changes: Iterable[ChangedSource], faults: Faults, kept_ids: Collection[str]
) -> Plan:
    """Return the plan with the earlier document of each source whose new one has a fault, as far as it is among ``kept_ids``.

    The plan is stored, so that later stages agree.
    """
    kept_documents = {}
    for change in changes:
        if change.now.doc_id in faults and change.before.doc_id in kept_ids:
            code, why = faults[change.now.doc_id]
            message = f"{why}: the document before, of {change.before.pages} pages, is kept"
            earlier_document = replace(
                change.now, doc_id=change.before.doc_id, newer=change.now.doc_id, code=code, message=message
            )
            kept_documents[change.now.source] = earlier_document
    if not kept_documents:
        return plan
    documents = (kept_documents.get(document.source, document) for document in plan.documents)
    plan = plan.model_copy(update={"documents": Rows.of(PlannedDocument, documents)})
    write_plan(workspace.store, plan)
    return plan


def earlier_readings(workspace: Workspace, plan: Plan, changes: Sequence[ChangedSource]) -> set[str]:
    """Return the earlier documents that are parsed; those of an earlier release are parsed again from their stored bytes."""
    doc_ids = {change.before.doc_id for change in changes}
    missing_ids = doc_ids - set(parsed_documents(workspace, doc_ids))
    missing = {change.before.doc_id: change.before.source for change in changes if change.before.doc_id in missing_ids}
    outcomes = parse_documents(
        [ParseJob(doc_id, source, is_stored=True) for doc_id, source in missing.items()],
        source=workspace.source(),
        store_address=workspace.store.root,
        options=workspace.corpus.parse,
        passwords=workspace.passwords(),
        run_id=plan.run_id,
    )
    return doc_ids - {outcome.doc_id for outcome in outcomes if outcome.failures}


def faults_of_parse(
    workspace: Workspace, plan: Plan, changes: Sequence[ChangedSource], earlier_ids: Collection[str]
) -> Faults:
    """Return the changed documents that can't be read, or not as well as those before them."""
    notes = read_notes(workspace.store, plan.version, (Stage.PARSE,)).values()
    failures = {failure.doc_id: failure for note in notes for failure in note.failures if failure.doc_id}
    parsed_ids = set(parsed_documents(workspace, {change.now.doc_id for change in changes}))
    faults: dict[str, tuple[FailureCode | None, str]] = {}
    for change in changes:
        if change.now.doc_id not in parsed_ids and change.now.doc_id in failures:
            failure = failures[change.now.doc_id]
            faults[change.now.doc_id] = no_document(failure.code, failure.message)
        elif change.now.doc_id in parsed_ids and change.before.doc_id in earlier_ids:
            before, now = (
                ParsedDocumentFile(workspace.store, parsed_file(document.doc_id, workspace.keys.parse))
                for document in (change.before, change.now)
            )
            if doubt := _unread_pages(before, now) or next(
                (doubt for doubt in now.doubts if doubt not in before.doubts), ""
            ):
                faults[change.now.doc_id] = None, doubt
    return faults


def no_document(code: FailureCode, message: str) -> tuple[FailureCode, str]:
    """Return the fault of a file that gives no document."""
    return code, f"the file gives no document ({code}: {message})"


def faults_of_structure(workspace: Workspace, changes: Iterable[ChangedSource]) -> Faults:
    """Return the changed documents that lost more than half of the rows, words or figures of those before them."""
    faults: dict[str, tuple[FailureCode | None, str]] = {}
    for change in changes:
        before, now = (_sizes(workspace, doc_id) for doc_id in (change.before.doc_id, change.now.doc_id))
        fallen = [f"{now[name]} of {count} {name}" for name, count in before.items() if now[name] < _LEAST_SHARE * count]
        if fallen:
            faults[change.now.doc_id] = None, f"the file has {', '.join(fallen)} that it had"
    return faults


def _unread_pages(before: ParsedDocumentFile, now: ParsedDocumentFile) -> str:
    """Return how many pages can't be read, if they are more than before; "" else."""
    lost_before, lost_now = (
        len({failure.page for failure in document.failures if failure.code in UNREAD_PAGES}) for document in (before, now)
    )
    return f"{lost_now} pages can't be read any more" if lost_now > lost_before else ""


def _sizes(workspace: Workspace, doc_id: str) -> dict[str, int]:
    document = StructuredDocumentFile(workspace.store, workspace.structured_file(doc_id))
    words = sum(len(chunk.text.split()) for chunk in document.chunks)
    return {"rows": len(document.chunks), "words": words, "figures": len(document.figures)}
