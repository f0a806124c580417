"""A version's ledger: a row a source, and what became of it."""

from collections.abc import Sequence

from pipeline.stages import version_file
from schemas.parquet import from_parquet, rows_of, table_of, to_parquet
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow


def read_ledger(store: ObjectStore, version: str) -> list[LedgerRow]:
    """Return a version's ledger, a row a source."""
    return list(rows_of(LedgerRow, from_parquet(store.get(version_file(version, "ledger.parquet")))))


def write_ledger(store: ObjectStore, version: str, rows: Sequence[LedgerRow]) -> None:
    """Keep a version's ledger."""
    store.replace(version_file(version, "ledger.parquet"), to_parquet(table_of(LedgerRow, rows)))
