"""A real Redis for tests, started from a ``redis-server`` on ``PATH``."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.free_port import free_port
from tests.waiting import is_open, wait_for


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Lend a server's address until the block ends; skip the test, saying why, where none can be started."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("NO REDIS: no 'redis-server' on PATH, so limits of several workers go untested here")
    port = free_port()
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(partial(is_open, port), "redis-server")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
