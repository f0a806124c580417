"""Finished work of models, filed under its key in shards and found again by record."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.checksums import damage
from backends.stores.mapped import MappedTables
from backends.stores.objects import read_part, read_table, reading
from pipeline.records.places import Places
from schemas.errors import DamagedError
from schemas.parquet import from_parquet, holds_digest, to_parquet
from schemas.ports import ObjectStore

CACHES = ("recognised", "drawn", "captions", "likenesses", "vectors", "looks")
"""Folders of a store that hold caches, each with a folder a key."""

_RECORDS_A_SHARD = 20_000
_BYTES_A_SHARD = 256 << 20
"""Met before the other by records of many vectors, some 400 KB each."""

_SMALL_SHARDS = 64
"""Shards that were never joined, which a cache may have before they are; each costs a request when it is opened."""

_SMALL_BYTES = _BYTES_A_SHARD // 8
"""Stored size from which on a shard isn't joined, however few its records are: it would be written over and over."""

_IDS_AT_ONCE = 50_000
"""Ids that are looked up together, some 10 MB."""


Found = TypeVar("Found")


class ShardedCache:
    """Records of one key, in Parquet shards below a folder; the column ``id`` names a record.

    A shard is written whole or not at all, so what a killed job had finished is found by the next one. Two shards may
    hold the same record; both hold the same bytes then. A shard that is damaged holds none, and goes when the next one is
    written.

    Shards are named by the time they were written, and looked through from the newest to the oldest, as far as it takes: what a
    refresh asks for is mostly what it has just made. Where records lie is remembered, 24 bytes each, and what is read of shards
    is put aside on disk: callers come document by document, and one more document costs the same however many there are.
    """

    def __init__(self, store: ObjectStore, folder: str, schema: pa.Schema) -> None:
        self._store = store
        self._folder = folder
        self.schema = schema
        self._shards: dict[str, None] | None = None
        self._damaged: list[str] = []
        self._named: set[str] = set()
        self.let_go()

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
        """Return the ids that have no record yet, sorted, each once; the shards that hold the others are read and checked."""
        coming, missing = iter(ids), set[str]()
        while some := set(islice(coming, _IDS_AT_ONCE)):
            places = self._locate(some, whole=True)
            while not all(self._is_whole(shard) for shard in places):
                places = self._locate(some, whole=True)
            missing |= some.difference(*places.values())
        return sorted(missing)

    def read(self, ids: Sequence[str]) -> pa.Table:
        """Return the records of these ids, each once, in no particular order; unknown ids are left out.

        Of a shard that holds none of them only the names are read.
        """
        wanted, found = set(ids), [self.schema.empty_table()]
        while places := self._locate(wanted):
            for shard, rows in places.items():
                if self._is_aside(shard):
                    found.append(self._aside.take(shard, np.array([*rows.values()])))
                    wanted -= rows.keys()
        return pa.concat_tables(found)

    def let_go(self) -> None:
        """Forget where records lie, and what was put aside; all of it is looked up again when somebody asks."""
        self._places, self._aside = Places(), MappedTables()
        self._whole: set[str] = set()
        self._unseen: list[str] | None = None

    def ids_by_shard(self) -> "Iterator[pa.Array[Any]]":
        """Yield the names of the records of each shard, in the order of ``shards``; none of them are kept."""
        for shard in [*self._newest_first()]:
            if (names := self._unless_damaged(self._ids, shard)) is not None:
                self._named.add(shard)
                yield names

    def shards(self) -> Iterator[pa.Table]:
        """Yield all records, a shard at a time; one may come twice.

        Raises:
            DamagedError: A shard whose names were asked for before has been damaged since.
        """
        for name in [*self._newest_first()]:
            try:
                shard = self._shard(name)
            except DamagedError:
                if name in self._named:
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
        self._shards = {name: None, **others}
        self._places.add(name, _texts(table.column("id")))
        self._whole.add(name)
        while self._damaged:
            self._store.delete(self._damaged.pop())

    def compact(self) -> None:
        """Join small shards where there are many: what comes slowly is written in small pieces, so that little is lost."""
        while self._look_at_next() is not None:
            pass
        few = [shard for shard in self._newest_first() if self._places.count(shard) < _RECORDS_A_SHARD // 2]
        if len(few) > _SMALL_SHARDS:
            sizes = self._store.sizes(self._folder)
            small = [shard for shard in few if sizes.get(shard, 0) < _SMALL_BYTES]
            if len(small) > _SMALL_SHARDS:
                self._rewrite(small, pa.array([], pa.string()))

    def forget(self, ids: Iterable[str]) -> None:
        """Remove the records of these ids, so that they count as missing.

        What else was in their shards is written, some shards in one, before those go.
        """
        gone, shards = pa.array(sorted(set(ids)), pa.string()), []
        for shard in [*self._newest_first()]:
            names = self._unless_damaged(self._unchecked_ids, shard)
            if names is not None and pc.any(pc.is_in(names, gone)).as_py():
                shards.append(shard)
        self._rewrite(shards, gone)

    def _rewrite(self, shards: Sequence[str], gone: "pa.Array[Any]") -> None:
        """Write shards anew, some in one, without the records of some ids."""
        kept, old, rows, size = [], [], 0, 0
        for name in [*shards, None]:
            if name is not None:
                if (shard := self._unless_damaged(self._shard, name)) is None:
                    continue
                kept.append(shard.filter(pc.invert(pc.is_in(shard.column("id"), gone))))
                old.append(name)
                rows, size = rows + kept[-1].num_rows, size + kept[-1].nbytes
            if rows >= _RECORDS_A_SHARD or size >= _BYTES_A_SHARD or (name is None and old):
                self.append(pa.concat_tables(kept))
                for shard_name in old:
                    self._store.delete(shard_name)
                    del self._newest_first()[shard_name]
                self._places.drop(old)
                kept, old, rows, size = [], [], 0, 0

    def _newest_first(self) -> dict[str, None]:
        if self._shards is None:
            self._shards = dict.fromkeys(sorted(self._store.names(self._folder), reverse=True))
        return self._shards

    def _locate(self, ids: set[str], *, whole: bool = False) -> dict[str, dict[str, int]]:
        """Return in which rows of which shards records lie, looking at more shards as far as it takes to find them all.

        Args:
            ids: Names of records.
            whole: Check the shards that are looked at; only their names are read otherwise.
        """
        found: dict[str, dict[str, int]] = {}
        lacking = self._add_places(ids, found)
        unseen = set(lacking)
        while unseen and (names := self._look_at_next(whole=whole)) is not None:
            unseen.difference_update(names)
        self._add_places(lacking - unseen, found)
        return found

    def _add_places(self, ids: set[str], found: dict[str, dict[str, int]]) -> set[str]:
        """Add where records lie, as far as that is known; return the others."""
        lacking = set(ids)
        for place in self._places.find(sorted(ids)):
            found.setdefault(place.shard, {})[place.id] = place.row
            lacking.remove(place.id)
        return lacking

    def _look_at_next(self, *, whole: bool = False) -> list[str] | None:
        """Note which records the newest shard has that nobody looked at yet, and return their names; None after the last."""
        if self._unseen is None:
            self._unseen = [*self._newest_first()][::-1]
        read: Callable[[str], pa.Array[Any] | pa.ChunkedArray[Any]] = self._ids if whole else self._unchecked_ids
        while self._unseen:
            shard = self._unseen.pop()
            if shard in self._places or shard not in self._newest_first():
                continue
            if (found := self._unless_damaged(read, shard)) is None:
                continue
            names = _texts(found)
            self._places.add(shard, names)
            if whole:
                self._whole.add(shard)
            if not self._unseen:
                self._places.settle()
            return names
        return None

    def _is_whole(self, shard: str) -> bool:
        """Return whether a shard isn't damaged, and its records lie where they were found; each is read once for this."""
        if shard in self._whole:
            return True
        names = self._unless_damaged(self._ids, shard)
        return names is not None and self._confirm(shard, _texts(names))

    def _is_aside(self, shard: str) -> bool:
        """Return whether a shard's records could be put aside, and lie where they were found; each is read once for this."""
        if shard in self._aside:
            return True
        if (records := self._unless_damaged(self._shard, shard)) is None:
            return False
        self._aside.add(shard, records)
        return self._confirm(shard, _texts(records.column("id")))

    def _confirm(self, shard: str, names: list[str]) -> bool:
        """Note that a shard is whole, and its names; return whether they are those that were found before."""
        self._whole.add(shard)
        is_same = len(names) == self._places.count(shard)
        if not is_same:  # those without a value are none
            self._places.drop([shard])
            self._places.add(shard, names)
        return is_same

    def _unless_damaged(self, read: Callable[[str], Found], shard: str) -> Found | None:
        """Return what is read of a shard; None where it is damaged, and lost."""
        try:
            return read(shard)
        except DamagedError:
            self._lose(shard)
            return None

    def _lose(self, shard: str) -> None:
        """Count what a damaged shard held as missing."""
        self._damaged.append(shard)
        del self._newest_first()[shard]
        self._places.drop([shard])

    def _unchecked_ids(self, name: str) -> "pa.ChunkedArray[Any]":
        """Return the names in a shard, of which nothing else is read."""
        return read_part(self._store, name, "id")

    def _ids(self, name: str) -> "pa.Array[Any]":
        data = self._store.get(name)
        if not holds_digest(data):
            # Shards that were written before there were digests may hold records without a value, which are none.
            return self._shard(name).column("id").combine_chunks()
        with reading(self._store, name):
            return from_parquet(data, ["id"]).column("id").combine_chunks()

    def _shard(self, name: str) -> pa.Table:
        table = read_table(self._store, name)
        with reading(self._store, name):
            for field in self.schema:
                if not field.nullable:
                    table = table.filter(pc.is_valid(table.column(field.name)))
            return table.cast(self.schema)


def _texts(names: "pa.Array[Any] | pa.ChunkedArray[Any]") -> list[str]:
    return [str(name) for name in names.to_pylist()]
