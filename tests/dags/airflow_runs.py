"""Run commands of a real Airflow, and read its database."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path


def airflow(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Airflow."""
    command = [str(Path(sys.executable).parent / "airflow"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def states(env: dict[str, str]) -> dict[str, str]:
    """Return the state of each task of the last run."""
    with sqlite3.connect(Path(env["AIRFLOW_HOME"]) / "airflow.db") as database:
        (last,) = database.execute("select run_id from dag_run order by id desc limit 1").fetchone()
        rows = database.execute("select task_id, state from task_instance where run_id = ? order by map_index", (last,))
        return dict(rows.fetchall())


def events(env: dict[str, str]) -> list[tuple[str, str]]:
    """Return the asset events, oldest first: the asset's URI and the version."""
    with sqlite3.connect(Path(env["AIRFLOW_HOME"]) / "airflow.db") as database:
        rows = database.execute(
            "select asset.uri, asset_event.extra from asset_event join asset on asset.id = asset_event.asset_id"
            " order by asset_event.id"
        )
        return [(uri, json.loads(extra)["version"]) for uri, extra in rows.fetchall()]
