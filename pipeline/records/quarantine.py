"""Failures of a refresh, stored by run."""

from collections.abc import Sequence

import pyarrow as pa

from backends.stores.objects import read_table, reading
from schemas.errors import Failure, FailureCode
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore
from schemas.stages import Stage
from schemas.versions import FAILURES, LedgerRow, Manifest, Status


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
    """Return the failures of a version's run; None where they are no longer stored."""
    return _failures_of(store, manifest.run_id)


def _failures_of(store: ObjectStore, run_id: str) -> list[Failure] | None:
    try:
        table = read_table(store, name := quarantine_file(run_id))
    except FileNotFoundError:
        return None
    with reading(store, name):
        return [Failure.model_validate(row) for row in table.to_pylist()]
