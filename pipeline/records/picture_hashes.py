"""What figures look like: their perceptual hashes, computed when somebody first asks for figures like another."""

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

LOOKS = pa.schema((pa.field("id", pa.string(), nullable=False), pa.field("hash", pa.uint64(), nullable=False)))

_AT_ONCE = 4
_RECORDS_A_SHARD = 2000
"""Half a minute's work on four cores: what is lost where the process ends."""

_TICK_S = 0.2

_logger = logging.getLogger("inset.looks")


def hash_cache(store: ObjectStore) -> RecordCache:
    """Open the cache of what a corpus's figures look like."""
    return RecordCache(store, f"looks/{key(step=HASH_VERSION)}", LOOKS)


class PictureHashes:
    """The hashes of a corpus's figures. Safe to call from several threads.

    What lacks is computed once, some 35 ms of a core a figure, behind whoever asks first, and kept in the store.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, int | None] = {}
        self._lock = threading.Lock()
        self._work: _Work | None = None

    def of(self, figures: Sequence[str], *, wait_s: float, report: Report = silent) -> dict[str, int]:
        """Return the hash of each figure, in their order; one that can't be read is left out.

        Args:
            figures: Their ids.
            wait_s: Seconds to wait for what isn't there yet; may be infinite.
            report: Called with how many of those there are.

        Raises:
            TransientError: They aren't all there yet, or the store doesn't answer; what was computed stays.
        """
        ends = time.monotonic() + wait_s
        while lacking := [name for name in figures if name not in self._known]:
            work = self._under_way(lacking)
            while work.is_alive() and (left := ends - time.monotonic()) > 0:
                work.join(min(_TICK_S, left))
                report("look at figures", work.done, work.total)
            if work.is_alive():
                raise TransientError(
                    f"figures are looked at for the first time, and {work.done} of {work.total} have been; ask again in a while"
                )
            if work.problem is not None:
                raise work.problem
        return {name: value for name in figures if (value := self._known[name]) is not None}

    def _under_way(self, lacking: Sequence[str]) -> "_Work":
        with self._lock:
            if self._work is None or not self._work.is_alive():
                self._work = _Work(self._store, self._known, lacking)
                self._work.start()
            return self._work


class _Work(threading.Thread):
    """Finds or computes the hashes of figures; the process doesn't wait for it when it ends."""

    def __init__(self, store: ObjectStore, known: dict[str, int | None], lacking: Sequence[str]) -> None:
        super().__init__(name="inset-looks", daemon=True)
        self._store, self._known, self._lacking = store, known, lacking
        self.done, self.total = 0, len(lacking)
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            self._look()
        except Exception as error:  # noqa: BLE001  raised again where somebody waits for this
            self.problem = error

    def _look(self) -> None:
        cache = hash_cache(self._store)
        lacking = set(self._lacking)
        for shard in cache.shards():
            kept = zip(shard.column("id").to_pylist(), shard.column("hash").to_pylist(), strict=True)
            self._known.update((name, value) for name, value in kept if name in lacking)
        fresh = [name for name in self._lacking if name not in self._known]
        self.done = self.total - len(fresh)
        with ThreadPoolExecutor(_AT_ONCE, "inset-looks") as threads:
            for start in range(0, len(fresh), _RECORDS_A_SHARD):
                some = fresh[start : start + _RECORDS_A_SHARD]
                found: dict[str, int | None] = {}
                for name, value in zip(some, threads.map(self._hash, some), strict=True):
                    found[name] = value
                    self.done += 1
                seen = {name: value for name, value in found.items() if value is not None}
                self._keep(cache, pa.table([pa.array(seen.keys()), pa.array(seen.values(), pa.uint64())], schema=LOOKS))
                self._known.update(found)

    def _hash(self, figure_id: str) -> int | None:
        try:
            return perceptual_hash(self._store.get(figure_file(figure_id)))
        except (BadInputError, DamagedError) as error:
            _logger.warning("%s can't be compared: %s", figure_file(figure_id), error.message)
            return None

    def _keep(self, cache: RecordCache, made: pa.Table) -> None:
        try:
            cache.append(made)
        except (InsetError, OSError) as error:  # the service may read a store that it can't write to
            _logger.warning("%s can't be written: %s", cache.folder, error)
