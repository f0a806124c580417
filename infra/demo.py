"""The demo: Airflow refreshes the example corpus and the service searches it. ``make demo`` runs it; Ctrl-C ends it.

Airflow's components are started one by one, since ``airflow standalone`` serves logs on all addresses and orphans its processes.
Every process of the demo has the variable ``INSET_DEMO`` in its environment, which survives new sessions and dead parents: the
demo ends the processes that have it, those of an earlier demo too.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Container
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
HOME = ROOT / ".inset" / "airflow"
LOG = HOME / "demo.log"
PASSWORDS = HOME / "passwords.json"
CORPUS = "manuals"
DAG = f"dags/refresh_{CORPUS}"
QUESTIONS = ("lcnc-10", "asy-03", "gnc-05")
MARK = "INSET_DEMO"
STARTED_WITHIN_S = 300.0
REFRESHED_WITHIN_S = 3600.0
ANSWERED_WITHIN_S = 60.0
ENDED_WITHIN_S = 10.0

_began = time.monotonic()


class DemoError(Exception):
    """The demo failed; the message gives the reason and the log."""


def say(text: str = "", *, timed: bool = False) -> None:
    """Print a line unbuffered."""
    seconds = int(time.monotonic() - _began)
    print(f"{seconds // 60:3d}:{seconds % 60:02d}  {text}" if timed else text, flush=True)  # noqa: T201 - it is a command


def free_port(first_port: int) -> int:
    """Return the first free port from ``first_port`` on."""
    for port in range(first_port, first_port + 50):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise DemoError(f"ports {first_port} to {first_port + 49} are all taken")


def end_all() -> None:
    """End every process of this or an earlier demo of this checkout, with all that they started."""
    until = time.monotonic() + ENDED_WITHIN_S
    while processes := [process for process in psutil.process_iter() if _is_marked(process)]:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.terminate() if time.monotonic() < until else process.kill()
        psutil.wait_procs(processes, timeout=1)


def _is_marked(process: psutil.Process) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get(MARK) == str(HOME)
    except (psutil.Error, OSError):
        return False


class Airflow:
    """Calls Airflow's REST API, again if it answers a server error: SQLite is locked for seconds while tasks start."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = httpx.Client(base_url=f"{address}/api/v2/", trust_env=False, timeout=30)
        self._tries = Retrying(
            retry=retry_if_exception(_may_pass), stop=stop_after_delay(ANSWERED_WITHIN_S), wait=wait_fixed(1), reraise=True
        )

    def log_in(self) -> None:
        """Get a token for the user ``admin``."""
        login = {"username": "admin", "password": json.loads(PASSWORDS.read_text())["admin"]}
        reply = self._client.post(f"{self.address}/auth/token", json=login).raise_for_status()
        self._client.headers["authorization"] = f"Bearer {reply.json()['access_token']}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the reply to a call."""
        return self._tries(lambda: self._client.request(method, path, json=body).raise_for_status().json())


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


