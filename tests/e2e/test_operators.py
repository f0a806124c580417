"""Scheduled refreshes as operators see them: on a real Airflow, with its UI in a real browser."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from pipeline.corpus.schedules import corpus_schedules
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.operations.health import corpora_health
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.differences import stored_name
from pipeline.records.lease import LEASE
from pipeline.records.publication import read_events, read_pointer
from pipeline.records.states import State
from pipeline.run import refresh
from schemas.retrieval import Query
from schemas.versions import Lease
from tests.airflow_server import EVERY_PART, RUN_WITHIN_S, Airflow, running
from tests.browser import CHROMIUM, Browser
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH"),
]

DAG = "dags/refresh_manuals"
FRAME = "document.querySelector('iframe').contentDocument"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A corpus of two manuals that is refreshed once it is unpaused, and evaluated again in half a day."""
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    question = {"id": "1", "question": "Which screws hold the steel winch?", "doc": "winch.pdf", "pages": [1]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question))
    operations = f"operations: {{nightly_h: {(datetime.now(UTC).hour + 12) % 24}}}"
    return open_workspace(str(write_corpus(tmp_path, f'schedule: "@once"\nquestions: ../questions.jsonl\n{operations}\n')))


@pytest.fixture
def airflow(workspace: Workspace, tmp_path: Path) -> Iterator[Airflow]:
    """Airflow with all its parts."""
    with running(tmp_path, parts=EVERY_PART) as running_airflow:
        yield running_airflow


def _live(workspace: Workspace) -> str | None:
    pointer = read_pointer(workspace.store)
    return pointer.version if pointer else None


def _run(airflow: Airflow) -> str:
    """Start a run; return its path."""
    return f"{DAG}/dagRuns/{airflow.call(f'{DAG}/dagRuns', {'logical_date': None})['dag_run_id']}"


def _succeeds(airflow: Airflow, run: str) -> None:
    assert airflow.ended(run) == "success", airflow.failures(run)


def _asks(airflow: Airflow, run: str, task: str = "approve") -> str:
    """Return the path of a run's question once a task asks it.

    Airflow 3.3 fails a task whose answer comes before the scheduler has noticed that the process which asked ended (its issues
    67287 and 72716). A person isn't that quick, so the test waits for the scheduler's line.
    """
    asking = f"{run}/taskInstances/{task}"
    wait_for(lambda: airflow.call(asking)["state"] in ("deferred", "awaiting_input"), within_s=RUN_WITHIN_S)
    of = f"dag_id=refresh_manuals, task_id={task}, run_id={run.rpartition('/')[2]}, map_index=-1"
    noticed = f"TaskInstance Finished: {of}, ti_id={airflow.call(asking)['id']}"  # of this try
    wait_for(lambda: noticed in airflow.log())
    return f"{asking}/-1/hitlDetails"


def _reject(airflow: Airflow, run: str) -> None:
    airflow.call(_asks(airflow, run), {"chosen_options": ["Reject"], "params_input": {"reason": ""}}, "PATCH")
    assert airflow.ended(run) == "failed"


def _a_lost_source_is_named_and_tried_again(airflow: Airflow, folder: Path) -> None:
    (folder / "pdfs").rename(folder / "away")
    run = _run(airflow)
    wait_for(lambda: airflow.call(f"{run}/taskInstances/plan")["state"] == "up_for_retry", within_s=RUN_WITHIN_S)
    with Browser(folder / "reader") as browser:
        airflow.log_in(browser, "ada")
        browser.open(f"{airflow.address}/{DAG}/runs/{quote(run.rpartition('/')[2])}/plugin/inset_run")
        reason = f"{FRAME}.querySelector('[data-outcome=running] [data-reason]').textContent"
        assert "pdfs" in browser.until(f"{reason}.startsWith('plan is tried again soon (2 of 13): ') && {reason}")
    (folder / "away").rename(folder / "pdfs")
    _succeeds(airflow, run)


