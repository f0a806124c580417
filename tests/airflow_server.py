"""A real Airflow of a test's own: its API server, and the parts that run tasks where the test wants them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.browser import Browser
from tests.free_port import free_port
from tests.postgres_server import Postgres
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent
_COMMAND = str(Path(sys.executable).parent / "airflow")
RUN_WITHIN_S = 1_200.0
_ENDS_WITHIN_S = 20.0
_TRIES, _PAUSE_S = 20, 0.5
EVERY_PART = ("scheduler", "dag-processor", "triggerer")

Found = TypeVar("Found")


@dataclass
class Airflow:
    """A running Airflow; ``address`` ends in its path prefix. Its metadata are in SQLite where ``database`` is None."""

    address: str
    folder: Path
    environment: Mapping[str, str]
    database: Postgres | None
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)

    def start(self, part: str, *arguments: str) -> None:
        """Start a part: the API server, one of ``EVERY_PART``, or what the arguments of ``airflow`` start, under a name."""
        command = [_COMMAND, *(arguments or [part])]
        with (self.folder / "log").open("ab") as log:
            self.processes[part] = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )

    def end(self, part: str, by: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to the processes of a part, and wait for its end."""
        process = self.processes.pop(part)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, by)
        process.wait()

    def answers(self) -> bool:
        """Return whether the API server does; every part must live."""
        stopped = [part for part, process in self.processes.items() if process.poll() is not None]
        assert not stopped, f"{stopped} ended: {self.log()[-5000:]}"
        try:
            fetch(f"{self.address}/api/v2/version")
        except (OSError, ValueError):
            return False
        return True

    def log(self) -> str:
        """Return what all parts have logged."""
        return (self.folder / "log").read_text(errors="replace")

    def token(self, user: str) -> str:
        """Return the token of a user, who is logged in once."""
        if user in self._tokens:
            return self._tokens[user]
        passwords = json.loads((self.folder / "passwords.json").read_text())
        login = json.dumps({"username": user, "password": passwords[user]}).encode()
        return self._tokens.setdefault(user, str(fetch(f"{self.address}/auth/token", login)["access_token"]))

    def log_in(self, browser: Browser, user: str) -> None:
        """Log a user in, in a browser."""
        browser("Network.setCookie", name="_token", value=self.token(user), url=self.address)

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Call the REST API as ada; SQLite is locked for seconds while tasks start, which is an error 500, and tried again."""
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(_TRIES):
            try:
                return fetch(f"{self.address}/api/v2/{path}", data, method=method, token=self.token("ada"))
            except urllib.error.HTTPError as error:
                if error.code != 500 or attempt == _TRIES - 1:
                    raise
                time.sleep(_PAUSE_S)
        raise AssertionError

    def ended(self, run: str) -> str:
        """Return the state of a run that has ended; ``run`` is its path."""

        def ended() -> str:
            state = str(self.call(run)["state"])
            return state if state in ("success", "failed") else ""

        return wait_for(ended, within_s=RUN_WITHIN_S)

    def failures(self, run: str) -> str:
        """Return a line for each failed task of a run, with the end of its log."""
        lines = []
        for task in self.call(f"{run}/taskInstances?limit=500")["task_instances"]:
            if task["state"] == "failed":
                log = f"{run}/taskInstances/{task['task_id']}/logs/{task['try_number']}?map_index={task['map_index']}"
                lines.append(f"{task['task_id']}: {[entry.get('event') for entry in self.call(log)['content']][-9:]}")
        return "\n".join(lines)


def fetch(address: str, data: bytes | None = None, *, method: str | None = None, token: str | None = None) -> Any:
    """Return the JSON of an address."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(address, data=data, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as reply:
        return json.load(reply)


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    parts: Sequence[str] = (),
    prefix: str = "",
    environment: Mapping[str, str] | None = None,
    on_sqlite: bool = False,
) -> Iterator[Airflow]:
    """Run Airflow with this checkout's DAGs and plugin, and the corpora of ``folder/corpora``.

    Users are ada, who may do everything, and vera, who only reads. ``parts`` are among ``EVERY_PART``; ``environment`` is added
    to that of every part. Its metadata are in PostgreSQL where that is installed, unless ``on_sqlite``.
    """
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Postgres()) if Postgres.installed() and not on_sqlite else None
        airflow = _migrated(folder, prefix, database, environment or {})
        stack.callback(_end, airflow.processes)
        for part in ("api-server", *parts):
            airflow.start(part)
        wait_for(airflow.answers)
        yield airflow


def _migrated(folder: Path, prefix: str, database: Postgres | None, extra: Mapping[str, str]) -> Airflow:
    port = free_port()
    address = f"http://127.0.0.1:{port}{prefix}"
    driver = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database.url} if database else {}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "INSET"))}
    environment = (
        inherited
        | driver
        | {
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
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.url if database else f"sqlite:///{folder}/airflow.db",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",  # seconds between two tasks of a run, by default one
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "INSET_CORPORA": str(folder / "corpora"),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH")])),
        }
        | dict(extra)
    )
    for arguments in (["db", "migrate"], ["dags", "reserialize"]):
        process = subprocess.run([_COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout + process.stderr
    return Airflow(address, folder, environment, database)


def _end(processes: "Mapping[str, subprocess.Popen[bytes]]") -> None:
    for process in processes.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in processes.values():
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:  # a worker whose task waits for a part that has ended
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
