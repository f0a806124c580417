"""What Airflow makes of the corpora folder: a refresh DAG for each file, whatever state the file is in."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.dags.airflow_runs import dag_tests

_DESCRIBE = """
import json
from dags import refresh
from airflow.sdk import DAG
print(json.dumps({
    dag.dag_id: {
        "schedule": str(getattr(dag.timetable, "expression", None)),
        "title": dag.dag_display_name,
        "about": dag.doc_md,
        "active": dag.max_active_runs,
        "tags": sorted(dag.tags),
        "catchup": dag.catchup,
        "tasks": {
            task.task_id: {
                "after": sorted(task.upstream_task_ids),
                "retries": task.retries,
                "pool": task.pool,
                "owner": task.owner,
                "mapped": task.is_mapped,
                "outlets": [asset.uri for asset in task.outlets],
            }
            for task in dag.tasks
        },
    }
    for dag in vars(refresh).values() if isinstance(dag, DAG)
}))
"""


_LOAD = """
import json
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag({folder!r})
kept = {{dag.dag_id: json.dumps(DagSerialization.to_dict(dag), ensure_ascii=False).encode() for dag in bag.dags.values()}}
print(json.dumps({{"dags": sorted(kept), "errors": bag.import_errors}}))
"""

_SCHEDULES = """
import json
from dags import refresh
from airflow.sdk import DAG
def described(timetable):
    condition = getattr(timetable, "asset_condition", None)
    assets = [] if condition is None else getattr(condition, "objects", [condition])
    return {
        "cron": getattr(getattr(timetable, "timetable", timetable), "expression", None),
        "assets": sorted(asset.uri for asset in assets),
    }
print(json.dumps({dag.dag_id: described(dag.timetable) for dag in vars(refresh).values() if isinstance(dag, DAG)}))
"""


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    folder = tmp_path / "corpora"
    folder.mkdir()
    return folder


def described(corpora: Path, env: dict[str, str], script: str = _DESCRIBE) -> Any:
    """Return the DAGs of a corpora folder, as a DAG processor would find them."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=env | {"INSET_CORPORA": str(corpora)},
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


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
    order = ["plan", "parse", "enrich", "assemble", "check", "build", "evaluate", "review", "approve", "publish", "confirm"]
    for before, after in pairwise(order):
        assert before in tasks[after]["after"]
    assert tasks["parse"]["mapped"]
    assert tasks["confirm"]["outlets"] == ["inset://pumps/"]
    assert all(tasks[name]["retries"] >= 1 for name in order if name != "approve")


@pytest.mark.slow
def test_tasks_that_start_ray_wait_in_a_pool_of_their_own(corpora: Path, airflow_env: dict[str, str]) -> None:
    (corpora / "pumps.yaml").write_text("name: pumps\nsource: ../pdfs\n")

    def pools(env: dict[str, str]) -> dict[str, str]:
        return {name: task["pool"] for name, task in described(corpora, env)["refresh_pumps"]["tasks"].items()}

    assert set(pools(airflow_env).values()) == {"default_pool"}
    enrich_pools = pools(airflow_env | {"INSET_ENRICH_POOL": "inset_enrich"})
    assert {name for name, pool in enrich_pools.items() if pool == "inset_enrich"} == {"enrich"}


def test_a_refresh_is_started_by_time_or_by_an_asset(corpora: Path, airflow_env: dict[str, str]) -> None:
    cron, after = 'schedule: "0 5 * * *"', "operations: {after_asset: 's3://bucket/manuals'}"
    files = {"hand": "", "time": cron, "asset": after, "both": f"{cron}\n{after}"}
    for name, settings in files.items():
        (corpora / f"{name}.yaml").write_text(f"name: {name}\nsource: ../pdfs\n{settings}\n")
    dags = described(corpora, airflow_env, _SCHEDULES)
    for name in files:
        dag = dags[f"refresh_{name}"]
        assert dag["cron"] == ("0 5 * * *" if name in ("time", "both") else None)
        assert dag["assets"] == (["s3://bucket/manuals"] if name in ("asset", "both") else [])


@pytest.mark.slow
def test_no_file_however_made_takes_another_dag_away(corpora: Path, airflow_env: dict[str, str]) -> None:
    files = {
        "good": "source: x",
        "dag": "source: x",  # a function of the DAG file is called refresh_dag
        "date": "source: x\nschedule: 2024-13-45",
        "never": "source: x\nschedule: 99 99 * * *",
        "user": "source: ~nosuchuser/pdfs",
        "zz": "source: !!int zz",
        "digits": f"source: x\nparse: {{max_pages: {'9' * 5000}}}",
        "nested": f"source: {'[' * 3000}{']' * 3000}",
        "template": "source: '{{ 7 * 7 }}'\nfoo: '{% raw %}'",
        "x" * 245: "source: x",
    }
    for name, settings in files.items():
        (corpora / f"{name}.yaml").write_text(f"name: {name}\n{settings}\n")
    os.mkfifo(corpora / "f.yaml")
    (corpora / os.fsdecode(b"caf\xe9.yaml")).write_text("name: cafe\nsource: x\n")
    dags = described(corpora, airflow_env)
    assert len(dags) == len(files) + 2
    healthy = {name for name, dag in dags.items() if "publish" in dag["tasks"]}
    assert healthy == {"refresh_good", "refresh_dag"}
    assert all("broken" in dags[name]["title"] for name in dags.keys() - healthy)
    assert "{% raw %}" not in str(dags["refresh_template"]["about"]), "values of unknown keys aren't shown"


@pytest.mark.slow
def test_airflow_loads_and_keeps_the_dag_of_every_file(corpora: Path, airflow_database: dict[str, str]) -> None:
    for name in ("good", "dag", "x" * 245, "a\nb\x1b[31m", os.fsdecode(b"caf\xe9")):
        (corpora / f"{name}.yaml").write_text(f"name: {name}\nsource: x\n" if name.isalpha() else "name: [\n")
    (corpora / "escape.yaml").write_text('name: "\\e[31m"\nsource: x\n')
    loaded = described(corpora, airflow_database, _LOAD.format(folder=airflow_database["AIRFLOW__CORE__DAGS_FOLDER"]))
    assert loaded["errors"] == {}
    assert len(loaded["dags"]) == 6 + len([name for name in loaded["dags"] if name.startswith("inset_")])
    assert {"refresh_good", "refresh_dag", "refresh_escape"} <= set(loaded["dags"])


@pytest.mark.slow
def test_a_notifier_gets_the_line_of_the_error(corpora: Path, tmp_path: Path, airflow_database: dict[str, str]) -> None:
    sent = tmp_path / "sent"
    notifier = f"tests.dags.notifier.FileNotifier: {{file: {sent}, text: '{{{{ dag.dag_id }}}}: {{{{ exception }}}}'}}"
    (corpora / "pumps.yaml").write_text(f"name: pumps\nsource: ../gone\noperations: {{notify: {{{notifier}}}}}\n")
    with dag_tests(airflow_database | {"INSET_CORPORA": str(corpora)}) as dags:
        assert dags.run("refresh_pumps")["plan"] == "failed"
    (line,) = sent.read_text().splitlines()
    assert line.startswith(f"refresh_pumps: source {tmp_path / 'gone'} is not a folder")
