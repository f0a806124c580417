"""A real Airflow of a test's own: its API server, and the parts that run tasks where the test wants them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.browser import Browser

ROOT = Path(__file__).parent.parent
EVERY_PART = ("scheduler", "dag-processor", "triggerer")

Found = TypeVar("Found")


@dataclass
class Airflow:
    """A running Airflow; ``address`` ends in its path prefix."""

    address: str
    passwords: dict[str, str]

    def token(self, user: str) -> str:
        """Log a user in."""
        login = json.dumps({"username": user, "password": self.passwords[user]}).encode()
        return str(fetch(f"{self.address}/auth/token", login)["access_token"])

    def log_in(self, browser: Browser, user: str) -> None:
        """Log a user in, in a browser."""
        browser("Network.setCookie", name="_token", value=self.token(user), url=self.address)

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Call the REST API as ada; SQLite is locked now and then, which is an error 500."""
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(5):
            try:
                return fetch(f"{self.address}/api/v2/{path}", data, method=method, token=self.token("ada"))
            except urllib.error.HTTPError as error:
                if error.code != 500 or attempt == 4:
                    raise
        raise AssertionError


def fetch(address: str, data: bytes | None = None, *, method: str | None = None, token: str | None = None) -> Any:
    """Return the JSON of an address."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(address, data=data, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as reply:
        return json.load(reply)


@contextlib.contextmanager
def running(folder: Path, *, parts: Sequence[str] = (), prefix: str = "") -> Iterator[Airflow]:
    """Run Airflow with this checkout's DAGs and plugin, and the corpora of ``folder/corpora``.

    Users are ada, who may do everything, and vera, who only reads. ``parts`` are among ``EVERY_PART``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}{prefix}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "INSET"))}
    env = kept | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__SECRET_KEY": "of a test",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of a test, as long as such secrets have to be at least",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ada:admin,vera:viewer",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "INSET_CORPORA": str(folder / "corpora"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")])),
    }
    command = str(Path(sys.executable).parent / "airflow")
    for arguments in (["db", "migrate"], ["dags", "reserialize"]):
        done = subprocess.run([command, *arguments], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("wb") as log:
        try:
            started = [
                subprocess.Popen([command, part], env=env, stdout=log, stderr=log, start_new_session=True, cwd=folder)
                for part in ("api-server", *parts)
            ]
            wait_for(lambda: _answers(started, f"{address}/api/v2/version", folder / "log"))
            yield Airflow(address, json.loads((folder / "passwords.json").read_text()))
        finally:
            for process in started:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            for process in started:
                process.wait()


def _answers(started: "Sequence[subprocess.Popen[bytes]]", address: str, log: Path) -> bool:
    assert all(process.poll() is None for process in started), log.read_text()[-5000:]
    try:
        fetch(address)
    except (OSError, ValueError):
        return False
    return True


def wait_for(condition: Callable[[], Found], *, within_s: float = 300.0) -> Found:
    """Return the first true result of a condition."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still {found!r} after {within_s:g} s"
        time.sleep(0.3)
    return found
