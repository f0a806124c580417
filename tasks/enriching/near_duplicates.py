"""Figures that look nearly the same, by their perceptual hashes."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

NEAR_DUPLICATES_VERSION = "1"
"""Goes up when the results for the same hashes change."""

_HASH_BITS = 64
_SEGMENTS = 4
_SEGMENT_BITS = _HASH_BITS // _SEGMENTS
_CANDIDATES = 4_000_000
"""Pairs compared at a time: 100 MB."""

_Hashes = NDArray[np.uint64]
_Places = NDArray[np.intp]


def near_duplicates(hashes: Mapping[str, int], bits: int) -> dict[str, str]:
    """Group near-duplicate figures, so that one description serves them all.

    In order of ids, each figure joins the nearest representative within ``bits``, or becomes one: no figure is further than
    ``bits`` from its representative. A hash of 64 bits sees no colour, number or label: of pairs within 4 bits among the
    1,421 figures of ``dev`` 16 % differ in content, within 8 bits 35 %. So it is off by default, and shared descriptions
    are flagged.

    Args:
        hashes: Figure id to perceptual hash, 64 bits.
        bits: Maximum Hamming distance, 0 to 64.

    Returns:
        Figure id to the smaller id of its representative; representatives are left out.
    """
    stands_for: dict[str, str] = {}
    by_hash: dict[int, str] = {}
    for figure_id in sorted(hashes):
        first = by_hash.setdefault(hashes[figure_id], figure_id)
        if first != figure_id:
            stands_for[figure_id] = first
    # By id: representatives come first.
    values = np.fromiter(by_hash, np.uint64, len(by_hash))
    names = [*by_hash.values()]
    moved: dict[str, str] = {}
    for index, near in _near(values, bits):
        standing = [(distance, earlier) for distance, earlier in near if names[earlier] not in moved]
        if standing:
            moved[names[index]] = names[min(standing)[1]]
    return {figure_id: moved.get(first, first) for figure_id, first in stands_for.items()} | moved


def _near(values: _Hashes, bits: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each value's index and, of the values before it within ``bits``, distance and index.

    Multi-index hashing (Norouzi, Punjani and Fleet, CVPR 2012): values within ``bits`` differ in at most a quarter as many
    bits in one of four segments. A million values take a minute at 4 bits.
    """
    tables = [_Table(values, segment) for segment in range(_SEGMENTS)]
    masks = _masks(bits // _SEGMENTS)
    share = max(1.0, sum(table.expected for table in tables) * len(masks))
    size = max(1, int(_CANDIDATES / share))
    for start in range(0, len(values), size):
        query_indices = np.arange(start, min(start + size, len(values)))
        distances_by_index: dict[int, dict[int, int]] = {}
        for table in tables:
            for mask in masks:
                indices, earlier_indices = table.look_up(query_indices, mask)
                distances = np.bitwise_count(values[indices] ^ values[earlier_indices])
                for at in np.nonzero(distances <= bits)[0]:
                    distances_by_index.setdefault(int(indices[at]), {})[int(earlier_indices[at])] = int(distances[at])
        for index in sorted(distances_by_index):
            yield index, [(distance, earlier) for earlier, distance in distances_by_index[index].items()]


class _Table:
    def __init__(self, values: _Hashes, segment: int) -> None:
        shift = np.uint64(segment * _SEGMENT_BITS)
        self._segments = ((values >> shift) & np.uint64((1 << _SEGMENT_BITS) - 1)).astype(np.intp)
        self._order = np.argsort(self._segments, kind="stable")
        counts = np.bincount(self._segments, minlength=1 << _SEGMENT_BITS)
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self.expected = float((counts.astype(np.float64) ** 2).sum() / max(1, len(values)))
        """Mean number of values with the same segment."""

    def look_up(self, query_indices: _Places, mask: int) -> tuple[_Places, _Places]:
        """Return pairs of a wanted value and an earlier one whose segment differs by a mask."""
        segments = self._segments[query_indices] ^ mask
        starts, ends = self._starts[segments], self._starts[segments + 1]
        counts = ends - starts
        indices = np.repeat(query_indices, counts)
        within = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
        earlier_indices = self._order[np.repeat(starts, counts) + within]
        before = earlier_indices < indices
        return indices[before], earlier_indices[before]


def _masks(bits: int) -> list[int]:
    return [
        sum(1 << at for at in bits_set)
        for count in range(bits + 1)
        for bits_set in combinations(range(_SEGMENT_BITS), count)
    ]
