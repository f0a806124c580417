"""Where records lie in the shards of a cache."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DIGEST_BYTES = 16
_MERGED_UP_TO = 4
"""A run is merged with the one before it, unless that is longer by more than this: so there are few, and records move seldom."""


class Place(NamedTuple):
    """Where a record lies."""

    id: str
    shard: str
    row: int


class _Run(NamedTuple):
    """Digests of names, sorted, with the numbers of their shards and their rows there."""

    digests: NDArray[np.bytes_]
    shards: NDArray[np.uint32]
    rows: NDArray[np.uint32]

    def at(self, places: NDArray[np.intp] | NDArray[np.bool_]) -> "_Run":
        return _Run(self.digests[places], self.shards[places], self.rows[places])


class Places:
    """The shard and row of each record, by a digest of its name: 24 bytes a record, however long names are.

    Digests lie in a few sorted runs, so that a name is found in the logarithm of their number. Digests of 16 bytes don't meet.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._shards: list[str] = []
        self._numbers: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def __contains__(self, shard: str) -> bool:
        """Return whether the names of a shard were added."""
        return shard in self._numbers

    def count(self, shard: str) -> int:
        """Return how many records a shard has."""
        return self._counts[shard]

    def add(self, shard: str, names: Sequence[str]) -> None:
        """Add a shard, by the names of its rows."""
        number = len(self._shards)
        self._shards.append(shard)
        self._numbers[shard], self._counts[shard] = number, len(names)
        if not names:
            return
        digests = _digests(names)
        order = np.argsort(digests, kind="stable")
        run = _Run(digests[order], np.full(len(names), number, np.uint32), order.astype(np.uint32))
        while self._runs and len(self._runs[-1].digests) <= _MERGED_UP_TO * len(run.digests):
            run = _merged([self._runs.pop(), run])
        self._runs.append(run)

    def drop(self, shards: Collection[str]) -> None:
        """Take some shards out again."""
        numbers = np.array([self._numbers.pop(shard) for shard in shards if shard in self._numbers], np.uint32)
        if len(numbers):
            runs = (run.at(~np.isin(run.shards, numbers)) for run in self._runs)
            self._runs = [run for run in runs if len(run.digests)]

    def settle(self) -> None:
        """Merge all runs, since nearly all there will be was added."""
        if len(self._runs) > 1:
            self._runs = [_merged(self._runs)]

    def find(self, names: Sequence[str]) -> Iterator[Place]:
        """Yield where a record of each name lies; a name that was never added is left out."""
        digests = _digests(names)
        lacking = np.ones(len(names), bool)
        for run in self._runs:
            near = np.minimum(np.searchsorted(run.digests, digests), len(run.digests) - 1)
            hits = np.nonzero(lacking & (run.digests[near] == digests))[0]
            lacking[hits] = False
            found = run.at(near[hits])
            for at, shard, row in zip(hits.tolist(), found.shards.tolist(), found.rows.tolist(), strict=True):
                yield Place(names[at], self._shards[shard], row)


def _merged(runs: Sequence[_Run]) -> _Run:
    digests, shards, rows = (np.concatenate(columns) for columns in zip(*runs, strict=True))
    # Stable sorting merges what is sorted already, in linear time.
    return _Run(digests, shards, rows).at(np.argsort(digests, kind="stable"))


def _digests(names: Sequence[str]) -> NDArray[np.bytes_]:
    joined = b"".join(hashlib.blake2b(name.encode(), digest_size=_DIGEST_BYTES).digest() for name in names)
    return np.frombuffer(joined, f"S{_DIGEST_BYTES}")
