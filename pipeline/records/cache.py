"""Finished work of models, filed under its key in shards and found again by record."""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.checksums import damage
from backends.stores.objects import read_table, reading
from schemas.errors import DamagedError
from schemas.parquet import from_parquet, holds_digest, read_column, to_parquet
from schemas.ports import ObjectStore

CACHES = ("recognised", "drawn", "captions", "likenesses", "vectors", "looks")
"""Folders of a store that hold caches, each with a folder a key."""

_RECORDS_A_SHARD = 20_000
_BYTES_A_SHARD = 256 << 20
"""Met before the other by records of many vectors, some 400 KB each."""

_SMALL_SHARDS = 64
"""Shards that were never joined, which a cache may have before they are; each costs a request when it is opened."""


class ShardedCache:
    """Records of one key, in Parquet shards below a folder; the column ``id`` names a record.

    A shard is written whole or not at all, so what a killed job had finished is found by the next one. Two shards may
    hold the same record; both hold the same bytes then. A shard that is damaged holds none, and goes when the next one is
    written. Shards are named by the time they were written, and looked through from the newest to the oldest: what a refresh
    asks for is mostly what it has just made.
    """

    def __init__(self, store: ObjectStore, folder: str, schema: pa.Schema) -> None:
        self._store = store
        self._folder = folder
        self.schema = schema
        self._shards: list[str] | None = None
        self._known: dict[str, pa.Array[Any]] = {}
        self._unchecked: dict[str, pa.ChunkedArray[Any]] = {}
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
        return {str(name) for names in self.ids_by_shard() for name in names.to_pylist()}

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that have no record yet, sorted, each once."""
        wanted = pa.array(sorted(set(ids)), pa.string())
        for _, names in self._names():
            wanted = wanted.filter(pc.invert(pc.is_in(wanted, names)))
            if not len(wanted):
                break
        return [str(name) for name in wanted.to_pylist()]

    def read(self, ids: Sequence[str]) -> pa.Table:
        """Return the records of these ids, each once, in no particular order; unknown ids are left out.

        Of a shard that holds none of them only the names are read.
        """
        wanted, found = pa.array(sorted(set(ids)), pa.string()), [self.schema.empty_table()]
        for name in [*self._newest_first()]:
            try:
                shard = self._shard_with(name, wanted)
            except DamagedError:
                self._lose(name)
                continue
            if shard is not None:
                names = shard.column("id").combine_chunks()
                held = wanted.filter(pc.is_in(wanted, names))
                found.append(shard.take(pc.index_in(held, names)))
                wanted = wanted.filter(pc.invert(pc.is_in(wanted, held)))
            if not len(wanted):
                break
        return pa.concat_tables(found)

    def let_go(self) -> None:
        """Hold the names no more that ``read`` looked through, some 70 bytes a record; it reads them again when it is asked."""
        self._unchecked.clear()

    def ids_by_shard(self) -> "Iterator[pa.Array[Any]]":
        """Yield the names of the records of each shard, in the order of ``shards``."""
        return (names for _, names in self._names())

    def shards(self) -> Iterator[pa.Table]:
        """Yield all records, a shard at a time; one may come twice.

        Raises:
            DamagedError: A shard whose names were asked for before has been damaged since.
        """
        for name in [*self._newest_first()]:
            try:
                shard = self._shard(name)
            except DamagedError:
                if name in self._known:
                    raise
                self._lose(name)
                continue
            yield shard

    def append(self, table: pa.Table) -> None:
        """Write records as one more shard."""
        if table.num_rows == 0:
            return
        name = f"{self._folder}/part-{time.time_ns():019}-{uuid.uuid4().hex[:8]}.parquet"
        others = self._newest_first()  # listed afterwards, it would be among them
        self._store.put(name, to_parquet(table))
        self._shards = [name, *others]
        self._known[name] = table.column("id").combine_chunks()
        self.drop_damaged()

    def drop_damaged(self) -> None:
        """Remove the shards that can't be read; their records count as missing already."""
        for _ in self._names():
            pass
        while self._damaged:
            self._store.delete(self._damaged.pop())

    def compact(self) -> None:
        """Join small shards where there are many: what comes slowly is written in small pieces, so that little is lost."""
        small = [(name, names) for name, names in self._names() if len(names) < _RECORDS_A_SHARD // 2]
        if len(small) > _SMALL_SHARDS:
            self._rewrite([name for name, _ in small], pa.array([], pa.string()))

    def forget(self, ids: Iterable[str]) -> None:
        """Remove the records of these ids, so that they count as missing.

        What else was in their shards is written, some shards in one, before those go.
        """
        gone = pa.array(sorted(set(ids)), pa.string())
        self._rewrite([name for name, names in self._names() if pc.any(pc.is_in(names, gone)).as_py()], gone)

    def _rewrite(self, shards: Sequence[str], gone: "pa.Array[Any]") -> None:
        """Write shards anew, some in one, without the records of some ids."""
        kept, old, rows, size = [], [], 0, 0
        for name in [*shards, None]:
            if name is not None:
                shard = self._shard(name)
                kept.append(shard.filter(pc.invert(pc.is_in(shard.column("id"), gone))))
                old.append(name)
                rows, size = rows + kept[-1].num_rows, size + kept[-1].nbytes
            if rows >= _RECORDS_A_SHARD or size >= _BYTES_A_SHARD or (name is None and old):
                self.append(pa.concat_tables(kept))
                for shard_name in old:
                    self._store.delete(shard_name)
                    self._newest_first().remove(shard_name)
                kept, old, rows, size = [], [], 0, 0

    def _newest_first(self) -> list[str]:
        if self._shards is None:
            self._shards = sorted(self._store.names(self._folder), reverse=True)
        return self._shards

    def _names(self) -> "Iterator[tuple[str, pa.Array[Any]]]":
        """Yield the shards, newest first, with the names of their records; of a record, nothing else is held."""
        for shard in [*self._newest_first()]:
            if shard not in self._known:
                try:
                    self._known[shard] = self._ids(shard)
                except DamagedError:
                    self._lose(shard)
                    continue
            yield shard, self._known[shard]

    def _lose(self, shard: str) -> None:
        """Count what a damaged shard held as missing."""
        self._damaged.append(shard)
        self._newest_first().remove(shard)

    def _ids(self, name: str) -> "pa.Array[Any]":
        data = self._store.get(name)
        if not holds_digest(data):
            # Shards that were written before there were digests may hold records without a value, which are none.
            return self._shard(name).column("id").combine_chunks()
        with reading(self._store, name):
            return from_parquet(data, ["id"]).column("id").combine_chunks()

    def _shard_with(self, name: str, ids: "pa.Array[Any]") -> pa.Table | None:
        """Return a shard; None where its names, which are read first, have none of the ids among them."""
        if name not in self._unchecked:  # read once, for callers come document by document
            with self._store.open(name) as file, reading(self._store, name):
                self._unchecked[name] = read_column(file, "id")
        names = self._unchecked[name]
        return self._shard(name) if pc.any(pc.is_in(names, ids)).as_py() else None

    def _shard(self, name: str) -> pa.Table:
        table = read_table(self._store, name)
        with reading(self._store, name):
            for field in self.schema:
                if not field.nullable:
                    table = table.filter(pc.is_valid(table.column(field.name)))
            return table.cast(self.schema)
