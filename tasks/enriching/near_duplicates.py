"""Figures that look nearly the same, by their perceptual hashes."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

NEAR_DUPLICATES_VERSION = "1"
"""Goes up when another figure stands for one of the same hashes."""

HASH_BITS = 64
_SEGMENTS = 4
_SEGMENT_BITS = HASH_BITS // _SEGMENTS
_CANDIDATES = 4_000_000
"""Pairs that are compared at a time: 100 MB."""

_Hashes = NDArray[np.uint64]
_Places = NDArray[np.intp]


def near_duplicates(hashes: Mapping[str, int], bits: int) -> dict[str, str]:
    """Say which figures another one stands for, so that one description and one model call serve them all.

    Figures are looked at by id, from the smallest: each goes to the one that stands already and is nearest, if that is near
    enough, or else stands for itself. So none is further than ``bits`` from the one that stands for it, however long a chain of
    alike figures is, and the order in which they come changes nothing.

    **What looks the same is not the same.** A hash of 64 bits sees the coarse distribution of light in 32 × 32 grey pixels: no
    colour, no number, no label. Screenshots of one program, tables of one form and charts of one style differ in what it can't
    see. Of the pairs that are found among the 1,421 figures of ``dev``, so many hold other words or are of another shape:

    ====  =====  ==========
    bits  pairs  different
    ====  =====  ==========
    0        37    5 (14 %)
    2        69    8 (12 %)
    4       106   17 (16 %)
    6       145   33 (23 %)
    8       180   63 (35 %)
    10      227   89 (39 %)
    ====  =====  ==========

    Among them are the settings of a program, page after page, and scores of music. It saves 2 to 8 % of the calls there. So it is
    off unless a corpus file asks for it, 4 bits are a sensible most, and what is shared is flagged.

    Args:
        hashes: Figure id to perceptual hash, 64 bits.
        bits: In how many of them two figures may differ, 0 to 64.

    Returns:
        Figure id to the smaller id of the figure that stands for it; those that stand for themselves are left out.
    """
    stands_for: dict[str, str] = {}
    by_hash: dict[int, str] = {}
    for figure_id in sorted(hashes):
        first = by_hash.setdefault(hashes[figure_id], figure_id)
        if first != figure_id:
            stands_for[figure_id] = first
    # By id: what stands comes before what it stands for.
    values = np.fromiter(by_hash, np.uint64, len(by_hash))
    names = [*by_hash.values()]
    moved: dict[str, str] = {}
    for place, near in _near(values, bits):
        standing = [(distance, other) for distance, other in near if names[other] not in moved]
        if standing:
            moved[names[place]] = names[min(standing)[1]]
    return {figure_id: moved.get(first, first) for figure_id, first in stands_for.items()} | moved


def _near(values: _Hashes, bits: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each value's place, in order, and of those before it that are near enough the distance and place.

    Of two values that differ in few bits, one of four segments differs in a quarter as many at most (Norouzi, Punjani and Fleet,
    "Fast search in Hamming space with multi-index hashing", CVPR 2012). So values are filed by each segment, and looked up by it
    and by all that are as near to it. A million takes a minute at 4 bits, as long as there are no huge crowds of them.
    """
    tables = [_Table(values, segment) for segment in range(_SEGMENTS)]
    masks = _masks(bits // _SEGMENTS)
    share = max(1.0, sum(table.expected for table in tables) * len(masks))
    size = max(1, int(_CANDIDATES / share))
    for start in range(0, len(values), size):
        asked = np.arange(start, min(start + size, len(values)))
        found: dict[int, dict[int, int]] = {}
        for table in tables:
            for mask in masks:
                places, others = table.look_up(asked, mask)
                distances = np.bitwise_count(values[places] ^ values[others])
                for at in np.nonzero(distances <= bits)[0]:
                    found.setdefault(int(places[at]), {})[int(others[at])] = int(distances[at])
        for place in sorted(found):
            yield place, [(distance, other) for other, distance in found[place].items()]


class _Table:
    """Values filed by one of their segments."""

    def __init__(self, values: _Hashes, segment: int) -> None:
        shift = np.uint64(segment * _SEGMENT_BITS)
        self._segments = ((values >> shift) & np.uint64((1 << _SEGMENT_BITS) - 1)).astype(np.intp)
        self._order = np.argsort(self._segments, kind="stable")
        counts = np.bincount(self._segments, minlength=1 << _SEGMENT_BITS)
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self.expected = float((counts.astype(np.float64) ** 2).sum() / max(1, len(values)))
        """Values that share the segment of one, on average."""

    def look_up(self, asked: _Places, mask: int) -> tuple[_Places, _Places]:
        """Return pairs of one that is asked for, and one before it whose segment is that of the first but for a mask."""
        wanted = self._segments[asked] ^ mask
        starts, ends = self._starts[wanted], self._starts[wanted + 1]
        counts = ends - starts
        places = np.repeat(asked, counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        others = self._order[np.repeat(starts, counts) + within]
        before = others < places
        return places[before], others[before]


def _masks(bits: int) -> list[int]:
    """Return what a segment may differ by."""
    return [sum(1 << at for at in ones) for count in range(bits + 1) for ones in combinations(range(_SEGMENT_BITS), count)]
