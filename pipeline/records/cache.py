"""Caches of model results: records in Parquet shards, below a folder for each key."""

import time
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.stores.objects import read_part, read_table, reading
from schemas.errors import DamagedError
from schemas.parquet import rows_of, schema_of, table_of, to_parquet
from schemas.ports import ObjectStore

CACHES = ("recognised", "drawn", "captions", "likenesses", "looks", "replies")
"""Folders of a store that hold caches."""

_RECORDS_A_SHARD = 20_000
_BYTES_A_SHARD = 256 << 20
"""Shard limit for large records, such as the words of a dense scan."""

_SMALL_SHARDS = 64
"""Shards below half of ``_RECORDS_A_SHARD`` that are not joined: each costs a request when a cache is opened."""

_SMALL_BYTES = _BYTES_A_SHARD // 8
"""Size from which a shard isn't joined, so that large records aren't rewritten."""

_DECODED_BYTES = 512 << 20
"""Decoded shards in memory; documents and shards come in the same order, so that few shards are read twice."""

Found = TypeVar("Found")
Record = TypeVar("Record", bound=Hashable)


class _Locations:
    """Shard and row of each record, in arrays sorted by a 64-bit hash of its id: 16 bytes a record.

    Of a hundred million records, the chance that one is taken for another is one in ten thousand for a million ids.
    """

    def __init__(self) -> None:
        self._shards: list[str] = []
        self._hashes, self._rows = np.empty(0, np.int64), np.empty(0, np.int64)
        self._added: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def add(self, shard: str, names: Sequence[str]) -> None:
        """Add the records of a shard that is newer than the others."""
        rows = (len(self._shards) << 32) + np.arange(len(names))
        self._shards.append(shard)
        self._added.append((_hashes(names), rows))

    def drop(self, shard: str) -> None:
        """Remove the records of a shard."""
        self._sort()
        if shard in self._shards:
            is_left = self._rows >> 32 != self._shards.index(shard)
            self._hashes, self._rows = self._hashes[is_left], self._rows[is_left]

    def counts(self) -> dict[str, int]:
        """Return the number of records in each shard that has any."""
        self._sort()
        numbers, counts = np.unique(self._rows >> 32, return_counts=True)
        return {self._shards[number]: int(count) for number, count in zip(numbers, counts, strict=True)}

    def find(self, ids: Collection[str]) -> dict[str, dict[str, int]]:
        """Return the row of each record by the newest shard that has it, and id."""
        self._sort()
        names, rows_by_shard = sorted(ids), dict[str, dict[str, int]]()
        hashes = _hashes(names)
        stops = np.searchsorted(self._hashes, hashes, "right")  # of equal ones, the last is the newest
        is_stored = stops > np.searchsorted(self._hashes, hashes, "left")
        for index in np.flatnonzero(is_stored):
            row = int(self._rows[stops[index] - 1])
            rows_by_shard.setdefault(self._shards[row >> 32], {})[names[index]] = row & 0xFFFFFFFF
        return rows_by_shard

    def _sort(self) -> None:
        if self._added:
            hashes = np.concatenate([self._hashes, *(hashes for hashes, _ in self._added)])
            # A stable sort keeps records of one id in the order of their shards, so the last of them is the newest.
            order = np.argsort(hashes, kind="stable")
            self._rows = np.concatenate([self._rows, *(rows for _, rows in self._added)])[order]
            self._hashes = hashes[order]
            self._added.clear()


def _hashes(names: Sequence[str]) -> NDArray[np.int64]:
    # Python salts the hash of a string in each process, so locations are built when a cache is opened, and never stored.
    return np.fromiter(map(hash, names), np.int64, len(names))


