"""Run the garbage collector less often while documents are processed."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 50_000
_YOUNGER = 20


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Freeze existing objects, and collect after 50,000 allocations instead of 700.

    A document has hundreds of thousands of objects, hardly any in cycles: collecting takes a tenth of the time of parsing. The
    setting is the process's, so use it in one thread at a time.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, _YOUNGER, _YOUNGER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