class Demo:
    """The processes of the demo."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.service = f"http://127.0.0.1:{(service_port := free_port(8750))}/"
        self.airflow = Airflow(f"http://127.0.0.1:{(port := free_port(8080))}")
        self._ports, self._seen = (service_port, port), dict[tuple[str, str, int], str]()
        core, api, secret = "AIRFLOW__CORE__", "AIRFLOW__API__", secrets.token_urlsafe(48)
        local = "127.0.0.1,localhost"
        # Without settings of another Airflow.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
            MARK: str(HOME),
            "SPT_NOENV": "1",  # keeps the environment of processes readable that rename themselves
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONUNBUFFERED": "1",
            "INSET_CORPORA": str(ROOT / "corpora"),
            "INSET_SEARCH_PAGE": self.service,
            **{name: f"{os.environ.get(name, '')},{local}".strip(",") for name in ("NO_PROXY", "no_proxy")},
            "AIRFLOW_HOME": str(HOME),
            f"{core}DAGS_FOLDER": str(ROOT / "dags"),
            f"{core}LOAD_EXAMPLES": "False",
            f"{core}EXECUTOR": "LocalExecutor",
            f"{core}PARALLELISM": str(max(2, os.cpu_count() or 2)),
            f"{core}AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            f"{core}SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            f"{core}SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(PASSWORDS),
            f"{core}EXECUTION_API_SERVER_URL": f"{self.airflow.address}/execution/",
            f"{api}HOST": "127.0.0.1",
            f"{api}PORT": str(port),
            f"{api}BASE_URL": self.airflow.address,
            f"{api}WORKERS": "1",
            f"{api}SECRET_KEY": secret,
            "AIRFLOW__API_AUTH__JWT_SECRET": secret,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    def start(self, program: str, *arguments: str) -> None:
        """Start a process in its own session, so that Ctrl-C reaches the demo alone."""
        with LOG.open("ab") as log:
            self.processes[f"{program} {arguments[0]}"] = subprocess.Popen(
                [str(BIN / program), *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, task: str, is_done: Callable[[], bool], within_s: float = STARTED_WITHIN_S) -> None:
        """Wait until something holds; raise ``DemoError`` if it doesn't in time, or a process ended meanwhile."""
        until = time.monotonic() + within_s
        while not is_done():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise DemoError(f"{name} ended (status {process.returncode}); look at {LOG}")
            if time.monotonic() > until:
                raise DemoError(f"{task} took more than {within_s:.0f} s; look at {LOG}")
            time.sleep(0.5)

    def run(self) -> None:
        """Start everything, refresh, and serve until interrupted."""
        HOME.mkdir(parents=True, exist_ok=True)
        LOG.write_bytes(b"")
        end_all()
        say("starting Airflow; the first time this takes a minute or two", timed=True)
        self.start("inset", "serve", CORPUS, "--port", str(self._ports[0]))
        self.start("airflow", "db", "migrate")
        migration = self.processes.pop("airflow db")
        self.wait("making Airflow's database", lambda: migration.poll() is not None)
        if migration.returncode:
            raise DemoError(f"Airflow could not make its database; look at {LOG}, or remove {HOME}")
        self.start("airflow", "api-server")
        self.start("airflow", "scheduler", "--skip-serve-logs")
        self.start("airflow", "triggerer", "--skip-serve-logs")
        self.start("airflow", "dag-processor")
        since = time.time()
        self.wait("Airflow's start", self._is_up)
        self.wait("Airflow's reading of the DAG", lambda: self._knows_dag(since))
        say(f"Airflow is up: {self.airflow.address}/{DAG}", timed=True)
        earlier_runs = self._runs()
        for run, state in earlier_runs.items():
            if state in ("running", "queued"):  # of a demo that was cut off: the new one goes on from its finished work
                self.airflow.call("PATCH", run, {"state": "failed"})
        self.airflow.call("PATCH", DAG, {"is_paused": False})
        self.airflow.call("POST", f"{DAG}/dagRuns", {"logical_date": None})
        self.wait("the refresh", lambda: self._is_refreshed(earlier_runs), REFRESHED_WITHIN_S)
        self.wait("the search page", self._is_served)
        self._show()
        self.wait("the demo", lambda: False, float("inf"))

    def _is_up(self) -> bool:
        try:
            self.airflow.log_in()
            health = self.airflow.call("GET", "monitor/health")
        except (httpx.HTTPError, OSError):
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)

    def _knows_dag(self, since: float) -> bool:
        for error in self.airflow.call("GET", "importErrors")["import_errors"]:
            raise DemoError(f"Airflow can't read {error['filename']}:\n{error['stack_trace']}")
        dags = self.airflow.call("GET", f"dags?dag_id_pattern=refresh_{CORPUS}")["dags"]
        return any(_epoch_seconds(dag["last_parsed_time"]) > since for dag in dags)

    def _runs(self) -> dict[str, str]:
        """Return the state of each of the DAG's latest runs, by its path."""
        runs = self.airflow.call("GET", f"{DAG}/dagRuns?order_by=-run_after&limit=100")["dag_runs"]
        return {f"{DAG}/dagRuns/{urllib.parse.quote(run['dag_run_id'])}": run["state"] for run in runs}

    def _is_refreshed(self, earlier_runs: Container[str]) -> bool:
        """Show what changed in the tasks of new runs, those of the schedule too, and return whether one succeeded.

        Raises ``DemoError`` if one failed.
        """
        runs = {run: state for run, state in self._runs().items() if run not in earlier_runs}
        for run in runs:
            for task in self.airflow.call("GET", f"{run}/taskInstances?limit=100")["task_instances"]:
                name, state = (run, task["task_id"], task["map_index"]), task["state"]
                if state in ("running", "success", "failed", "up_for_retry") and self._seen.get(name) != state:
                    self._seen[name] = state
                    say(f"{task['task_id']:<13}{state}  {task['rendered_map_index'] or ''}", timed=True)
        if "failed" in runs.values():
            raise DemoError(f"the refresh failed; the logs of its tasks are in {HOME / 'logs'}")
        return "success" in runs.values()

    def _is_served(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.service}readyz", trust_env=False).is_success
        return False

    def _show(self) -> None:
        say(f"\n  Search page   {self.service}")
        password = json.loads(PASSWORDS.read_text())["admin"]
        say(f"  Airflow       {self.airflow.address}/{DAG}   user admin, password {password}")
        say("\n  Worth asking:")
        for line in (ROOT / "examples" / CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines():
            if line and (row := json.loads(line))["id"] in QUESTIONS:
                query = urllib.parse.urlencode({"corpus": CORPUS, "q": row["question"]})
                say(f"    {row['question']}\n      {self.service}?{query}")
        say("\n  Ctrl-C ends all of it.")


def _epoch_seconds(timestamp: str | None) -> float:
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


def main() -> int:
    """Run the demo, and end its processes however it ends."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        signal.signal(number, signal.default_int_handler)
    try:
        Demo().run()
    except KeyboardInterrupt:
        return 0
    except (DemoError, httpx.HTTPError, OSError) as error:
        say(f"demo: {error}")
        return 1
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        say("\nending what the demo started")
        end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
