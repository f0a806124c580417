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
