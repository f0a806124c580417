"""Cut iterables into batches."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` items, taken from the iterable on demand."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
