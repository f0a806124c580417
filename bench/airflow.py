"""What Airflow adds to a refresh: ``python -m bench.airflow [--documents N] [--json]``.

The DAG files are loaded with 50 corpora, beside ``import airflow.sdk`` alone. Then N manuals of two pages are refreshed by
``inset refresh``, and by a DAG on an Airflow that is started for it (SQLite, two tasks at once), and the seconds are compared.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from bench.table import Row, parser_of, show

CORPORA = 50
LOADS = 3
REFRESHED_WITHIN_S = 7_200.0
MOST_OVERHEAD, MOST_LOAD_S = 1.1, 2.0

_CORPUS = "source: ../pdfs\ncaptions: {ocr: none}\n"


def main() -> None:
    """Measure both, and print them."""
    parser = parser_of("airflow", __doc__)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    documents = parser.parse_args().documents
    with tempfile.TemporaryDirectory(prefix="inset-airflow-") as folder:
        rows = [*_loading(Path(folder) / "loading"), _refreshing(Path(folder) / "refreshing", documents)]
    show("a refresh by its DAG, and the DAG files", rows)


def _refreshing(folder: Path, documents: int) -> Row:
    from tests.manuals import write_manual

    for number in range(documents):
        write_manual(folder / "pdfs" / f"{number:05}.pdf", f"pump {number}", seed=number)
    _write_corpora(folder, "by_command", "by_dag")
    began = time.monotonic()
    command = str(Path(sys.executable).parent / "inset")
    subprocess.run([command, "refresh", "by_command"], env=_environment(folder), check=True, stdout=sys.stderr)
    alone = time.monotonic() - began
    by_dag = _by_dag(folder, "dags/refresh_by_dag")
    goal = f"ratio at most {MOST_OVERHEAD} at 1,000 documents"
    return Row(f"refresh of {documents:,} documents", "s", by_dag, alone, "inset refresh", goal)


def _by_dag(folder: Path, dag: str) -> float:
    """Return the seconds from a run's start to its end."""
    from tests.airflow_server import EVERY_PART, running
    from tests.waiting import wait_for

    with running(folder, parts=EVERY_PART) as airflow:
        airflow.call(dag, {"is_paused": False}, "PATCH")
        path = f"{dag}/dagRuns/{airflow.call(f'{dag}/dagRuns', {'logical_date': None})['dag_run_id']}"
        wait_for(lambda: airflow.call(path)["state"] in ("success", "failed"), within_s=REFRESHED_WITHIN_S)
        run = airflow.call(path)
        for task in airflow.call(f"{path}/taskInstances?limit=500")["task_instances"]:
            print(f"{task['task_id']:10}{task['state']:10}{task['duration'] or 0:8.1f} s", file=sys.stderr)
    if run["state"] != "success":
        sys.exit("the DAG's run failed; is Inset whole?")
    began, ended = (datetime.fromisoformat(run[name]) for name in ("queued_at", "end_date"))
    return (ended - began).total_seconds()


def _loading(folder: Path) -> list[Row]:
    _write_corpora(folder, *(f"corpus_{number}" for number in range(CORPORA)))
    env = _environment(folder) | {"AIRFLOW_HOME": str(folder / "airflow")}
    alone = _seconds("import airflow.sdk", env)
    whole = _seconds("import airflow.sdk, dags.refresh, dags.operations", env)
    goal = f"at most {MOST_LOAD_S:g} s"
    return [
        Row(f"DAG files of {CORPORA} corpora", "s", whole, alone, "import airflow.sdk"),
        Row(f"DAG files of {CORPORA} corpora, on top", "s", whole - alone, goal=goal),
    ]


def _seconds(code: str, env: dict[str, str]) -> float:
    """Return the median seconds of a Python process; the first run, which may compile and write settings, isn't counted."""
    taken = []
    for _ in range(LOADS + 1):
        began = time.monotonic()
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, check=True)
        taken.append(time.monotonic() - began)
    return statistics.median(taken[1:])


def _write_corpora(folder: Path, *names: str) -> None:
    (folder / "corpora").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "corpora" / f"{name}.yaml").write_text(f"name: {name}\n{_CORPUS}")


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "INSET"))}
    return kept | {"INSET_CORPORA": str(folder / "corpora"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}


if __name__ == "__main__":
    main()
