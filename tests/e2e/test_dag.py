"""The refresh DAG on a real Airflow: its own database, its own processes."""

import sqlite3
from pathlib import Path

import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.records.publication import read_pointer
from pipeline.records.tagged_copies import tagged_copies
from tests.dags.airflow_runs import airflow, states
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow


def test_the_dag_refreshes_and_does_nothing_twice(tmp_path: Path, airflow_env: dict[str, str]) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    (tmp_path / "pdfs" / "page.pdf").write_text("<html>moved</html>")
    corpus = write_corpus(tmp_path, "gates: {max_quarantined: 0.5}\ntags: {pdf: true}\n")
    env = airflow_env | {"INSET_CORPORA": str(corpus.parent)}
    migrated = airflow(env, "db", "migrate")
    assert migrated.returncode == 0, migrated.stderr

    first = airflow(env, "dags", "test", "refresh_manuals")
    task_states = states(env)
    assert task_states.pop("approve") == "skipped", "gates hold"
    assert task_states.pop("approve_plan") == "skipped", "the plan is cheap"
    assert set(task_states.values()) == {"success"}, first.stdout + first.stderr
    workspace = open_workspace(str(corpus))
    live = read_pointer(workspace.store)
    assert live is not None
    assert {name.partition("/")[0] for name in (tagged_copies(workspace.store, live.version) or {}).values()} == {"tagged"}
    assert "page.pdf" in first.stdout
    assert "not_a_pdf" in first.stdout
    with sqlite3.connect(Path(env["AIRFLOW_HOME"]) / "airflow.db") as database:
        (largest,) = database.execute("select max(length(value)) from xcom").fetchone()
    assert largest < 500  # references, never data

    airflow(env, "dags", "test", "refresh_manuals")
    task_states = states(env)
    assert {task_states[name] for name in ("parse", "enrich", "build", "publish")} == {"skipped"}
    assert task_states["plan"] == "success"
    again = read_pointer(workspace.store)
    assert again is not None
    assert again.version == live.version