class RecordCache(Generic[Record]):
    """Records of one key, a dataclass each, in Parquet shards; the field ``id`` names a record.

    Shards are written atomically, so work of a killed job is kept. Two shards may hold the same record with the same bytes.
    A damaged shard counts as absent, and is deleted when the next one is written.
    """

    def __init__(self, store: ObjectStore, folder: str, noun: type[Record]) -> None:
        self._store, self._noun = store, noun
        self.folder = folder
        self._damaged: list[str] = []
        self.close()

    def close(self) -> None:
        """Free memory; shards are read again when needed."""
        self._locations: _Locations | None = None
        self._decoded: dict[str, pa.Table] = {}
        self._intact: set[str] = set()

    def ids(self) -> set[str]:
        """Return the ids of all records."""
        return {name for names in self.ids_by_shard() for name in names}

    def ids_by_shard(self) -> Iterator[list[str]]:
        """Yield the ids of all records, a shard at a time, the newest first; one may come twice."""
        for shard in self._shards():
            if (names := self._unless_damaged(self._read_ids, shard)) is not None:
                yield names

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that have no record, sorted, each once; the shards of the others are read and checked."""
        wanted_ids = set(ids)
        rows_by_shard = self._locate(wanted_ids, lambda shard: shard in self._intact or self._is_decoded(shard))
        return sorted(wanted_ids.difference(*rows_by_shard.values()))

    def read(self, ids: Sequence[str]) -> tuple[Record, ...]:
        """Return the records of these ids, each once, in no particular order; unknown ids are left out."""
        shards = self._locate(set(ids), self._is_decoded)
        tables = (self._decode(shard).take(pa.array(rows.values())) for shard, rows in shards.items())
        return tuple(record for table in tables for record in rows_of(self._noun, table))

    def append(self, records: Sequence[Record]) -> None:
        """Write records as a new shard."""
        self._append(table_of(self._noun, records))

    def _append(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        name = f"{self.folder}/part-{time.time_ns():019}-{uuid.uuid4().hex[:8]}.parquet"
        self._store.put(name, to_parquet(table))
        self._intact.add(name)
        if self._locations is not None:
            self._locations.add(name, _strings(table.column("id")))
        while self._damaged:
            self._store.delete(self._damaged.pop())

    def compact(self) -> None:
        """Join small shards if there are many."""
        counts, sizes = self._opened_locations().counts(), self._store.sizes(self.folder)
        small = [
            shard
            for shard, count in sorted(counts.items(), reverse=True)
            if count < _RECORDS_A_SHARD // 2 and sizes.get(shard, 0) < _SMALL_BYTES
        ]
        if len(small) > _SMALL_SHARDS:
            self._rewrite(small, pa.array([], pa.string()))

    def remove(self, ids: Iterable[str]) -> None:
        """Remove the records of these ids; the other records of their shards are rewritten first."""
        removed = set(ids)
        shards = [
            shard for shard in self._shards() if not removed.isdisjoint(self._unless_damaged(self._read_ids, shard) or ())
        ]
        self._rewrite(shards, pa.array(sorted(removed), pa.string()))

    def _rewrite(self, shards: Sequence[str], removed: "pa.Array[Any]") -> None:
        """Rewrite shards, joined, without the records of some ids."""
        remaining_tables: list[pa.Table] = []
        old_shards: list[str] = []

        def write() -> None:
            if old_shards:
                # A kill between the two leaves records in two shards, which is allowed; the other order would lose them.
                self._append(pa.concat_tables(remaining_tables))
                for shard in old_shards:
                    self._store.delete(shard)
                    self._drop(shard)
                remaining_tables.clear()
                old_shards.clear()

        for shard in shards:
            if (table := self._unless_damaged(self._read, shard)) is None:
                continue
            remaining_tables.append(table.filter(pc.invert(pc.is_in(table.column("id"), removed))))
            old_shards.append(shard)
            if (
                sum(remaining.num_rows for remaining in remaining_tables) >= _RECORDS_A_SHARD
                or sum(remaining.nbytes for remaining in remaining_tables) >= _BYTES_A_SHARD
            ):
                write()
        write()

    def _shards(self) -> list[str]:
        """Return the undamaged shards, newest first: their names begin with the time."""
        return [shard for shard in sorted(self._store.names(self.folder), reverse=True) if shard not in self._damaged]

    def _locate(self, ids: set[str], usable: Callable[[str], bool]) -> dict[str, dict[str, int]]:
        """Return the row of each record by shard and id, in the newest usable shard."""
        locations = self._opened_locations()
        rows_by_shard = locations.find(ids)
        # ``usable`` drops the locations of a shard that it finds damaged; an older shard may have the same records.
        while not all(usable(shard) for shard in rows_by_shard):
            rows_by_shard = locations.find(ids)  # without the damaged shard
        return rows_by_shard

    def _opened_locations(self) -> _Locations:
        if self._locations is None:
            self._locations = _Locations()
            # Oldest first, since the locations take each added shard for the newest.
            for shard in reversed(self._shards()):
                if (names := self._unless_damaged(self._read_ids, shard)) is not None:
                    self._locations.add(shard, names)
        return self._locations

    def _drop(self, shard: str) -> None:
        self._decoded.pop(shard, None)
        if self._locations is not None:
            self._locations.drop(shard)

    def _is_decoded(self, shard: str) -> bool:
        return shard in self._decoded or self._unless_damaged(self._decode, shard) is not None

    def _decode(self, shard: str) -> pa.Table:
        """Return a shard's records, which stay in memory until others need the room."""
        if shard not in self._decoded:
            self._decoded[shard] = self._read(shard).combine_chunks()
            self._intact.add(shard)
            # The shard just decoded stays even if it alone is too large, since the caller reads it next.
            while len(self._decoded) > 1 and sum(table.nbytes for table in self._decoded.values()) > _DECODED_BYTES:
                del self._decoded[next(iter(self._decoded))]
        return self._decoded[shard]

    def _unless_damaged(self, read: Callable[[str], Found], shard: str) -> Found | None:
        """Return what ``read`` returns; None if the shard is damaged, or another process removed it."""
        try:
            return read(shard)
        except DamagedError:
            self._damaged.append(shard)
            self._drop(shard)
            return None

    def _read_ids(self, shard: str) -> list[str]:
        """Return the ids in a shard; only that column is read and checked."""
        return _strings(read_part(self._store, shard, "id"))

    def _read(self, shard: str) -> pa.Table:
        table = read_table(self._store, shard)
        with reading(self._store, shard):
            return table.cast(schema_of(self._noun))


def _strings(names: "pa.ChunkedArray[Any]") -> list[str]:
    return [str(name) for name in names.to_pylist()]
