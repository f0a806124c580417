"""Writing what models make as it comes."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa

from pipeline.records.cache import RecordCache
from schemas.progress import Report

Record = TypeVar("Record")

_SHARD_RECORDS = 256
_SHARD_SECONDS = 20.0


def keep(cache: RecordCache, batches: Iterable[pa.Table], step: str, total: int, report: Report, before: int = 0) -> None:
    """Write records as shards while they come, so that a killed job loses seconds of work, not all of it; join them then."""
    report(step, before, before + total)
    held = cache.schema.empty_table()
    done, since = 0, time.monotonic()
    try:
        for records in batches:
            held = pa.concat_tables([held, records])
            done += records.num_rows
            report(step, before + done, before + total)
            if held.num_rows >= _SHARD_RECORDS or time.monotonic() - since > _SHARD_SECONDS:
                cache.append(held)
                held, since = cache.schema.empty_table(), time.monotonic()
    finally:
        cache.append(held)
    cache.compact()


class Writer(Generic[Record]):
    """Writes records in a thread of its own, some at a time, soon after they come, however long the next one takes.

    A context manager: at its end the rest is written, also where the block raised something. What could not be written is tried
    once more then.

    Args:
        write: Called with what came meanwhile, never by two threads at once.
        every_s: Seconds between two writes.
    """

    def __init__(self, write: Callable[[Sequence[Record]], None], *, every_s: float) -> None:
        self._write, self._every_s = write, every_s
        self._held: list[Record] = []
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
        """Have records written.

        Raises:
            Exception: What writing others raised.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._held += records

    def _run(self) -> None:
        while not self._ends.wait(self._every_s):
            try:
                self._flush()
            except Exception as failure:  # noqa: BLE001  raised again where records are added
                self._failure = failure
                return

    def _flush(self) -> None:
        if records := self._held[:]:
            self._write(records)
            with self._lock:
                del self._held[: len(records)]