def test_schedule_refusal_approval_and_rollback_by_the_button(
    airflow: Airflow, workspace: Workspace, tmp_path: Path
) -> None:
    airflow.call(DAG, {"is_paused": False}, "PATCH")
    (scheduled,) = wait_for(lambda: airflow.call(f"{DAG}/dagRuns")["dag_runs"])
    _succeeds(airflow, f"{DAG}/dagRuns/{scheduled['dag_run_id']}")
    first = _live(workspace)
    assert first is not None
    evaluations = "dags/inset_evaluate/dagRuns"
    (evaluation,) = wait_for(lambda: airflow.call(evaluations)["dag_runs"])
    assert evaluation["run_type"] == "asset_triggered"
    _succeeds(airflow, f"{evaluations}/{evaluation['dag_run_id']}")
    assert workspace.store.exists(stored_name(first, "presets", "report.html"))
    airflow.call("dags/inset_evaluate", {"is_paused": True}, "PATCH")  # a task that runs at the end would hold Airflow up

    _a_lost_source_is_named_and_tried_again(airflow, tmp_path)

    (tmp_path / "pdfs" / "page.pdf").write_text("<html>moved</html>")
    run = _run(airflow)
    _reject(airflow, run)
    again = {"dag_run_id": run.rpartition("/")[2], "task_ids": ["approve"], "include_downstream": True, "dry_run": False}
    airflow.call(f"{DAG}/clearTaskInstances", again | {"only_failed": False})
    question = airflow.call(_asks(airflow, run))
    assert "a gate refuses it" in question["subject"].lower()
    assert "quarantine ceiling" in question["body"]
    assert question["response_received"] is False, "a further try asks again"
    lease = Lease.model_validate_json((workspace.store.read_mutable(LEASE) or (b"",))[0])
    assert lease.run_id == "", "nobody else waits for the person"
    assert _live(workspace) == first
    answer = {"chosen_options": ["Approve"], "params_input": {"reason": "that page is known"}}
    airflow.call(_asks(airflow, run), answer, "PATCH")
    _succeeds(airflow, run)
    second = _live(workspace)
    assert second != first
    (event,) = read_events(workspace.store, 1)
    assert (event.reason, event.by, event.to_version) == ("that page is known", "ada", second)
    published = PublishedCorpus(workspace)
    try:
        assert published.search(Query("steel winch screws")).version == second
    finally:
        published.close()

    (tmp_path / "pdfs" / "more.pdf").write_text("<html>moved</html>")
    run = _run(airflow)
    _reject(airflow, run)
    airflow.call(f"{run}/taskInstances/publish", {"new_state": "success"}, "PATCH")
    wait_for(lambda: airflow.call(f"{run}/taskInstances/confirm")["state"] == "failed")
    assert airflow.ended(run) == "failed", "marked as success, but not live"
    assert _live(workspace) == second

    with Browser(tmp_path / "profile") as browser:
        airflow.log_in(browser, "ada")
        browser.open(f"{airflow.address}/{DAG}/plugin/inset_corpus")
        button = browser.until(f"{FRAME}.querySelector('[data-open=roll_back]') && 'there'")
        assert button == "there"
        browser.run(f"{FRAME}.querySelector('[data-open=roll_back]').click()")
        opened = f"{FRAME}.querySelector('dialog[open]')"
        browser.run(f"{opened}.querySelector('textarea').value = 'wrong screws'")
        browser.run(f"{opened}.querySelector('[type=submit]').click()")
        # The asset is updated once the task has ended.
        newest = "assets/events?order_by=-timestamp"
        wait_for(lambda: airflow.call(newest)["asset_events"][0]["extra"]["version"] == first)
    assert _live(workspace) == first
    (event,) = read_events(workspace.store, 1)
    assert (event.action, event.reason, event.by) == ("rollback", "wrong screws", "ada")


