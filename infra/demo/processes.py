"""Processes of the demo, and requests to them."""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
STATE = ROOT / ".inset"
HOME = STATE / "airflow"
MARK = "INSET_DEMO"
ENDED_WITHIN_S = 10.0

_began = time.monotonic()
_no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DemoError(Exception):
    """The demo failed; the message gives the reason and the log."""


def say(text: str = "", *, timed: bool = False) -> None:
    """Print a line unbuffered."""
    seconds = int(time.monotonic() - _began)
    sys.stdout.write(f"{seconds // 60:3d}:{seconds % 60:02d}  {text}\n" if timed else f"{text}\n")
    sys.stdout.flush()


def tail(file: Path) -> str:
    """Return the last lines of a log."""
    with contextlib.suppress(OSError):
        return "\n".join(f"    {line}" for line in file.read_text(errors="replace").splitlines()[-15:])
    return ""


@dataclass
class Child:
    """A process of the demo."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


@dataclass
class Children:
    """The processes of the demo."""

    running: list[Child] = field(default_factory=list)

    def start(self, name: str, command: list[str], log: Path, env: dict[str, str]) -> None:
        """Start a process in its own session, so that Ctrl-C reaches the demo alone."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.running.append(Child(name, process, log))

    def check(self) -> None:
        """Raise ``DemoError`` if a process has ended."""
        for child in self.running:
            if child.process.poll() is not None:
                status = child.process.returncode
                raise DemoError(f"{child.name} ended (status {status}); its log is {child.log}\n{tail(child.log)}")

    def wait(self, task: str, condition: Callable[[], bool], within_s: float, every_s: float = 0.5) -> None:
        """Wait until a condition holds.

        Raises:
            DemoError: It doesn't in time, or a process ended meanwhile.
        """
        deadline = time.monotonic() + within_s
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                log = self.running[-1].log
                raise DemoError(f"{task} took more than {within_s:.0f} s; look at {log}\n{tail(log)}")
            time.sleep(every_s)

    def end(self) -> None:
        """End all processes and their descendants."""
        end_marked(within_s=ENDED_WITHIN_S)
        for child in self.running:
            child.process.wait()


def marked() -> list[psutil.Process]:
    """Return every process of this or an earlier demo of this checkout."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(HOME):
                processes.append(process)
    return processes


def end_marked(within_s: float) -> int:
    """Terminate every marked process, kill those that don't end in time, and return how many there were."""
    processes = marked()
    first = len(processes)
    deadline = time.monotonic() + within_s
    _signal(processes, psutil.Process.terminate)
    while processes and time.monotonic() < deadline:
        psutil.wait_procs(processes, timeout=0.2)
        processes = marked()
    while processes:
        _signal(processes, psutil.Process.kill)
        psutil.wait_procs(processes, timeout=1)
        processes = marked()
    return first


def _signal(processes: list[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            send(process)


@contextlib.contextmanager
def only_demo() -> Iterator[None]:
    """Hold this checkout's demo lock, which the kernel releases when the process ends."""
    STATE.mkdir(exist_ok=True)
    with (STATE / "demo.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise DemoError(
                f"the demo runs already here (process {lock.read().strip() or '?'}); end that one first"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def free_port(first_port: int) -> int:
    """Return the first free port from ``first_port`` on."""
    for port in range(first_port, first_port + 50):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise DemoError(f"ports {first_port} to {first_port + 49} are all taken")


def fetch(url: str, *, body: Any = None, method: str | None = None, token: str | None = None) -> Any:
    """Return the JSON of a local URL.

    Raises:
        OSError: No reply, or an error (``urllib.error.HTTPError``).
    """
    headers = {"accept": "application/json", "content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 -- our own address
    with _no_proxy.open(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def environment() -> dict[str, str]:
    """Return the environment of the processes, without settings of another Airflow."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    local = "127.0.0.1,localhost"
    proxies = {name: f"{variables[name]},{local}" if variables.get(name) else local for name in ("NO_PROXY", "no_proxy")}
    return (
        variables
        | proxies
        | {
            MARK: str(HOME),
            "SPT_NOENV": "1",  # keeps the environment of processes readable that rename themselves
            "PATH": f"{BIN}{os.pathsep}{variables.get('PATH', os.defpath)}",
            "PYTHONUNBUFFERED": "1",
            "INSET_CORPORA": str(ROOT / "corpora"),
        }
    )
