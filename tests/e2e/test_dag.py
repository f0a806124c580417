"""The refresh DAG on a real Airflow: its own database, its own processes."""

import sqlite3
from pathlib import Path

import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.records.publication import read_pointer
from pipeline.records.tagged_copies import tagged_copies
from tests import batch_server
from tests.dags.airflow_runs import dag_tests
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow


def test_the_dag_refreshes_and_does_nothing_twice(tmp_path: Path, airflow_database: dict[str, str]) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    (tmp_path / "pdfs" / "page.pdf").write_text("<html>moved</html>")
    corpus = write_corpus(tmp_path, "gates: {max_quarantined: 0.5}\ntags: {pdf: true}\n")
    env = airflow_database | {"INSET_CORPORA": str(corpus.parent)}
    workspace = open_workspace(str(corpus))
    with dag_tests(env) as dags:
        task_states, output = dags.run("refresh_manuals"), dags.output
        live = read_pointer(workspace.store)
        states_again = dags.run("refresh_manuals")
    assert task_states.pop("approve") == "skipped", "gates hold"
    assert set(task_states.values()) == {"success"}, output
    assert live is not None
    assert {name.partition("/")[0] for name in (tagged_copies(workspace.store, live.version) or {}).values()} == {"tagged"}
    assert "page.pdf" in output
    assert "not_a_pdf" in output
    with sqlite3.connect(Path(env["AIRFLOW_HOME"]) / "airflow.db") as database:
        (largest,) = database.execute("select max(length(value)) from xcom").fetchone()
    assert largest < 500  # references, never data

    assert {states_again[name] for name in ("parse", "enrich", "build", "publish")} == {"skipped"}
    assert states_again["plan"] == "success"
    again = read_pointer(workspace.store)
    assert again is not None
    assert again.version == live.version


def test_enrich_waits_for_a_batch_without_a_slot(tmp_path: Path, airflow_database: dict[str, str]) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    with batch_server.running() as server:
        model = f"{{kind: vlm, model: m, revision: '1', mode: batch, endpoint: {{url: '{server.url}'}}}}"
        corpus = write_corpus(tmp_path, f"models: {{vlm: {model}}}\n")
        corpus.write_text(corpus.read_text().replace("{ocr: none}", "{ocr: none, captioner: vlm}"))
        env = airflow_database | {"INSET_CORPORA": str(corpus.parent)}
        with dag_tests(env, "import pipeline.run; pipeline.run.BATCHES_SEEN_EVERY_S = 1.0") as dags:
            task_states, output = dags.run("refresh_manuals"), dags.output
        assert set(task_states.values()) <= {"success", "skipped"}, output
        assert task_states["publish"] == "success", output
        assert (set(server.paid.values()), len(server.batches)) == ({1}, 1)
    with sqlite3.connect(Path(env["AIRFLOW_HOME"]) / "airflow.db") as database:
        (waits,) = database.execute("select count(*) from task_reschedule").fetchone()
    assert waits >= 1
    assert "0 of 1 requests in batches are done" in output
