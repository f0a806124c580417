"""A version's ledger: one row for each source, with its status."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from backends.stores.objects import read_table
from schemas.errors import DamagedError
from schemas.ids import version_file
from schemas.parquet import Rows, schema_of, to_parquet
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow, SourceFate, Status

_FILE = "ledger.parquet"


def read_ledger(store: ObjectStore, version: str) -> Rows[LedgerRow]:
    """Return a version's ledger, sorted by source."""
    return Rows(LedgerRow, read_table(store, version_file(version, _FILE), schema_of(LedgerRow)))


def readable_ledger(store: ObjectStore, version: str) -> Sequence[LedgerRow]:
    """Return a version's ledger; [] where it can't be read, so that every source counts as new."""
    try:
        return read_ledger(store, version)
    except DamagedError:
        return []


def write_ledger(store: ObjectStore, version: str, rows: Rows[LedgerRow]) -> None:
    """Write a version's ledger; a column that an earlier release doesn't know is left out where it is empty."""
    table = rows.table
    if table.column("newer").null_count == table.num_rows:
        table = table.drop_columns(["newer"])
    store.replace(version_file(version, _FILE), to_parquet(table))


def read_fates(store: ObjectStore, version: str) -> pa.Table:
    """Return the columns of ``SourceFate`` of a version's ledger, sorted by source."""
    return read_table(store, version_file(version, _FILE), columns=SourceFate._fields)


_ROWS_AT_ONCE = 1_000


def each_fate(fates: pa.Table) -> Iterator[SourceFate]:
    """Yield the rows of ``read_fates``."""
    for part in fates.to_batches(_ROWS_AT_ONCE):
        for source, doc_id, status in zip(*(part.column(name).to_pylist() for name in SourceFate._fields), strict=True):
            yield SourceFate(source, doc_id, Status(status))


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


def first_sources(rows: Iterable[LedgerRow]) -> dict[str, str]:
    """Return the first source of each document."""
    source_by_document: dict[str, str] = {}
    for row in rows:
        source_by_document.setdefault(row.doc_id, row.source)
    return source_by_document
