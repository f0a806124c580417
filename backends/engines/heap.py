"""How the C library keeps memory for the many threads of an engine that writes."""

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator

import psutil

_M_ARENA_MAX = -8  # of glibc's malloc.h
_LOOKED_EVERY_S = 0.01
_RELEASED_AFTER_BYTES = 32 << 20


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

    One step's free memory is scattered, and the next takes more: writing 400,000 rows left 460 MB, of which 340 were free. It is
    given back whenever the process has taken 32 MB more. A build of two million rows took 774 to 812 MB when that was done twice
    a second; so it takes 640 to 646, for 1 to 7 % more CPU (decision 25).
    """
    done = threading.Event()
    process = psutil.Process()

    def go_on() -> None:
        least = process.memory_info().rss
        while not done.wait(_LOOKED_EVERY_S):
            held = process.memory_info().rss
            least = min(least, held)
            if held - least >= _RELEASED_AFTER_BYTES:
                _release()
                least = process.memory_info().rss

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
