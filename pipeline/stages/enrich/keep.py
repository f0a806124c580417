"""Write model results as they come."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa

from pipeline.records.cache import RecordCache
from schemas.stages import Report

Record = TypeVar("Record")

_SHARD_RECORDS = 256
_SHARD_SECONDS = 20.0


def keep(cache: RecordCache, batches: Iterable[pa.Table], step: str, total: int, report: Report, before: int = 0) -> None:
    """Write records as shards while they come, so that a killed job loses only seconds of work, then join small shards."""
    report(step, before, before + total)
    pending = cache.schema.empty_table()
    record_count, since = 0, time.monotonic()
    try:
        for records in batches:
            pending = pa.concat_tables([pending, records])
            record_count += records.num_rows
            report(step, before + record_count, before + total)
            if pending.num_rows >= _SHARD_RECORDS or time.monotonic() - since > _SHARD_SECONDS:
                cache.append(pending)
                pending, since = cache.schema.empty_table(), time.monotonic()
    finally:
        cache.append(pending)
    cache.compact()


class Writer(Generic[Record]):
    """Writes records in a background thread, in intervals; a context manager that writes the rest at its end, even on an error.

    A failed write is tried once more at the end. ``write`` gets the records since its last call; calls don't overlap.
    """

    def __init__(self, write: Callable[[Sequence[Record]], None], *, every_s: float) -> None:
        self._write, self._every_s = write, every_s
        self._pending: list[Record] = []
        self._lock, self._ends = threading.Lock(), threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()
        self._flush()

    def add(self, records: Iterable[Record]) -> None:
        """Queue records; raises what an earlier write raised."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._pending += records

    def _run(self) -> None:
        while not self._ends.wait(self._every_s):
            try:
                self._flush()
            except Exception as failure:  # noqa: BLE001  raised again by ``add``
                self._failure = failure
                return

    def _flush(self) -> None:
        if records := self._pending[:]:
            self._write(records)
            with self._lock:
                del self._pending[: len(records)]
