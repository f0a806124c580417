"""The heaps of the C library are shared by an engine's threads."""

import os
import subprocess
import sys

import pytest

_HEAPS = """
import ctypes, os, sys, threading
from backends.engines.heap import share_heaps

if sys.argv[1] == "shared":
    share_heaps()
libc, count = ctypes.CDLL(None), os.cpu_count()
all_here = threading.Barrier(count + 1)


def allocate():
    all_here.wait()
    libc.malloc(5000)
    all_here.wait()


threads = [threading.Thread(target=allocate) for _ in range(count)]
for thread in threads:
    thread.start()
all_here.wait()
all_here.wait()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def _heaps(how: str) -> int:
    ran = subprocess.run([sys.executable, "-c", _HEAPS, how], capture_output=True, text=True, check=True)
    return ran.stdout.count("<heap nr=")


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="glibc alone has such heaps")
def test_threads_share_heaps() -> None:
    assert _heaps("shared") <= max(1, (os.cpu_count() or 1) // 2) < _heaps("apart")


_FREED = """
import ctypes
from pathlib import Path
from backends.engines.heap import releasing, share_heaps


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])


share_heaps()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.calloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
pieces = [(libc.calloc(1, 60_000), libc.malloc(2_000)) for _ in range(2_000)]
full = resident()
for piece, _ in pieces:
    libc.free(piece)
kept = resident()
with releasing():
    print(full, kept, resident())
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="glibc alone has such heaps")
def test_what_is_free_goes_back_while_an_engine_writes() -> None:
    ran = subprocess.run([sys.executable, "-c", _FREED], capture_output=True, text=True, check=True)
    full, kept, left = map(int, ran.stdout.split())
    assert left < kept - full // 4
