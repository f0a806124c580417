"""LanceDB's engine without the package around it: what reads a table (docs/decisions/0037).

``import lancedb`` takes two seconds of CPU for clients of its cloud and its catalogues, and its synchronous calls take two
milliseconds each beside searches of three to five. The engine itself is one compiled module, ``lancedb._lancedb``, which is there
within ten milliseconds; the package does nothing else than call it. It is no public interface: pyproject.toml names the release,
and the contract suite holds each search to the reference engine. What writes goes through the package.
"""

import asyncio
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from backends.engines.rows import encodable
from schemas.ports import Vector

_MODULE = "lancedb._lancedb"
_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}

Result = TypeVar("Result")
IDS_KEPT = 300_000
"""Ids of rows that a table keeps, some 80 MB."""

Scored = list[tuple[int, float]]
"""The engine's number of a row, and its score; best first, ties in no order."""


@dataclass(frozen=True)
class MatchQuery:
    """Rows whose column holds a term of the query, by BM25. The engine knows these classes by their names and attributes."""

    query: str
    column: str
    boost: float = 1.0
    operator: str = "OR"
    fuzziness: int = 0
    max_expansions: int = 50
    prefix_length: int = 0
    document_granularity: None = None


@dataclass(frozen=True)
class BooleanQuery:
    """Several queries in one, each with ``SHOULD``, ``MUST`` or ``MUST_NOT``; scores are summed."""

    queries: list[tuple[str, MatchQuery]]


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
        async def opened() -> tuple[Any, pa.Schema]:
            nothing = (None,) * 6  # of the cloud, of consistency between processes
            database = await _engine().connect(uri, *nothing, dict(options) or None, None)
            table = await database.open_table(name)
            return table, await table.schema()

        self._table, self.schema = _wait(opened())
        self._ids = _Ids()

    def count(self) -> int:
        """Return how many rows there are."""
        return int(_wait(_started(self._table.count_rows, None)))

    def matching(self, query: MatchQuery | BooleanQuery, limit: int, where: str) -> Scored:
        """Return the best rows with their BM25 scores; ``where`` narrows them before they are ranked, "" not at all."""
        return _scored(self._table.query().nearest_to_text({"query": query}), "_score", limit, where)

    def nearest(self, column: str, query: Vector, refine: int, limit: int, where: str) -> Scored:
        """Return the nearest rows with their cosine distances.

        Args:
            column: The vectors; many a row where ``query`` has several.
            query: A vector, or one a row.
            refine: Times ``limit`` rows are compared by their vectors, where there is an index that approximates them.
            limit: Rows at most.
            where: Narrows them before they are ranked, "" not at all.
        """
        first, *others = (_arrow(vector) for vector in query.reshape(-1, query.shape[-1]))
        asked = self._table.query().nearest_to(first)
        for other in others:
            asked.add_query_vector(other)
        asked.column(column)
        asked.distance_type("cosine")
        asked.refine_factor(refine)
        return _scored(asked, "_distance", limit, where)

    def named(self, found: Scored) -> list[tuple[str, float]]:
        """Return ``(evidence_id, score)`` of rows.

        To read 128 ids takes as long as to find the rows, so an id is read when it is wanted, and kept.
        """
        ids = self._known()
        if absent := [row for row, _ in found if row not in ids.names]:
            asked = self._table.take_row_ids(absent)
            asked.select_columns(["evidence_id"])
            ids.add(asked)
        return [(ids.names[row], score) for row, score in found]

    def rows(self, columns: Sequence[str], evidence_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return columns of rows, in no order; ids that there are none of are left out.

        To look for an id is to read all ids, 75 ms of two million rows; those of rows that were found or read before are known.
        """
        ids = self._known()
        if absent := [name for name in evidence_ids if name not in ids.rows]:
            asked = self._table.query()
            asked.select_columns(["evidence_id"])
            asked.limit(len(absent))
            asked.where(f"evidence_id IN ({listed(absent)})")
            ids.add(asked)
        found = [row for name in evidence_ids if (row := ids.rows.get(name)) is not None]
        if not found:
            return []
        asked = self._table.take_row_ids(found)
        asked.select_columns(list(columns))
        return _collected(asked).to_pylist()

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

    def add(self, asked: Any) -> None:
        """Read ids of rows, as a query that selects them gives them."""
        asked.with_row_id()
        read = _collected(asked)
        rows: list[Any] = read.column("_rowid").to_pylist()
        names: list[Any] = read.column("evidence_id").to_pylist()
        self.names.update(zip(rows, names, strict=True))
        self.rows.update(zip(names, rows, strict=True))


def listed(values: Iterable[str]) -> str:
    """Spell strings as SQL literals, where a doubled quote is the only escape there is."""
    return ", ".join("'" + encodable(value).replace("'", "''") + "'" for value in values)


def _scored(asked: Any, score: str, limit: int, where: str) -> Scored:
    asked.select_columns([score])
    asked.with_row_id()
    asked.limit(limit)
    if where:
        asked.where(where)
    found = _collected(asked)
    rows: list[Any] = found.column("_rowid").to_pylist()
    scores: list[Any] = found.column(score).to_pylist()
    return list(zip(rows, scores, strict=True))


def _collected(asked: Any) -> pa.Table:
    async def run() -> pa.Table:
        stream = await asked.execute(None, None)
        return pa.Table.from_batches([batch async for batch in stream], stream.schema)

    return _wait(run())


def _arrow(vector: Vector) -> "pa.Array[Any]":
    """Return a vector for the engine; ``pa.array`` would look for pandas first, and so import it."""
    return pa.Array.from_buffers(pa.float32(), len(vector), [None, pa.py_buffer(vector.astype(np.float32).tobytes())])


async def _started(call: Any, *arguments: Any) -> Any:
    # The engine asks for the running loop as soon as it is called.
    return await call(*arguments)


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


def _engine() -> Any:
    """Return the compiled module, the very one that the package uses where that is imported before or afterwards."""
    with _lock:
        if _MODULE not in sys.modules:
            package = importlib.util.find_spec("lancedb")
            if package is None or package.origin is None:
                raise ModuleNotFoundError("lancedb is not installed")
            spec = importlib.machinery.PathFinder.find_spec(_MODULE, [str(Path(package.origin).parent)])
            if spec is None or spec.loader is None:
                raise ModuleNotFoundError(f"{_MODULE} is not installed")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[_MODULE] = module
        return sys.modules[_MODULE]
