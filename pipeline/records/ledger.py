"""A version's ledger: a row a source, and what became of it."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from backends.stores.objects import read_rows, read_table
from schemas.errors import DamagedError
from schemas.ids import version_file
from schemas.parquet import schema_of, table_of, to_parquet
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow, SourceFate, Status


def read_ledger(store: ObjectStore, version: str) -> list[LedgerRow]:
    """Return a version's ledger, a row a source."""
    return list(read_rows(store, version_file(version, "ledger.parquet"), LedgerRow))


def read_ledger_table(store: ObjectStore, version: str) -> pa.Table:
    """Return a version's ledger, a row a source, sorted by source."""
    return read_table(store, version_file(version, "ledger.parquet"), schema_of(LedgerRow))


_ROWS_AT_ONCE = 1_000


def source_fates(ledger: pa.Table) -> Iterator[SourceFate]:
    """Yield what became of the sources of a ledger, in its order."""
    for part in ledger.select(SourceFate._fields).to_batches(_ROWS_AT_ONCE):
        for source, doc_id, status in zip(*(column.to_pylist() for column in part.columns), strict=True):
            yield SourceFate(source, doc_id, Status(status))


def readable_ledger(store: ObjectStore, version: str) -> list[LedgerRow]:
    """Return a version's ledger; [] where it can't be read: then every source is new."""
    try:
        return read_ledger(store, version)
    except DamagedError:
        return []


def write_ledger(store: ObjectStore, version: str, rows: Sequence[LedgerRow]) -> None:
    """Keep a version's ledger."""
    store.replace(version_file(version, "ledger.parquet"), to_parquet(table_of(LedgerRow, rows)))


def indexed_pages(rows: Iterable[LedgerRow]) -> dict[str, int]:
    """Return the indexed documents of a ledger, each once, with their numbers of pages."""
    return {row.doc_id: row.pages for row in rows if row.status is Status.INDEXED}
