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


def read_failures(store: ObjectStore, manifest: Manifest) -> list[Failure] | None:
    """Return the failures of a version's run; None where they are no longer stored."""
    try:
        table = read_table(store, name := quarantine_file(manifest.run_id))
    except FileNotFoundError:
        return None
    with reading(store, name):
        return [Failure.model_validate(row) for row in table.to_pylist()]
