"""A version's ledger: a row a source, and what became of it."""

from collections.abc import Iterable, Sequence

from backends.stores.objects import read_rows
from schemas.errors import DamagedError
from schemas.ids import version_file
from schemas.parquet import table_of, to_parquet
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow, Status


def read_ledger(store: ObjectStore, version: str) -> list[LedgerRow]:
    """Return a version's ledger, a row a source."""
    return list(read_rows(store, version_file(version, "ledger.parquet"), LedgerRow))


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
