"""How the C library keeps memory for the many threads of an engine that writes."""

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator

_M_ARENA_MAX = -8  # of glibc's malloc.h
_RELEASED_EVERY_S = 0.5


def share_heaps() -> None:
    """Have threads that start from now on share a few of glibc's heaps; nothing happens with another C library.

    By default glibc opens up to eight heaps a core, and what is free in one serves no other. An engine's buffers go from
    thread to thread, so that its full-text indexes of two million rows took 1,456 MB to bring up to date with sixteen heaps,
    838 with one, and no more time. It is the process's setting, and heaps that are there stay: it has to come first.

    Arrow's buffers come out of the same heaps then: its own allocator keeps some for each thread, beyond ``releasing``.
    """
    if libc := _glibc():
        libc.mallopt(_M_ARENA_MAX, max(1, (os.cpu_count() or 1) // 2))
        import pyarrow as pa  # which starts threads

        pa.set_memory_pool(pa.system_memory_pool())


@contextlib.contextmanager
def releasing() -> Iterator[None]:
    """Give the system back, while an engine writes, what glibc and Arrow keep free; with another C library, what Arrow keeps.

    One step's free memory is scattered, and the next takes more. Bringing the indexes of two million rows up to date took 750 MB,
    and 624 so, for 0.7 CPU-s; writing 400,000 rows left 460 MB, of which 340 were free.
    """
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(_RELEASED_EVERY_S):
            _release()

    _release()
    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _release()


def _release() -> None:
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if libc := _glibc():
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    is_glibc = "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION")
    return ctypes.CDLL(None) if sys.platform == "linux" and is_glibc else None
