"""Reads of a LanceDB table through its asynchronous interface: the synchronous one adds 2 ms to searches of 3 to 5 ms."""

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from backends.engines.index_rows import encodable
from schemas.ports import Vector

if TYPE_CHECKING:
    from lancedb.query import FullTextQuery

# Read when lancedb is imported. It warns of each partition of a large index in which an update has no row.
os.environ.setdefault("LANCEDB_LOG", "error")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}

Result = TypeVar("Result")
IDS_KEPT = 300_000
"""Row ids cached for a table, some 80 MB."""

SCANNED_ROWS = 5_000
"""Rows that a filter selects up to which their vectors are all compared, without the approximate index.

Of 100,000 rows 1,000 take 3.6 ms with recall 1.00, by the index 5.8 with 0.89; 5,000 take 7.4 and 6.6, 10,000 10.3 and 5.9.
"""

_CONDITIONS_KEPT = 128

Scored = list[tuple[int, float]]
"""Row numbers of the engine with scores, best first, ties in no order."""


class LanceTable:
    """A snapshot of a table; ``ValueError`` if there is none. Thread-safe."""

    def __init__(self, uri: str, name: str, options: Mapping[str, str]) -> None:
        async def opened() -> tuple[Any, Any]:
            import lancedb

            database = await lancedb.connect_async(uri, storage_options=dict(options) or None)
            table = await database.open_table(name)
            return table, await table.schema()

        self._table, self.schema = _run(opened())
        self._ids = _Ids()
        self._selected = functools.lru_cache(_CONDITIONS_KEPT)(self.count)

    def count(self, condition: str | None = None) -> int:
        """Return the number of rows, or of those that a filter selects."""
        return int(_run(self._table.count_rows(condition)))

    def matching(self, query: "FullTextQuery", limit: int, condition: str) -> Scored:
        """Return the best rows with their BM25 scores; ``condition`` filters them before ranking ("" for none)."""
        return _scored_rows(lambda: self._table.query().nearest_to_text(query), "_score", limit, condition)

    def nearest(self, column: str, query: Vector, refine: int, limit: int, condition: str) -> Scored:
        """Return the nearest rows with their cosine distances; ``condition`` filters them before ranking ("" for none).

        ``query`` is one vector, or one for each row of an array, as the column has. Of an approximate index, ``refine * limit``
        candidates are compared by their full vectors; of few rows, all are.
        """
        is_scanned = bool(condition) and self._selected(condition) <= SCANNED_ROWS

        def search() -> Any:
            vectors = [*query.astype(np.float32).reshape(-1, query.shape[-1])]
            vector_query = self._table.query().nearest_to(vectors if len(vectors) > 1 else vectors[0])
            vector_query = vector_query.column(column).distance_type("cosine")
            return vector_query.bypass_vector_index() if is_scanned else vector_query.refine_factor(refine)

        return _scored_rows(search, "_distance", limit, condition)

    def named(self, hits: Scored) -> list[tuple[str, float]]:
        """Return ``(evidence_id, score)`` of rows. Ids are cached: reading 128 takes as long as the search itself."""
        ids = self._cached_ids()
        if absent := [row for row, _ in hits if row not in ids.names]:
            ids.add(_collect(lambda: self._table.take_row_ids(absent).select(["evidence_id"]).with_row_id()))
        return [(ids.names[row], score) for row, score in hits]

    def rows(self, columns: Sequence[str], evidence_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return columns of rows, unordered; unknown ids are left out.

        Finding an id reads all ids (75 ms for two million rows), so known row numbers are cached.
        """
        ids = self._cached_ids()
        if absent := [name for name in evidence_ids if name not in ids.rows]:
            condition = f"evidence_id IN ({listed(absent)})"
            ids.add(
                _collect(
                    lambda: self._table.query().select(["evidence_id"]).with_row_id().where(condition).limit(len(absent))
                )
            )
        row_numbers = [row for name in evidence_ids if (row := ids.rows.get(name)) is not None]
        if not row_numbers:
            return []
        rows: list[dict[str, Any]] = _collect(
            lambda: self._table.take_row_ids(row_numbers).select(list(columns))
        ).to_pylist()
        return rows

    def _cached_ids(self) -> "_Ids":
        ids = self._ids
        if len(ids.names) > IDS_KEPT:
            ids = self._ids = _Ids()  # other threads go on with the old ones
        return ids


class _Ids:
    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.rows: dict[str, int] = {}

    def add(self, table: Any) -> None:
        """Add ids from the columns ``_rowid`` and ``evidence_id``."""
        rows, names = table.column("_rowid").to_pylist(), table.column("evidence_id").to_pylist()
        self.names.update(zip(rows, names, strict=True))
        self.rows.update(zip(names, rows, strict=True))


def listed(values: Iterable[str]) -> str:
    """Format strings as SQL literals, whose only escape is the doubled quote."""
    return ", ".join("'" + encodable(value).replace("'", "''") + "'" for value in values)


def _scored_rows(search: Callable[[], Any], score: str, limit: int, condition: str) -> Scored:
    def narrowed() -> Any:
        query = search().select([score]).with_row_id().limit(limit)
        return query.where(condition) if condition else query

    table = _collect(narrowed)
    return list(zip(table.column("_rowid").to_pylist(), table.column(score).to_pylist(), strict=True))


def _collect(query: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return await query().to_arrow()  # the query must be created inside the loop

    return _run(run())


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in this process's event loop, which all threads share."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        # The query of a thread that is interrupted would go on in the loop.
        future.cancel()
        raise


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if os.getpid() not in _loops:  # a forked child inherits the loop without its thread
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="lance", daemon=True).start()
        return _loops[os.getpid()]
