"""A temporary DuckDB database for queries over all rows, objects or records of a corpus."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.base import batched
from schemas.parquet import required

MEMORY = "512MB"
"""DuckDB's memory limit; the rest is on disk."""

_ROWS_A_BATCH = 20_000


NAMED = pa.schema(required(name=pa.string()))
"""A name of anything."""

KEYED = pa.schema(required(row=pa.int64(), key=pa.string()))
"""A row's index in the version, and its key."""


def keyed(rows: Sequence[int] | NDArray[np.int64], keys: Sequence[Any]) -> pa.Table:
    """Return rows of ``KEYED``."""
    return pa.table([pa.array(rows, pa.int64()), pa.array(keys, pa.string())], schema=KEYED)


class TemporaryTables:
    """Tables in a temporary ``folder``; the context manager removes it with everything in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="inset-"))
        settings: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": str(self.folder / "spilled")}
        self._schemas: dict[str, pa.Schema] = {}
        self._added: dict[str, list[pa.Table]] = {}
        self._database = duckdb.connect(str(self.folder / "tables.duckdb"), config=settings)

    def __enter__(self) -> "TemporaryTables":
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()
        shutil.rmtree(self.folder)

    def create(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table, replacing one of that name."""
        self._schemas[name], self._added[name] = schema, []
        # DuckDB takes columns and types from the empty Arrow table.
        self._execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming", schema.empty_table())

    def add(self, name: str, rows: pa.Table) -> None:
        """Append rows; columns match by position."""
        self._added[name].append(rows)
        if sum(table.num_rows for table in self._added[name]) >= _ROWS_A_BATCH:
            self._insert(name)

    def add_names(self, table: str, names: Iterable[str]) -> None:
        """Append names to a table of ``NAMED``; duplicates stay."""
        for batch in batched(names, _ROWS_A_BATCH):
            self.add(table, pa.table([batch], schema=NAMED))

    def _insert(self, name: str) -> None:
        """Insert the rows added since the last time, together, since each insert costs a millisecond."""
        if self._added[name]:
            # One chunk: DuckDB keeps blocks for each chunk that it inserts (488 MB for 10,000 chunks of a row).
            rows = pa.concat_tables([table.cast(self._schemas[name]) for table in self._added[name]]).combine_chunks()
            self._added[name] = []
            self._execute(f"INSERT INTO {name} SELECT * FROM incoming", rows)

    def _execute(self, sql: str, incoming: pa.Table) -> None:
        self._database.register("incoming", incoming)
        self._database.execute(sql)
        self._database.unregister("incoming")

    def query(self, sql: str) -> Iterator[pa.Table]:
        """Yield the result of a query in parts."""
        # Rows that wait for a full batch belong to the result too.
        for name in self._added:
            self._insert(name)
        for batch in self._database.cursor().execute(sql).to_arrow_reader(_ROWS_A_BATCH):
            yield pa.Table.from_batches([batch])

    def values(self, sql: str) -> Iterator[Any]:
        """Yield the first column of a query's result."""
        for rows in self.query(sql):
            yield from rows.column(0).to_pylist()
