"""A real Redis for tests, started from a ``redis-server`` on ``PATH``."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.free_port import free_port

STARTS_WITHIN_S = 30


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
            _wait_until_open(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


def _wait_until_open(port: int) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < until, "redis-server doesn't start"
            time.sleep(0.02)
