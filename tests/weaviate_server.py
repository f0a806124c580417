"""A real Weaviate for tests: the one at ``WEAVIATE_URL``, or one started from a ``weaviate`` on ``PATH``."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.engines.weaviate_server import WeaviateServer
from tests.waiting import wait_for

ENDS_WITHIN_S = 30
PORTS = ("GRPC_PORT", "CLUSTER_GOSSIP_BIND_PORT", "CLUSTER_DATA_BIND_PORT", "RAFT_PORT", "RAFT_INTERNAL_RPC_PORT")


@contextlib.contextmanager
def running(folder: Path) -> Iterator[WeaviateServer]:
    """Lend a server until the block ends; skip the test, saying why, where none is to be had."""
    if url := os.environ.get("WEAVIATE_URL"):
        server = WeaviateServer(url, int(os.environ.get("WEAVIATE_GRPC_PORT", "50051")))
        yield server
        server.close()
        return
    binary = shutil.which("weaviate")
    if binary is None:
        pytest.skip("NO WEAVIATE: no 'weaviate' on PATH and WEAVIATE_URL is not set, so its engine goes untested here")
    started = StartedServer(binary, folder)
    started.start()
    try:
        yield started.server
    finally:
        started.server.close()
        started.stop()


class StartedServer:
    """A server of a binary, its data in a folder, that can be stopped and started again under the same ports."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._folder, self._ports = folder, _free_ports(len(PORTS) + 1)
        self._command = [binary, "--scheme", "http", "--host", "127.0.0.1", "--port", str(self._ports[-1])]
        self._process: subprocess.Popen[bytes] | None = None
        self.server = WeaviateServer(f"http://127.0.0.1:{self._ports[-1]}", self._ports[0])

    def start(self) -> None:
        """Start it, and return when it is ready; nothing happens where it runs."""
        if self._process is not None:
            return
        file, environment = self._folder / "weaviate.log", _environment(self._folder, self._ports)
        with file.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=environment, cwd=self._folder, stdout=log, stderr=log)
        try:
            _wait_until_ready(self.server.url, self._process, file)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it; nothing happens where it doesn't run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _environment(folder: Path, ports: list[int]) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PERSISTENCE_DATA_PATH": str(folder / "data"),
        "CLUSTER_HOSTNAME": "n1",
        "CLUSTER_IN_LOCALHOST": "true",
        "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
        "RAFT_BOOTSTRAP_EXPECT": "1",
        "AUTOSCHEMA_ENABLED": "false",
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
        "DISABLE_TELEMETRY": "true",
        "GO_PROFILING_DISABLE": "true",
        "DISK_USE_READONLY_PERCENTAGE": "99",
        "LOG_LEVEL": "warning",
        **dict(zip(PORTS, map(str, ports), strict=False)),
    }


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def is_ready() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/v1/.well-known/ready", timeout=5) as reply:
            return bool(reply.status == 200)
        return False

    wait_for(lambda: process.poll() is not None or is_ready(), "weaviate")
    assert process.poll() is None, f"weaviate ended while starting: {log.read_text(errors='replace')[-2000:]}"


def _free_ports(count: int) -> list[int]:
    """Return ports in a row: a node finds its own data and Raft RPC ports right behind its gossip and Raft ports.

    They lie below those that the system hands out: else whoever asks for a port that nobody listens on yet may be answered
    by itself.
    """
    while True:
        ports = range(start := random.randrange(20_000, 32_000), start + count)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(ports)
