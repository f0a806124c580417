"""Airflow refreshes the example corpus and the service searches it: ``python -m tests.demo``; Ctrl-C ends all.

It needs nothing but what Inset runs with. Airflow's own data go when it ends; the corpus stays.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

import psutil

from tests import airflow_server
from tests.airflow_server import ROOT, Airflow, fetch
from tests.free_port import free_port
from tests.waiting import wait_for

CORPUS = "manuals"
DAG = f"dags/refresh_{CORPUS}"
QUESTIONS = ("lcnc-10", "asy-03", "gnc-05")

_began = time.monotonic()


def say(text: str) -> None:
    """Print a line at once, with the time since the start."""
    seconds = int(time.monotonic() - _began)
    sys.stdout.write(f"{seconds // 60:3d}:{seconds % 60:02d}  {text}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def serving(environment: Mapping[str, str]) -> Iterator[str]:
    """Serve the corpus; yield the address of the search page."""
    port = free_port()
    command = [sys.executable, "-m", "cli.main", "serve", CORPUS, "--port", str(port)]
    with Path(os.devnull).open("wb") as nowhere:
        # In a session of its own, so that Ctrl-C reaches the demo alone.
        process = subprocess.Popen(
            command, env=os.environ | environment, cwd=ROOT, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def refresh(airflow: Airflow) -> bool:
    """Refresh the corpus, and say how tasks go on, those of the schedule's run too; return whether a run succeeded."""
    airflow.call(DAG, {"is_paused": False}, "PATCH")
    airflow.call(f"{DAG}/dagRuns", {"logical_date": None})
    seen: dict[tuple[str, str, int], str] = {}
    while True:
        states: dict[str, str] = {}
        for run in airflow.call(f"{DAG}/dagRuns")["dag_runs"]:
            states[path := f"{DAG}/dagRuns/{quote(run['dag_run_id'])}"] = run["state"]
            for task in airflow.call(f"{path}/taskInstances?limit=100")["task_instances"]:
                name, state = (path, task["task_id"], task["map_index"]), task["state"]
                if state in ("running", "success", "failed", "up_for_retry") and seen.get(name) != state:
                    seen[name] = state
                    say(f"{task['task_id']:<13}{state}  {task['rendered_map_index'] or ''}")
        for path in [path for path, state in states.items() if state == "failed"]:
            say(airflow.failures(path))
            return False
        if "success" in states.values():
            return True
        time.sleep(0.5)


def is_ready(service: str) -> bool:
    """Return whether the service answers."""
    with contextlib.suppress(OSError, ValueError):
        return bool(fetch(f"{service}readyz")["ready"])
    return False


def run(folder: Path) -> None:
    """Start everything, refresh, and serve until interrupted."""
    corpora = {"INSET_CORPORA": str(ROOT / "corpora"), "PYTHONPATH": str(ROOT)}
    say("starting Airflow; the first time this takes a minute or two")
    with serving(corpora) as service:
        environment = corpora | {
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(48),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
            "AIRFLOW__CORE__PARALLELISM": str(max(2, os.cpu_count() or 2)),
            "INSET_SEARCH_PAGE": service,
            "SPT_NOENV": "1",  # keeps the environment of processes readable that rename themselves
        }
        with airflow_server.running(folder, environment=environment, on_sqlite=True) as airflow:
            for part, *options in (
                ("scheduler", "--skip-serve-logs"),
                ("triggerer", "--skip-serve-logs"),
                ("dag-processor",),
            ):
                airflow.start(part, part, *options)
            password = json.loads((folder / "passwords.json").read_text())["ada"]
            say(f"Airflow is up: {airflow.address}/{DAG}   user ada, password {password}")
            if not refresh(airflow):
                return
            wait_for(lambda: is_ready(service), "the search page")
            say(f"Search page: {service}   Worth asking:")
            for line in (ROOT / "examples" / CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines():
                if line and (row := json.loads(line))["id"] in QUESTIONS:
                    say(f"  {row['question']}\n         {service}?{urlencode({'corpus': CORPUS, 'q': row['question']})}")
            say("Ctrl-C ends all of it.")
            signal.pause()


def clear(folder: Path) -> None:
    """End the processes of this or an earlier demo, those of tasks too, which outlive Airflow's parts; remove their data."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("AIRFLOW_HOME") == str(folder):
                process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run the demo, and end its processes however it ends."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    folder = ROOT / ".inset" / "demo"
    clear(folder)
    folder.mkdir(parents=True)
    try:
        run(folder)
    except KeyboardInterrupt:
        say("ended")
    finally:
        clear(folder)


if __name__ == "__main__":
    main()
