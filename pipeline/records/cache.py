"""Finished work of models, filed under its key in shards and found again by record."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.checksums import damage
from backends.stores.objects import read_table, reading
from schemas.errors import DamagedError
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore

_RECORDS_A_SHARD = 20_000


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
        self._known: dict[str, pa.Array[Any]] | None = None
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
        return {str(name) for names in self._loaded().values() for name in names.to_pylist()}

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that have no record yet, sorted, each once."""
        wanted = pa.array(sorted(set(ids)), pa.string())
        for names in self._loaded().values():
            wanted = wanted.filter(pc.invert(pc.is_in(wanted, names)))
        return [str(name) for name in wanted.to_pylist()]

    def read(self, ids: Sequence[str]) -> pa.Table:
        """Return the records of these ids, each once, in no particular order; unknown ids are left out."""
        wanted, found = pa.array(sorted(set(ids)), pa.string()), [self.schema.empty_table()]
        for name, names in self._loaded().items():
            here = wanted.filter(pc.is_in(wanted, names))
            if len(here):
                shard = self._shard(name)
                found.append(shard.take(pc.index_in(here, shard.column("id").combine_chunks())))
                wanted = wanted.filter(pc.invert(pc.is_in(wanted, here)))
        return pa.concat_tables(found)

    def shards(self) -> Iterator[pa.Table]:
        """Yield all records, a shard at a time; one may come twice."""
        return (self._shard(name) for name in list(self._loaded()))

    def append(self, table: pa.Table) -> None:
        """Write records as one more shard."""
        if table.num_rows == 0:
            return
        name = f"{self._folder}/part-{uuid.uuid4().hex}.parquet"
        self._store.put(name, to_parquet(table))
        self._loaded()[name] = table.column("id").combine_chunks()
        self.drop_damaged()

    def drop_damaged(self) -> None:
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
        """Forget all other records: what is kept is written, some shards in one, before the old ones go."""
        wanted = pa.array(sorted(set(ids)), pa.string())
        kept, old, rows = [], [], 0
        for name in [*self._loaded(), None]:
            if name is not None:
                shard = self._shard(name)
                kept.append(shard.filter(pc.is_in(shard.column("id"), wanted)))
                old.append(name)
                rows += kept[-1].num_rows
            if rows >= _RECORDS_A_SHARD or (name is None and old):
                self.append(pa.concat_tables(kept))
                for gone in old:
                    self._store.delete(gone)
                    del self._loaded()[gone]
                kept, old, rows = [], [], 0

    def _loaded(self) -> "dict[str, pa.Array[Any]]":
        """Return the names of records by shard: of a record, nothing else is held."""
        if self._known is None:
            self._known = {}
            for name in self._store.names(self._folder):
                try:
                    self._known[name] = self._shard(name).column("id").combine_chunks()
                except DamagedError:
                    self._damaged.append(name)
        return self._known

    def _shard(self, name: str) -> pa.Table:
        table = read_table(self._store, name)
        with reading(self._store, name):
            for field in self.schema:
                if not field.nullable:
                    table = table.filter(pc.is_valid(table.column(field.name)))
            return table.cast(self.schema)
