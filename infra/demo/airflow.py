"""Airflow of the demo, and the run of its refresh."""

import json
import os
import secrets
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from infra.demo.processes import BIN, HOME, ROOT, Children, DemoError, environment, fetch, free_port, say, tail

AIRFLOW_LOG = HOME / "standalone.log"
CORPUS = "manuals"
DAG = f"refresh_{CORPUS}"
ENRICH_POOL = {"name": "inset_enrich", "slots": 1, "include_deferred": True, "description": "Corpora that use Ray at once"}
STARTED_WITHIN_S = 300.0
REFRESHED_WITHIN_S = 3600.0
ANSWERED_WITHIN_S = 60.0


@dataclass
class Airflow:
    """Airflow on SQLite, on loopback."""

    children: Children
    search_page: str = ""
    started: float = field(default_factory=time.time)
    port: int = 0
    token: str | None = None

    @property
    def address(self) -> str:
        """URL of the UI."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start its components and wait until they are healthy and have parsed the DAG."""
        HOME.mkdir(parents=True, exist_ok=True)
        self.port = free_port(8080)
        self._migrate()
        env = self._environment()
        airflow = str(BIN / "airflow")
        self.children.start("Airflow's API server", [airflow, "api-server"], AIRFLOW_LOG, env)
        self.children.start("Airflow's scheduler", [airflow, "scheduler", "--skip-serve-logs"], AIRFLOW_LOG, env)
        self.children.start("Airflow's triggerer", [airflow, "triggerer", "--skip-serve-logs"], AIRFLOW_LOG, env)
        self.children.start("Airflow's DAG processor", [airflow, "dag-processor"], AIRFLOW_LOG, env)
        self.children.wait("Airflow's start", self._healthy, STARTED_WITHIN_S)
        self._make_pool()
        self.children.wait("Airflow's reading of the DAG", self._knows_dag, STARTED_WITHIN_S)

    def _environment(self) -> dict[str, str]:
        core, api = "AIRFLOW__CORE__", "AIRFLOW__API__"
        return environment() | {
            "AIRFLOW_HOME": str(HOME),
            f"{core}DAGS_FOLDER": str(ROOT / "dags"),
            f"{core}LOAD_EXAMPLES": "False",
            f"{core}EXECUTOR": "LocalExecutor",
            f"{core}PARALLELISM": str(max(2, os.cpu_count() or 2)),
            f"{core}AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            f"{core}SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            f"{core}SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            f"{core}EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            f"{api}HOST": "127.0.0.1",
            f"{api}PORT": str(self.port),
            f"{api}BASE_URL": self.address,
            f"{api}WORKERS": "1",
            f"{api}SECRET_KEY": self._secret(),
            "AIRFLOW__API_AUTH__JWT_SECRET": self._secret(),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self._database}",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "INSET_ENRICH_POOL": str(ENRICH_POOL["name"]),
            "INSET_SEARCH_PAGE": self.search_page,
        }

    @property
    def _database(self) -> Path:
        return HOME / "airflow.db"

    @property
    def _passwords(self) -> Path:
        return HOME / "passwords.json"

    def _secret(self) -> str:
        file = HOME / "secret"
        if not file.is_file() or not file.read_text():
            file.touch(mode=0o600)
            file.write_text(secrets.token_urlsafe(48))
        return file.read_text()

    def _migrate(self) -> None:
        """Bring the database to the installed Airflow."""
        with AIRFLOW_LOG.open("wb") as log:
            command = [str(BIN / "airflow"), "db", "migrate"]
            process = subprocess.run(
                command,
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                start_new_session=True,
            )
        if process.returncode:
            raise DemoError(
                f"Airflow could not make its database; look at {AIRFLOW_LOG}, or remove {HOME}\n{tail(AIRFLOW_LOG)}"
            )

    def _healthy(self) -> bool:
        try:
            health = fetch(f"{self.address}/api/v2/monitor/health")
            self._log_in()
        except (OSError, ValueError):
            return False
        return all(
            health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "triggerer", "dag_processor")
        )

    @property
    def password(self) -> str:
        """The password of the user ``admin``, made by Airflow."""
        return str(json.loads(self._passwords.read_text())["admin"])

    def _log_in(self) -> None:
        login = {"username": "admin", "password": self.password}
        self.token = str(fetch(f"{self.address}/auth/token", body=login)["access_token"])

    def call(self, path: str, *, body: Any = None, method: str | None = None) -> Any:
        """Call the REST API, again if it answers a server error: SQLite is locked for seconds while tasks start."""
        replies: list[Any] = []

        def answered() -> bool:
            try:
                replies.append(fetch(f"{self.address}/api/v2/{path}", body=body, method=method, token=self.token))
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    raise
            return bool(replies)

        self.children.wait(f"Airflow's answer to {path}", answered, ANSWERED_WITHIN_S)
        return replies[0]

    def _make_pool(self) -> None:
        """Make the pool of ``enrich``, unless an earlier demo did."""
        try:
            self.call("pools", body=ENRICH_POOL)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def _knows_dag(self) -> bool:
        for error in self.call("importErrors")["import_errors"]:
            raise DemoError(f"Airflow can't read {error['filename']}:\n{error['stack_trace']}")
        try:
            parsed = self.call(f"dags/{DAG}")["last_parsed_time"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return bool(parsed) and _epoch_seconds(parsed) > self.started

    def refresh(self) -> str:
        """Start a run of the DAG, or take the one that its schedule has started; return its id."""
        runs = f"dags/{DAG}/dagRuns"
        self.call(f"dags/{DAG}", body={"is_paused": False}, method="PATCH")
        for run in self.call(f"{runs}?state=running&state=queued&order_by=run_after")["dag_runs"]:
            if not run["start_date"] or _epoch_seconds(run["start_date"]) > self.started:
                return str(run["dag_run_id"])
            say("an earlier run was cut off; the new one goes on from its finished work", timed=True)
            self.call(_run_path(run["dag_run_id"]), body={"state": "failed"}, method="PATCH")
        return str(self.call(runs, body={"logical_date": None})["dag_run_id"])


def _run_path(run_id: str) -> str:
    return f"dags/{DAG}/dagRuns/{urllib.parse.quote(run_id)}"


def _epoch_seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


_DONE = {"success": "done", "failed": "FAILED", "skipped": "skipped", "upstream_failed": "not run"}
_UNDER_WAY = {"running": "started", "up_for_retry": "failed, is tried again"}


@dataclass
class Watch:
    """Shows a run in the terminal, a line per change."""

    airflow: Airflow
    run_id: str
    seen: dict[tuple[str, int], str] = field(default_factory=dict)

    def until_done(self) -> bool:
        """Show the run until it ends; return whether it succeeded."""
        deadline = time.monotonic() + REFRESHED_WITHIN_S
        while True:
            self.airflow.children.check()
            try:
                # Read the run before its tasks, so that the tasks are never older.
                state = self.airflow.call(_run_path(self.run_id))["state"]
                tasks = self.airflow.call(f"{_run_path(self.run_id)}/taskInstances?limit=100")["task_instances"]
            except OSError:
                state, tasks = "unknown", []
            for task in sorted(tasks, key=lambda task: (task["start_date"] or "9", task["map_index"])):
                self._show(task)
            if state in ("success", "failed"):
                return bool(state == "success")
            if time.monotonic() > deadline:
                raise DemoError(
                    f"the refresh took more than {REFRESHED_WITHIN_S / 60:.0f} minutes; look at {self.airflow.address}"
                )
            time.sleep(1)

    def _show(self, task: dict[str, Any]) -> None:
        state, task_key = task["state"], (task["task_id"], task["map_index"])
        if self.seen.get(task_key) != state:
            self.seen[task_key] = state
            if words := _DONE.get(state) or _UNDER_WAY.get(state):
                seconds = f" in {task['duration']:.0f} s" if state == "success" and task["duration"] else ""
                detail = f"  {task['rendered_map_index']}" if state == "success" and task["rendered_map_index"] else ""
                say(f"{_name(task):<13}{words}{seconds}{detail}", timed=True)


def _name(task: dict[str, Any]) -> str:
    return str(task["task_id"]) if task["map_index"] < 0 else f"{task['task_id']} {task['map_index'] + 1}"
