"""Caches of model results: records in Parquet shards, below a folder for each key."""

import shutil
import sqlite3
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from backends.models.registry import language_model_card
from backends.stores.checksums import damage
from backends.stores.objects import read_part, read_table, reading
from schemas.batches import batched
from schemas.corpus.models import ModelConfig
from schemas.errors import DamagedError
from schemas.ids import key
from schemas.parquet import rows_of, schema_of, to_parquet
from schemas.ports import ObjectStore
from schemas.versions import Spent

CACHES = ("recognised", "drawn", "captions", "likenesses", "vectors", "looks", "replies")
"""Folders of a store that hold caches."""

_RECORDS_A_SHARD = 20_000
_BYTES_A_SHARD = 256 << 20
"""Shard limit for large records, such as the vectors of a page, some 400 KB."""

_SMALL_SHARDS = 64
"""Shards below half of ``_RECORDS_A_SHARD`` that are not joined: each costs a request when a cache is opened."""

_SMALL_BYTES = _BYTES_A_SHARD // 8
"""Size from which a shard isn't joined, so that large records aren't rewritten."""

_IDS_A_QUERY = 10_000

Found = TypeVar("Found")


class RecordCache:
    """Records of one key in Parquet shards; the column ``id`` names a record.

    Shards are written atomically, so work of a killed job is kept. Two shards may hold the same record with the same bytes. A
    damaged shard counts as absent, and is deleted when the next one is written.

    An index of record ids is a temporary SQLite database, and shards are decoded to temporary Arrow files: callers read a few
    records at a time of millions.
    """

    def __init__(self, store: ObjectStore, folder: str, schema: pa.Schema) -> None:
        self._store = store
        self._folder = folder
        self.schema = schema
        self._damaged: list[str] = []
        self._decoded: dict[str, Path] = {}
        self._files: Path | None = None
        self.close()

    def close(self) -> None:
        """Remove the temporary files; they are made again when needed."""
        self._index: sqlite3.Connection | None = None
        for file in self._decoded.values():
            file.unlink()
        self._decoded.clear()
        self._intact: set[str] = set()

    @property
    def folder(self) -> str:
        """Folder of the shards in the store."""
        return self._folder

    def missing_records(self, count: int) -> DamagedError:
        """Return the error for a number of missing records."""
        return damage(DamagedError, self._store.root, self._folder, f"lacks {count} records")

    def ids(self) -> set[str]:
        """Return the ids of all records."""
        return {name for names in self.ids_by_shard() for name in names}

    def ids_by_shard(self) -> Iterator[list[str]]:
        """Yield the ids of all records, a shard at a time; one may come twice."""
        for shard in self._shards():
            if (names := self._unless_damaged(self._checked_ids, shard)) is not None:
                yield names

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that have no record, sorted, each once; the shards of the others are read and checked."""
        missing = set[str]()
        for batch in batched(ids, _IDS_A_QUERY):
            missing |= set(batch).difference(*self._locate(set(batch), self._is_intact).values())
        return sorted(missing)

    def read(self, ids: Sequence[str]) -> pa.Table:
        """Return the records of these ids, each once, in no particular order; unknown ids are left out."""
        tables = [self.schema.empty_table()]
        for shard, rows in self._locate(set(ids), self._is_decoded).items():
            with pa.memory_map(str(self._decoded[shard])) as file:
                tables.append(pa.ipc.open_file(file).read_all().take(pa.array(rows.values())))
        return pa.concat_tables(tables)

    def shards(self) -> Iterator[pa.Table]:
        """Yield all records, a shard at a time; one may come twice."""
        for shard in self._shards():
            if (table := self._unless_damaged(self._read, shard)) is not None:
                yield table

    def append(self, table: pa.Table) -> None:
        """Write records as a new shard."""
        if table.num_rows == 0:
            return
        name = f"{self._folder}/part-{time.time_ns():019}-{uuid.uuid4().hex[:8]}.parquet"
        self._store.put(name, to_parquet(table))
        self._intact.add(name)
        if self._index is not None:
            self._index_shard(self._index, name, _strings(table.column("id")))
        while self._damaged:
            self._store.delete(self._damaged.pop())

    def compact(self) -> None:
        """Join small shards where there are many."""
        index, sizes = self._opened_index(), self._store.sizes(self._folder)
        counts = index.execute(
            "SELECT shard FROM locations GROUP BY shard HAVING count(*) < ? ORDER BY shard DESC", (_RECORDS_A_SHARD // 2,)
        )
        small = [shard for (shard,) in counts if sizes.get(shard, 0) < _SMALL_BYTES]
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
                self.append(pa.concat_tables(remaining_tables))
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
        return [shard for shard in sorted(self._store.names(self._folder), reverse=True) if shard not in self._damaged]

    def _locate(self, ids: set[str], usable: Callable[[str], bool]) -> dict[str, dict[str, int]]:
        """Return the row of each record by shard and id, in the newest usable shard."""
        rows_by_shard = self._find(ids)
        while not all(usable(shard) for shard in rows_by_shard):
            rows_by_shard = self._find(ids)  # without the damaged shard
        return rows_by_shard

    def _find(self, ids: set[str]) -> dict[str, dict[str, int]]:
        index, rows_by_shard = self._opened_index(), dict[str, dict[str, int]]()
        for batch in batched(ids, _IDS_A_QUERY):
            placeholders = ",".join("?" * len(batch))
            # SQLite takes the other columns from the row with the maximum.
            query = f"SELECT id, max(shard), row FROM locations WHERE id IN ({placeholders}) GROUP BY id"
            for name, shard, row in index.execute(query, batch):
                rows_by_shard.setdefault(shard, {})[name] = row
        return rows_by_shard

    def _opened_index(self) -> sqlite3.Connection:
        if self._index is None:
            # A database without a name is a temporary file that SQLite removes.
            self._index = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._index.execute(
                "CREATE TABLE locations (id TEXT, shard TEXT, row INTEGER, PRIMARY KEY (id, shard)) WITHOUT ROWID"
            )
            for shard in self._shards():
                if (names := self._unless_damaged(self._read_ids, shard)) is not None:
                    self._index_shard(self._index, shard, names)
        return self._index

    def _index_shard(self, index: sqlite3.Connection, shard: str, names: Sequence[str]) -> None:
        index.execute("BEGIN")
        index.executemany(
            "INSERT OR IGNORE INTO locations VALUES (?, ?, ?)", ((name, shard, row) for row, name in enumerate(names))
        )
        index.execute("COMMIT")

    def _drop(self, shard: str) -> None:
        if self._index is not None:
            self._index.execute("DELETE FROM locations WHERE shard = ?", (shard,))

    def _is_intact(self, shard: str) -> bool:
        """Return whether a shard is intact; each is read once for this."""
        if shard not in self._intact and self._unless_damaged(self._checked_ids, shard) is not None:
            self._intact.add(shard)
        return shard in self._intact

    def _is_decoded(self, shard: str) -> bool:
        """Write a shard's records to a temporary Arrow file; return whether it is intact."""
        if shard in self._decoded:
            return True
        if (table := self._unless_damaged(self._read, shard)) is None:
            return False
        if self._files is None:
            self._files = Path(tempfile.mkdtemp(prefix="inset-"))
            weakref.finalize(self, shutil.rmtree, self._files)
        file = self._files / f"{len(self._decoded)}.arrow"
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table.combine_chunks())
        self._decoded[shard] = file
        self._intact.add(shard)
        return True

    def _unless_damaged(self, read: Callable[[str], Found], shard: str) -> Found | None:
        """Return what ``read`` returns; None where the shard is damaged, or another process removed it."""
        try:
            return read(shard)
        except DamagedError:
            self._damaged.append(shard)
            self._drop(shard)
            return None

    def _read_ids(self, shard: str) -> list[str]:
        """Return the ids in a shard; only that column is read and checked."""
        return _strings(read_part(self._store, shard, "id"))

    def _checked_ids(self, shard: str) -> list[str]:
        """Return the ids in a shard, with all its bytes checked."""
        return _strings(read_table(self._store, shard, columns=["id"]).column("id"))

    def _read(self, shard: str) -> pa.Table:
        table = read_table(self._store, shard)
        with reading(self._store, shard):
            return table.cast(self.schema)


def _strings(names: "pa.ChunkedArray[Any]") -> list[str]:
    return [str(name) for name in names.to_pylist()]


_REPLY_OPTIONS = {"kind", "temperature", "top_p", "max_tokens", "max_side_px"}
"""Options that a reply depends on; connection and price don't count."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply as it was given; ``id`` digests the request."""

    id: str
    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    complete: bool
    money: float
    seconds: float

    @property
    def spent(self) -> Spent:
        """What it cost when it was given."""
        return Spent(calls=self.calls, input_tokens=self.input_tokens, output_tokens=self.output_tokens, money=self.money)


def open_replies(store: ObjectStore, options: ModelConfig) -> RecordCache:
    """Open the replies of one model."""
    name = key(model=language_model_card(options).model_dump(), asked=options.model_dump(include=_REPLY_OPTIONS))
    return RecordCache(store, f"replies/{name}", schema_of(StoredReply))


def spent_on_replies(store: ObjectStore) -> Spent:
    """Return what all stored replies cost."""
    total = Spent()
    for folder in store.folders("replies"):
        for shard in RecordCache(store, f"replies/{folder}", schema_of(StoredReply)).shards():
            for reply in rows_of(StoredReply, shard):
                total += reply.spent
    return total
