"""Reads of a LanceDB table, through the package's asynchronous interface: its synchronous one adds 2 ms to searches of 3 to 5."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from backends.engines.index_rows import encodable
from schemas.ports import Vector

if TYPE_CHECKING:
    from lancedb.query import FullTextQuery

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}

Result = TypeVar("Result")
IDS_KEPT = 300_000
"""Ids of rows that a table keeps, some 80 MB."""

Scored = list[tuple[int, float]]
"""The engine's number of a row, and its score; best first, ties in no order."""


class LanceTable:
    """A table, as it stands when this is made. Safe to call from several threads.

    Args:
        uri: Folder or ``s3://`` prefix of the database.
        name: The table.
        options: Object store options.

    Raises:
        ValueError: There is no such table.
    """

    def __init__(self, uri: str, name: str, options: Mapping[str, str]) -> None:
        async def opened() -> tuple[Any, Any]:
            import lancedb

            database = await lancedb.connect_async(uri, storage_options=dict(options) or None)
            table = await database.open_table(name)
            return table, await table.schema()

        self._table, self.schema = _wait(opened())
        self._ids = _Ids()

    def count(self) -> int:
        """Return how many rows there are."""
        return int(_wait(self._table.count_rows()))

    def matching(self, query: "FullTextQuery", limit: int, where: str) -> Scored:
        """Return the best rows with their BM25 scores; ``where`` narrows them before they are ranked, "" not at all."""
        return _scored(lambda: self._table.query().nearest_to_text(query), "_score", limit, where)

    def nearest(self, column: str, query: Vector, refine: int, limit: int, where: str) -> Scored:
        """Return the nearest rows with their cosine distances.

        Args:
            column: The vectors; many a row where ``query`` has several.
            query: A vector, or one a row.
            refine: Times ``limit`` rows are compared by their vectors, where there is an index that approximates them.
            limit: Rows at most.
            where: Narrows them before they are ranked, "" not at all.
        """

        def search() -> Any:
            vectors = [*query.astype(np.float32).reshape(-1, query.shape[-1])]
            found = self._table.query().nearest_to(vectors if len(vectors) > 1 else vectors[0])
            return found.column(column).distance_type("cosine").refine_factor(refine)

        return _scored(search, "_distance", limit, where)

    def named(self, found: Scored) -> list[tuple[str, float]]:
        """Return ``(evidence_id, score)`` of rows.

        To read 128 ids takes as long as to find the rows, so an id is read when it is wanted, and kept.
        """
        ids = self._known()
        if absent := [row for row, _ in found if row not in ids.names]:
            ids.add(_collected(lambda: self._table.take_row_ids(absent).select(["evidence_id"]).with_row_id()))
        return [(ids.names[row], score) for row, score in found]

    def rows(self, columns: Sequence[str], evidence_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return columns of rows, in no order; ids that there are none of are left out.

        To look for an id is to read all ids, 75 ms of two million rows; those of rows that were found or read before are known.
        """
        ids = self._known()
        if absent := [name for name in evidence_ids if name not in ids.rows]:
            where = f"evidence_id IN ({listed(absent)})"
            ids.add(
                _collected(
                    lambda: self._table.query().select(["evidence_id"]).with_row_id().where(where).limit(len(absent))
                )
            )
        found = [row for name in evidence_ids if (row := ids.rows.get(name)) is not None]
        if not found:
            return []
        rows: list[dict[str, Any]] = _collected(lambda: self._table.take_row_ids(found).select(list(columns))).to_pylist()
        return rows

    def _known(self) -> "_Ids":
        ids = self._ids
        if len(ids.names) > IDS_KEPT:
            ids = self._ids = _Ids()  # other threads go on with the old ones
        return ids


class _Ids:
    """Which rows have which ids, as far as that has been read."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.rows: dict[str, int] = {}

    def add(self, table: Any) -> None:
        """Keep the ids of rows, from the columns ``_rowid`` and ``evidence_id``."""
        rows, names = table.column("_rowid").to_pylist(), table.column("evidence_id").to_pylist()
        self.names.update(zip(rows, names, strict=True))
        self.rows.update(zip(names, rows, strict=True))


def listed(values: Iterable[str]) -> str:
    """Spell strings as SQL literals, where a doubled quote is the only escape there is."""
    return ", ".join("'" + encodable(value).replace("'", "''") + "'" for value in values)


def _scored(search: Callable[[], Any], score: str, limit: int, where: str) -> Scored:
    def narrowed() -> Any:
        query = search().select([score]).with_row_id().limit(limit)
        return query.where(where) if where else query

    found = _collected(narrowed)
    return list(zip(found.column("_rowid").to_pylist(), found.column(score).to_pylist(), strict=True))


def _collected(query: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return await query().to_arrow()  # made in the loop, which the engine looks for

    return _wait(run())


def _wait(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in this process's loop, which all threads share."""
    running = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if os.getpid() not in _loops:  # a forked child has its parent's loop, but not the thread that runs it
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="lance", daemon=True).start()
        return _loops[os.getpid()]
