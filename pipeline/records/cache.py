"""Finished work of models, filed under its key in shards and found again by record."""

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.checksums import damage
from backends.stores.objects import read_table, reading
from schemas.errors import DamagedError
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore


class ShardedCache:
    """Records of one key, in Parquet shards below a folder; the column ``id`` names a record.

    A shard is written whole or not at all, so what a killed job had finished is found by the next one. Two shards may
    hold the same record; both hold the same bytes then. A shard that is damaged holds none, and goes when the next one is
    written; a record without a value is none.
    """

    def __init__(self, store: ObjectStore, folder: str, schema: pa.Schema) -> None:
        self._store = store
        self._folder = folder
        self.schema = schema
        self._shards: dict[str, pa.Table] | None = None
        self._damaged: list[str] = []

    @property
    def folder(self) -> str:
        """Where the shards lie in the store."""
        return self._folder

    def lacking(self, count: int) -> DamagedError:
        """Return the error that says that so many records that are needed are missing."""
        return damage(DamagedError, self._store.root, self._folder, f"lacks {count} records")

    def ids(self) -> set[str]:
        """Return the names of all records."""
        return {str(name) for name in self._table().column("id").to_pylist()}

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that have no record yet, sorted, each once."""
        return sorted(set(ids) - self.ids())

    def read(self, ids: Sequence[str]) -> pa.Table:
        """Return the records of these ids, each once, in no particular order; unknown ids are left out."""
        table = self._table()
        found = table.filter(pc.is_in(table.column("id"), pa.array(ids, pa.string())))
        first: dict[str, int] = {}
        for row, record in enumerate(found.column("id").to_pylist()):
            first.setdefault(str(record), row)
        return found.take(pa.array(sorted(first.values()), pa.int64()))

    def append(self, table: pa.Table) -> None:
        """Write records as one more shard."""
        if table.num_rows == 0:
            return
        name = f"{self._folder}/part-{uuid.uuid4().hex}.parquet"
        self._store.put(name, to_parquet(table))
        self._loaded()[name] = table
        self.mend()

    def mend(self) -> None:
        """Remove the shards that can't be read; their records count as missing already."""
        self._loaded()
        while self._damaged:
            self._store.delete(self._damaged.pop())

    def forget(self, ids: Iterable[str]) -> None:
        """Remove the records of these ids, so that they count as missing."""
        gone = set(ids) & self.ids()
        if gone:
            self.keep(self.ids() - gone)

    def keep(self, ids: Iterable[str]) -> None:
        """Forget all other records: what is kept is written as one shard before the old ones go."""
        kept, old = self.read(sorted(ids)), list(self._loaded())
        self.append(kept)
        for name in old:
            self._store.delete(name)
            del self._loaded()[name]

    def _loaded(self) -> dict[str, pa.Table]:
        if self._shards is None:
            self._shards = {}
            for name in self._store.names(self._folder):
                try:
                    self._shards[name] = self._shard(name)
                except DamagedError:
                    self._damaged.append(name)
        return self._shards

    def _shard(self, name: str) -> pa.Table:
        table = read_table(self._store, name)
        with reading(self._store, name):
            for field in self.schema:
                if not field.nullable:
                    table = table.filter(pc.is_valid(table.column(field.name)))
            return table.cast(self.schema)

    def _table(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *self._loaded().values()])
