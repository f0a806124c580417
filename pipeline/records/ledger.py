"""The sources of a version with their status, failures by run, and the documents that were deleted for good."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime

import pyarrow as pa
from pydantic import Field

from backends.stores.objects import change_model, read_changing, read_table, reading, unless_damaged
from schemas.base import Frozen
from schemas.errors import UNREAD_PAGES, Failure, FailureCode
from schemas.ids import version_file
from schemas.parquet import Rows, schema_of, to_parquet
from schemas.ports import ObjectStore
from schemas.stages import Stage
from schemas.versions import FAILURES, LedgerRow, Manifest, Status

_FILE = "ledger.parquet"


def read_ledger(store: ObjectStore, version: str) -> Rows[LedgerRow]:
    """Return a version's ledger, sorted by source."""
    return Rows(LedgerRow, read_table(store, version_file(version, _FILE), schema_of(LedgerRow)))


def readable_ledger(store: ObjectStore, version: str | None) -> Sequence[LedgerRow]:
    """Return a version's ledger; [] without one, or if it can't be read, so that every source counts as new."""
    return (unless_damaged(lambda: read_ledger(store, version)) if version else None) or []


def write_ledger(store: ObjectStore, version: str, rows: Rows[LedgerRow]) -> None:
    """Write a version's ledger."""
    store.replace(version_file(version, _FILE), to_parquet(rows.table))


def indexed_pages(rows: Iterable[LedgerRow]) -> dict[str, int]:
    """Return the number of pages of each indexed document."""
    return {row.doc_id: row.pages for row in rows if row.status is Status.INDEXED}


def indexed_sources(rows: Iterable[LedgerRow]) -> dict[str, tuple[str, ...]]:
    """Return the sources of each indexed document."""
    sources_by_document: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if row.status is Status.INDEXED:
            sources_by_document[row.doc_id] = (*sources_by_document.get(row.doc_id, ()), row.source)
    return sources_by_document


def document_of(source: str, sources_by_document: Mapping[str, Sequence[str]]) -> str | None:
    """Return the document that a source names; None if there is none."""
    return next((doc_id for doc_id, sources in sources_by_document.items() if source in sources), None)


def first_sources(rows: Iterable[LedgerRow]) -> dict[str, str]:
    """Return the first source of each document."""
    source_by_document: dict[str, str] = {}
    for row in rows:
        source_by_document.setdefault(row.doc_id, row.source)
    return source_by_document


def document_counts(ledger: Sequence[LedgerRow], failures: Iterable[Failure]) -> dict[str, int]:
    """Return the counts of a version's sources, documents and pages, as the note of ``assemble`` has them."""
    lost = UNREAD_PAGES | {FailureCode.EARLIER_KEPT, FailureCode.LAYOUT_FAILED}
    for_ocr = {FailureCode.FONT_UNREADABLE, FailureCode.NEEDS_OCR}
    failures = list(failures)
    damaged, unread = ({failure.source for failure in failures if failure.code in codes} for codes in (lost, for_ocr))

    def documents_of(sources: Set[str]) -> int:
        return len({row.doc_id for row in ledger if row.status is Status.INDEXED and row.source in sources})

    return {
        "sources": len(ledger),
        "documents": len(indexed_sources(ledger)),
        "quarantined": len({row.doc_id or row.source for row in ledger if row.status is Status.QUARANTINED}),
        "partly_read": documents_of(damaged | unread),
        "needs_ocr": documents_of(unread - damaged),
        "pages": sum(indexed_pages(ledger).values()),
    }


def quarantine_file(run_id: str) -> str:
    """Name the object that holds the failures of a run."""
    return f"quarantine/{run_id}.parquet"


def document_failures(ledger: Sequence[LedgerRow], run_id: str) -> list[Failure]:
    """Return the failures of quarantined documents, one a source."""
    return [
        Failure(
            source=row.source,
            doc_id=row.doc_id or None,
            page=row.page,
            step=row.step or Stage.PARSE,
            code=row.code or FailureCode.UNREADABLE,
            message=row.message or "",
            run_id=run_id,
        )
        for row in ledger
        if row.status is Status.QUARANTINED
    ]


def write_failures(store: ObjectStore, run_id: str, failures: Sequence[Failure]) -> None:
    """Write the failures of a run."""
    table = pa.Table.from_pylist([failure.model_dump(mode="json") for failure in failures], schema=FAILURES)
    store.replace(quarantine_file(run_id), to_parquet(table))


def replace_failures(store: ObjectStore, run_id: str, step: str, failures: Sequence[Failure]) -> None:
    """Write the failures of one step of a run, in place of those that it had; those of other steps stay."""
    other_failures = [failure for failure in _failures_of(store, run_id) or [] if failure.step != step]
    all_failures = sorted([*other_failures, *failures], key=lambda failure: (failure.source, failure.page or 0))
    write_failures(store, run_id, all_failures)


def read_failures(store: ObjectStore, manifest: Manifest) -> list[Failure] | None:
    """Return the failures of a version's run; None if they are no longer stored."""
    return _failures_of(store, manifest.run_id)


def _failures_of(store: ObjectStore, run_id: str) -> list[Failure] | None:
    try:
        table = read_table(store, name := quarantine_file(run_id), FAILURES)
    except FileNotFoundError:
        return None
    with reading(store, name):
        return [Failure.model_validate(row) for row in table.to_pylist()]


FORGOTTEN = "FORGOTTEN.json"


class ForgottenDocument(Frozen):
    """A deleted document, by the digest of its bytes."""

    doc_id: str
    at: datetime
    by: str
    reason: str | None = None


class Forgotten(Frozen):
    """The deleted documents. ``pending`` and ``sources`` name those whose deletion isn't finished."""

    documents: list[ForgottenDocument] = []
    pending: list[str] = Field([], description="Digests.")
    sources: list[str] = Field([], description="Their sources, which aren't kept once nothing is left of them.")

    @property
    def doc_ids(self) -> frozenset[str]:
        """Digests of all of them."""
        return frozenset(document.doc_id for document in self.documents)


def read_forgotten(store: ObjectStore) -> Forgotten:
    """Return the list, empty if nothing was forgotten; an unreadable one raises, since documents would be taken in again."""
    return read_changing(store, FORGOTTEN, Forgotten, fresh=False)[0]


def change_forgotten(store: ObjectStore, change: Callable[[Forgotten], Forgotten]) -> Forgotten:
    """Replace the list as ``change_model`` does, and return the new one."""
    return change_model(store, FORGOTTEN, Forgotten, change)