def _started(airflow: Airflow, dag: str, **conf: object) -> None:
    """Run a DAG that a page starts."""
    run = airflow.call(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": {"corpus": "manuals", **conf}})
    _succeeds(airflow, f"dags/{dag}/dagRuns/{run['dag_run_id']}")


def _end_of_log(airflow: Airflow, run: str, task: str) -> str:
    return str(airflow.call(f"{run}/taskInstances/{task}/logs/1?map_index=-1&full_content=true")["content"])


def test_a_question_ends_by_itself_once_it_is_decided_elsewhere(
    airflow: Airflow, workspace: Workspace, tmp_path: Path
) -> None:
    airflow.call("dags/inset_evaluate", {"is_paused": True}, "PATCH")  # it would hold Airflow up
    assert refresh(workspace).published
    first = _live(workspace)
    airflow.call(DAG, {"is_paused": False}, "PATCH")
    (scheduled,) = wait_for(lambda: airflow.call(f"{DAG}/dagRuns")["dag_runs"])
    _succeeds(airflow, f"{DAG}/dagRuns/{scheduled['dag_run_id']}")

    (tmp_path / "pdfs" / "page.pdf").write_text("<html>moved</html>")
    run = _run(airflow)
    question = _asks(airflow, run)
    version = airflow.call(question)["subject"].split()[1]
    _started(airflow, "inset_publish", version=version, override=True, reason="that page is known")
    _succeeds(airflow, run)
    assert _live(workspace) == version
    assert f"{version} is live: override by ada at" in _end_of_log(airflow, run, "publish")
    answered = airflow.call(question)
    assert answered["response_received"], "nobody is asked any more"
    assert answered["responded_by_user"] is None
    assert "override by ada" in answered["params_input"]["reason"]
    assert airflow.call(f"{run}/taskInstances/confirm")["state"] == "success"

    (tmp_path / "pdfs" / "more.pdf").write_text("<html>moved</html>")
    run = _run(airflow)
    question = _asks(airflow, run)
    _started(airflow, "inset_roll_back", version=first, reason="wrong screws")
    _succeeds(airflow, run)
    assert airflow.call(question)["response_received"]
    assert airflow.call(f"{run}/taskInstances/publish")["state"] == "skipped"
    assert "rollback by ada" in _end_of_log(airflow, run, "publish")
    assert _live(workspace) == first


def test_a_dear_plan_asks_before_it_is_carried_out_and_a_stopped_run_fails(
    airflow: Airflow, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    airflow.call("dags/inset_evaluate", {"is_paused": True}, "PATCH")  # it would hold Airflow up
    write_corpus(tmp_path, "budget: {approve_above: {minutes: 0}}\n")
    airflow.call(DAG, {"is_paused": False}, "PATCH")
    (scheduled,) = wait_for(lambda: airflow.call(f"{DAG}/dagRuns")["dag_runs"])
    run = f"{DAG}/dagRuns/{scheduled['dag_run_id']}"
    question = _asks(airflow, run, "approve_plan")
    assert "budget.approve_above.minutes is 0" in airflow.call(question)["body"]
    lease = Lease.model_validate_json((workspace.store.read_mutable(LEASE) or (b"",))[0])
    assert lease.run_id == "", "nobody else waits for the person"
    assert airflow.call(f"{run}/taskInstances/parse")["state"] is None
    (health,) = corpora_health(corpus_schedules())
    assert health.state is State.WAITING
    address = f"dags/refresh_manuals/runs/{quote(scheduled['dag_run_id'])}/tasks/approve_plan/required_actions"
    assert health.question == address
    airflow.call(question, {"chosen_options": ["Reject"], "params_input": {"reason": "after the holidays"}}, "PATCH")
    assert airflow.ended(run) == "failed"
    assert _live(workspace) is None
    (event,) = read_events(workspace.store, 1)
    assert (event.action, event.reason, event.by) == ("reject", "after the holidays", "ada")

    run = _run(airflow)
    answer = {"chosen_options": ["Approve"], "params_input": {"reason": ""}}
    airflow.call(_asks(airflow, run, "approve_plan"), answer, "PATCH")
    _succeeds(airflow, run)
    assert _live(workspace) is not None

    write_corpus(tmp_path)  # without a budget
    (tmp_path / "pdfs").rename(tmp_path / "away")
    run = _run(airflow)
    wait_for(lambda: airflow.call(f"{run}/taskInstances/plan")["state"] == "up_for_retry", within_s=RUN_WITHIN_S)
    (health,) = corpora_health(corpus_schedules())
    assert health.state is State.RETRYING
    assert "plan is tried again, 2 of 13: " in health.problems[0]
    with Browser(tmp_path / "profile") as browser:
        airflow.log_in(browser, "ada")
        browser.open(f"{airflow.address}/{DAG}/plugin/inset_corpus")
        browser.until(f"{FRAME}.querySelector('[data-open=stop]')  && 'there'")
        browser.run(f"{FRAME}.querySelector('[data-open=stop]').click()")
        opened = f"{FRAME}.querySelector('dialog[open]')"
        browser.run(f"{opened}.querySelector('textarea').value = 'the source is away'")
        browser.run(f"{opened}.querySelector('[type=submit]').click()")
        assert airflow.ended(run) == "failed", "Airflow skips a task that was to be tried again"
    (health,) = corpora_health(corpus_schedules())
    assert (health.state, health.refreshing) == (State.UNFINISHED, None)
    assert "somebody stopped the run" in health.problems[0]
