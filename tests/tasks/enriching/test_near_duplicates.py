"""Figures that look nearly the same."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.enriching.near_duplicates import near_duplicates


def _plain(hashes: dict[str, int], bits: int) -> dict[str, str]:
    """The same by comparing each with each."""
    standing: list[str] = []
    found: dict[str, str] = {}
    for name in sorted(hashes):
        near = [((hashes[name] ^ hashes[other]).bit_count(), other) for other in standing]
        distance, other = min(near, default=(65, ""))
        if distance <= bits:
            found[name] = other
        else:
            standing.append(name)
    return found


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0, {"b": "a"}),
        (1, {"b": "a", "c": "a"}),
        (3, {"b": "a", "c": "a"}),
        (4, {"b": "a", "c": "a", "d": "a"}),
        (64, {"b": "a", "c": "a", "d": "a", "e": "a"}),
    ],
)
def test_the_smallest_id_stands_for_those_that_are_near_enough(bits: int, expected: dict[str, str]) -> None:
    hashes = {"a": 0, "b": 0, "c": 1, "d": 0b1111 << 60, "e": (1 << 64) - 1}
    assert near_duplicates(hashes, bits) == expected


def test_a_chain_does_not_carry_further_than_the_bits() -> None:
    chain = {f"{number:02d}": (1 << number) - 1 for number in range(20)}
    assert near_duplicates(chain, 2) == {
        f"{number:02d}": f"{number - number % 3:02d}" for number in range(20) if number % 3
    }


def test_the_nearest_that_stands_is_taken() -> None:
    assert near_duplicates({"a": 0, "b": 0b1111, "c": 0b0111}, 3) == {"c": "b"}


def test_nothing_and_one() -> None:
    assert near_duplicates({}, 4) == {}
    assert near_duplicates({"a": 7}, 64) == {}


@given(
    st.lists(st.integers(0, 7), max_size=40).flatmap(
        lambda bases: st.tuples(st.just(bases), st.lists(st.sets(st.integers(0, 63), max_size=6), min_size=40, max_size=40))
    ),
    st.integers(0, 13),
    st.randoms(use_true_random=False),
)
def test_it_is_what_comparing_each_with_each_finds_in_any_order(
    made: tuple[list[int], list[set[int]]], bits: int, shuffled: random.Random
) -> None:
    bases, flips = made
    hashes = {
        f"{number:02d}": (base * 0x0123_4567_89AB_CDEF) % 2**64 ^ sum(1 << bit for bit in flipped)
        for number, (base, flipped) in enumerate(zip(bases, flips, strict=False))
    }
    expected = _plain(hashes, bits)
    assert near_duplicates(hashes, bits) == expected
    items = list(hashes.items())
    shuffled.shuffle(items)
    assert near_duplicates(dict(items), bits) == expected
