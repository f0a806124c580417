"""Where torch runs a model, and what it says when there is no room for a batch."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

STARVED = re.compile(
    r"bad[ _]?alloc|out of memory|insufficient memory|(failed|can't|unable) to allocate|alloc_failed", re.I
)
"""What engines write where memory ran out; few of them have an error of its own for that."""


def best_device() -> str:
    """Return the device for models of torch: a GPU where this process may use one. ``CUDA_VISIBLE_DEVICES`` hides them."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def short_of_memory(model: str) -> Iterator[None]:
    """Turn whatever an engine raises where memory ran out into one error: the caller may try with less at once.

    Raises:
        MemoryError: There was no room, on the GPU or beside it.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if isinstance(error, MemoryError) or STARVED.search(str(error)):
            raise MemoryError(f"there is no room for so much at once: {model}") from error
        raise
