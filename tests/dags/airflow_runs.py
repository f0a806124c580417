"""Run the DAGs of a corpora folder on an Airflow's database, and read it."""

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_TEST = """
import json, sys
from airflow.sdk import DAG
from dags import installed, operations, refresh
dags = {dag.dag_id: dag for module in (installed, operations, refresh) for dag in vars(module).values() if isinstance(dag, DAG)}
for line in sys.stdin:
    dag_id, conf = json.loads(line)
    tasks = sorted(dags[dag_id].test(run_conf=conf).get_task_instances(), key=lambda task: task.map_index)
    print()
    print("ended:", json.dumps({task.task_id: task.state for task in tasks}), flush=True)
"""


class DagTests:
    """A process that has loaded the DAGs once and runs them in turn."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.output = ""
        """What the last run has logged."""

    def run(self, dag: str, conf: Mapping[str, object] | None = None) -> dict[str, str | None]:
        """Run a DAG as ``airflow dags test`` does, and return the state of each task; of mapped ones, of the last."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([dag, conf]) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith("ended: "):
                self.output = "".join(lines)
                states: dict[str, str | None] = json.loads(line.removeprefix("ended: "))
                return states
            lines.append(line)
        raise AssertionError("".join(lines))


@contextlib.contextmanager
def dag_tests(env: Mapping[str, str], before: str = "") -> Iterator[DagTests]:
    """Load the DAGs in an Airflow's environment, whose database must be migrated, ``before`` which some code is run."""
    command = [sys.executable, "-W", "ignore", "-c", before + _TEST]
    with subprocess.Popen(
        command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        yield DagTests(process)
        process.kill()


def events(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the asset events, oldest first: the asset's URI and the version."""
    with sqlite3.connect(Path(env["AIRFLOW_HOME"]) / "airflow.db") as database:
        rows = database.execute(
            "select asset.uri, asset_event.extra from asset_event join asset on asset.id = asset_event.asset_id"
            " order by asset_event.id"
        )
        return [(uri, json.loads(extra)["version"]) for uri, extra in rows.fetchall()]
