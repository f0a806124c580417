"""What Airflow makes of the corpora folder: a refresh DAG for each file, whatever state the file is in."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

_DESCRIBE = """
import json
from dags import refresh
from airflow.sdk import DAG
print(json.dumps({
    name: {
        "schedule": str(getattr(dag.timetable, "expression", None)),
        "title": dag.dag_display_name,
        "about": dag.doc_md,
        "active": dag.max_active_runs,
        "catchup": dag.catchup,
        "tasks": {
            task.task_id: {
                "after": sorted(task.upstream_task_ids),
                "retries": task.retries,
                "mapped": task.is_mapped,
                "outlets": [asset.uri for asset in task.outlets],
            }
            for task in dag.tasks
        },
    }
    for name, dag in vars(refresh).items() if isinstance(dag, DAG) and name == dag.dag_id
}))
"""


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    folder = tmp_path / "corpora"
    folder.mkdir()
    return folder


def described(corpora: Path, env: dict[str, str]) -> Any:
    """Return the DAGs of a corpora folder, as a DAG processor would find them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _DESCRIBE],
        capture_output=True,
        text=True,
        check=False,
        env=env | {"INSET_CORPORA": str(corpora)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_dag_for_each_corpus_file_and_one_broken_file_hides_none(corpora: Path, airflow_env: dict[str, str]) -> None:
    (corpora / "pumps.yaml").write_text('name: pumps\nsource: ../pdfs\nschedule: "0 5 * * *"\n')
    (corpora / "by_hand.yaml").write_text("name: by_hand\nsource: ../pdfs\n")
    (corpora / "typo.yaml").write_text("name: typo\nsourc: ../pdfs\nschedule: '@daily'\n")
    (corpora / "cron.yaml").write_text("name: cron\nsource: ../pdfs\nschedule: every other day\n")
    dags = described(corpora, airflow_env)
    assert set(dags) == {"refresh_pumps", "refresh_by_hand", "refresh_typo", "refresh_cron"}
    assert (dags["refresh_pumps"]["schedule"], dags["refresh_pumps"]["active"], dags["refresh_pumps"]["catchup"]) == (
        "0 5 * * *",
        1,
        False,
    )
    for name, wrong in (("refresh_typo", "sourc"), ("refresh_cron", "every other day")):
        assert "broken" in dags[name]["title"]
        assert wrong in dags[name]["about"]
        assert "publish" not in dags[name]["tasks"]


def test_the_stages_follow_each_other_and_publishing_updates_the_asset(corpora: Path, airflow_env: dict[str, str]) -> None:
    (corpora / "pumps.yaml").write_text("name: pumps\nsource: ../pdfs\n")
    tasks = described(corpora, airflow_env)["refresh_pumps"]["tasks"]
    order = ["plan", "parse", "enrich", "assemble", "check", "build", "evaluate", "publish"]
    for before, after in pairwise(order):
        assert before in tasks[after]["after"]
    assert tasks["parse"]["mapped"]
    assert tasks["publish"]["outlets"] == ["inset://pumps/"]
    assert all(tasks[name]["retries"] >= 1 for name in order)
