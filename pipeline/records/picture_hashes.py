"""Perceptual hashes of figures, computed when the first search for similar figures needs them."""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from backends.models.perceptual_hash import HASH_VERSION, perceptual_hash
from pipeline.records.cache import RecordCache
from schemas.errors import BadInputError, DamagedError, InsetError, TransientError
from schemas.ids import figure_file, key
from schemas.ports import ObjectStore
from schemas.progress import Report, silent

HASHES = pa.schema((pa.field("id", pa.string(), nullable=False), pa.field("hash", pa.uint64(), nullable=False)))

_AT_ONCE = 4
_RECORDS_A_SHARD = 2000
"""Half a minute's work on four cores: the most that is lost where the process ends."""

_TICK_S = 0.2

_logger = logging.getLogger("inset.hashes")


def hash_cache(store: ObjectStore) -> RecordCache:
    """Open the cache of perceptual hashes of a corpus."""
    return RecordCache(store, f"looks/{key(step=HASH_VERSION)}", HASHES)


class PictureHashes:
    """The perceptual hashes of a corpus's figures. Thread-safe.

    Missing ones are computed once, in the background (some 35 ms of a core a figure), and stored.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, int | None] = {}
        self._lock = threading.Lock()
        self._thread: _HashThread | None = None

    def of(self, figures: Sequence[str], *, wait_s: float, report: Report = silent) -> dict[str, int]:
        """Return the hash of each figure, in their order; unreadable ones are left out.

        Waits at most ``wait_s`` seconds for missing ones; may be infinite.

        Raises:
            TransientError: Some are not computed yet, or the store doesn't answer; finished ones are kept.
        """
        ends = time.monotonic() + wait_s
        while missing := [name for name in figures if name not in self._known]:
            thread = self._running(missing)
            while thread.is_alive() and (left := ends - time.monotonic()) > 0:
                thread.join(min(_TICK_S, left))
                report("hash figures", thread.done, thread.total)
            if thread.is_alive():
                raise TransientError(
                    f"figures are being hashed, {thread.done} of {thread.total} are done; try again in a while"
                )
            if thread.error is not None:
                raise thread.error
        return {name: value for name in figures if (value := self._known[name]) is not None}

    def _running(self, missing: Sequence[str]) -> "_HashThread":
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = _HashThread(self._store, self._known, missing)
                self._thread.start()
            return self._thread


class _HashThread(threading.Thread):
    """Reads or computes the hashes of figures; a daemon, so that the process may end meanwhile."""

    def __init__(self, store: ObjectStore, known: dict[str, int | None], missing: Sequence[str]) -> None:
        super().__init__(name="inset-hashes", daemon=True)
        self._store, self._known, self._missing = store, known, missing
        self.done, self.total = 0, len(missing)
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._compute()
        except Exception as error:  # noqa: BLE001  raised again by the waiting caller
            self.error = error

    def _compute(self) -> None:
        cache = hash_cache(self._store)
        missing = set(self._missing)
        for shard in cache.shards():
            stored = zip(shard.column("id").to_pylist(), shard.column("hash").to_pylist(), strict=True)
            self._known.update((name, value) for name, value in stored if name in missing)
        fresh = [name for name in self._missing if name not in self._known]
        self.done = self.total - len(fresh)
        with ThreadPoolExecutor(_AT_ONCE, "inset-hashes") as threads:
            for start in range(0, len(fresh), _RECORDS_A_SHARD):
                some = fresh[start : start + _RECORDS_A_SHARD]
                found: dict[str, int | None] = {}
                for name, value in zip(some, threads.map(self._hash, some), strict=True):
                    found[name] = value
                    self.done += 1
                hashes = {name: value for name, value in found.items() if value is not None}
                self._append(
                    cache, pa.table([pa.array(hashes.keys()), pa.array(hashes.values(), pa.uint64())], schema=HASHES)
                )
                self._known.update(found)

    def _hash(self, figure_id: str) -> int | None:
        try:
            return perceptual_hash(self._store.get(figure_file(figure_id)))
        except (BadInputError, DamagedError) as error:
            _logger.warning("%s can't be compared: %s", figure_file(figure_id), error.message)
            return None

    def _append(self, cache: RecordCache, made: pa.Table) -> None:
        try:
            cache.append(made)
        except (InsetError, OSError) as error:  # the service may have a read-only store
            _logger.warning("%s can't be written: %s", cache.folder, error)
