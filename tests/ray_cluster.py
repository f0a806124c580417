"""A Ray cluster for tests: real nodes on this machine, each with its own raylet, and without Inset's code."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from filelock import FileLock

from tests.free_port import free_port
from tests.waiting import wait_for

_HOST = "127.0.0.1"
_STORE_BYTES = 100_000_000

AUTH = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-token-that-only-this-cluster-of-tests-knows"}
"""What clients of a cluster have in their environment: all tests, and the processes that they start."""


@dataclass
class RayCluster:
    """A head, and the nodes that joined it."""

    folder: Path
    environment: Mapping[str, str]
    address: str = ""
    client: str = ""
    """Address for clients that run on none of its nodes."""
    nodes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def add(self, *, cpus: int, gpus: int = 0, head: bool = False, port: int | None = None) -> "subprocess.Popen[bytes]":
        """Start a node, and wait until it is one; ``port`` is that of a head that is started again, ``gpus`` are pretended."""
        arguments = ["--address", self.address]
        if head:
            port = port or free_port()
            client_port = free_port()
            self.address, self.client = f"{_HOST}:{port}", f"ray://{_HOST}:{client_port}"
            arguments = ["--head", "--port", str(port), "--include-dashboard", "true", "--dashboard-port", str(free_port())]
            arguments += ["--ray-client-server-port", str(client_port), "--temp-dir", str(self.folder / "r")]
        number = len(self.nodes)
        command = [
            *(str(self.folder / "venv" / "bin" / "python"), "-m", "ray.scripts.scripts", "start", "--block", *arguments),
            *(
                "--node-ip-address",
                _HOST,
                "--num-cpus",
                str(cpus),
                "--num-gpus",
                str(gpus),
                "--object-store-memory",
                str(_STORE_BYTES),
            ),
            *("--dashboard-agent-listen-port", str(free_port()), "--min-worker-port", "0", "--max-worker-port", "0"),
        ]
        log = self.folder / f"node-{number}.log"
        with log.open("wb") as out:
            node = subprocess.Popen(
                command, cwd=self.folder, env=dict(self.environment), stdout=out, stderr=out, start_new_session=True
            )
        self.nodes.append(node)
        wait_for(lambda: node.poll() is not None or b"Ray runtime started" in log.read_bytes(), "a node of Ray")
        assert node.poll() is None, log.read_text()
        if head:  # the server of clients starts after it
            wait_for(lambda: _listens(client_port), "Ray's server of clients")
        return node

    def kill(self, node: "subprocess.Popen[bytes]") -> None:
        """End a node as a machine ends that loses its power: all its processes, at once."""
        processes = [*psutil.Process(node.pid).children(recursive=True), psutil.Process(node.pid)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        node.wait()

    def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            if node.poll() is None:
                self.kill(node)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((_HOST, port), 1):
        return True
    return False


@contextlib.contextmanager
def running(*cpus: int, gpus: int = 0, environment: Mapping[str, str] | None = None) -> Iterator[RayCluster]:
    """Lend a cluster until the block ends; another process's waits until then.

    Two clusters on one machine take the ports of their clients' servers from one range (23000 to 23999). Two that take
    one at the same moment both listen on it, since gRPC sets ``SO_REUSEPORT``, and a client joins either of them.

    Args:
        cpus: CPUs of each node, the head's first.
        gpus: Pretended GPUs of each node.
        environment: What its nodes have in their environment beside what is here.
    """
    with FileLock(Path(tempfile.gettempdir()) / f"inset-ray-cluster-{os.getuid()}.lock"):
        yield from _running(cpus, gpus, environment or {})


def _running(cpus: Sequence[int], gpus: int, environment: Mapping[str, str]) -> Iterator[RayCluster]:
    # A socket's path has 107 bytes at most, and Ray puts folders of its own into it.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    venv.create(folder / "venv", symlinks=True)
    # What is installed here but for Inset: of a folder that is named in a .pth, the .pth files aren't read.
    installed = sysconfig.get_path("purelib")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "venv" / "lib" / version / "site-packages" / "installed.pth").write_text(f"{installed}\n")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAY", "INSET", "PYTHON", "AIRFLOW"))
    }
    path = os.pathsep.join([str(folder / "venv" / "bin"), inherited.get("PATH", os.defpath)])
    cluster_environment = (
        inherited | AUTH | {"PATH": path, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"} | dict(environment)
    )
    cluster = RayCluster(folder, cluster_environment)
    try:
        for number, count in enumerate(cpus):
            cluster.add(cpus=count, gpus=gpus, head=number == 0)
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)
