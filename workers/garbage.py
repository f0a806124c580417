"""Look for garbage less often while documents are worked on."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 50_000
_YOUNGER = 20


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Leave alone what is there already, and look at the rest once in 50,000 allocations, in place of 700.

    A document is hundreds of thousands of small objects, next to none in a cycle: looking for cycles among them, and among all
    that was imported, takes a tenth of the time that parsing takes. It is the process's setting: one thread at a time.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, _YOUNGER, _YOUNGER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
