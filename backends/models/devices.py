"""Cores and devices of models, and errors of exhausted memory."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

STARVED = re.compile(
    r"bad[ _]?alloc|out of memory|insufficient memory|(failed|can't|unable) to allocate|alloc_failed", re.I
)
"""Messages of exhausted memory: few engines have an error for it."""


def cores() -> int:
    """Return the cores of this process; Ray sets the variable to an actor's."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return int(allowed) if allowed.isdecimal() and int(allowed) else os.cpu_count() or 1


def best_device() -> str:
    """Return a GPU if this process may use one (``CUDA_VISIBLE_DEVICES``), else the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def short_of_memory(model: str) -> Iterator[None]:
    """Turn an engine's errors of exhausted memory into one, so that the caller may try a smaller batch.

    Raises:
        MemoryError: GPU or CPU memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if isinstance(error, MemoryError) or STARVED.search(str(error)):
            raise MemoryError(f"there is no room for so much at once: {model}") from error
        raise
