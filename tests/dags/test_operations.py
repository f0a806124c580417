"""The DAGs that operators start, and the watch, on a real Airflow."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.dag import has_moved
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.operations.corrections import LiveDocument
from pipeline.records.corrections import read_stored_corrections
from pipeline.records.differences import stored_name
from pipeline.records.feedback import add_feedback, decided
from pipeline.records.ledger import read_forgotten
from pipeline.records.publication import read_events, read_pointer
from pipeline.run import refresh
from schemas.corrections import CorrectionKind
from schemas.feedback import Feedback
from tests.dags.airflow_runs import DagTests, dag_tests, events
from tests.dags.test_refresh import described
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

MOVES = {
    "inset_correct",
    "inset_feedback",
    "inset_forget",
    "inset_plan",
    "inset_prune",
    "inset_publish",
    "inset_roll_back",
}

_DESCRIBE = """
import json
from dags import installed, operations
from airflow.sdk import DAG
print(json.dumps({
    dag.dag_id: {"tasks": sorted(dag.task_ids), "corpora": dag.params.get_param("corpus").schema["enum"]}
    for dag in {**vars(operations), **vars(installed)}.values() if isinstance(dag, DAG) and "corpus" in dag.params
}))
"""


def test_operators_choose_among_the_corpora_that_work(tmp_path: Path, airflow_env: dict[str, str]) -> None:
    (tmp_path / "corpora").mkdir()
    for name, text in {"pumps": "source: x", "winches": "source: x", "broken": "sourc: x"}.items():
        (tmp_path / "corpora" / f"{name}.yaml").write_text(f"name: {name}\n{text}\n")
    dags = described(tmp_path / "corpora", airflow_env, _DESCRIBE)
    assert sorted(dags) == [
        *(
            "inset_correct",
            "inset_evaluate",
            "inset_feedback",
            "inset_forget",
            "inset_plan",
            "inset_prune",
            "inset_publish",
        ),
        "inset_roll_back",
    ]
    moves = ("inset_publish", "inset_roll_back")
    assert {tuple(dag["corpora"]) for name, dag in dags.items() if name not in moves} == {("pumps", "winches")}
    assert {tuple(dags[name]["corpora"]) for name in moves} == {("broken", "pumps", "winches")}, "what is live can be moved"


_SCHEDULE = """
import json
from dags import installed
dag = installed.inset_evaluate
made = dag.timetable
print(json.dumps({
    "cron": getattr(getattr(made, "timetable", None), "expression", None),
    "assets": sorted(asset.uri for asset in made.asset_condition.objects),
    "start": str(dag.start_date),
}))
"""


@pytest.mark.slow
def test_evaluations_start_when_a_version_goes_live_and_at_night(tmp_path: Path, airflow_env: dict[str, str]) -> None:
    (tmp_path / "pumps.yaml").write_text("name: pumps\nsource: x\n")
    (tmp_path / "winches.yaml").write_text("name: winches\nsource: x\n")
    for hour, cron in ((None, "0 3 * * *"), ("22", "0 22 * * *")):
        schedule = described(tmp_path, airflow_env | ({"INSET_EVALUATE_HOUR": hour} if hour else {}), _SCHEDULE)
        assert schedule["assets"] == ["inset://pumps/", "inset://winches/"]
        assert (schedule["cron"], schedule["start"]) == (cron, "None")


def test_a_version_that_is_confirmed_after_it_went_live_has_not_moved() -> None:
    def event(minute: int, version: str | None) -> SimpleNamespace:
        extra = {} if version is None else {"version": version}
        return SimpleNamespace(timestamp=datetime(2026, 1, 1, 0, minute, tzinfo=UTC), extra=extra)

    first, published, confirmed, back = event(0, "a"), event(1, "b"), event(2, "b"), event(3, "a")
    history = [first, published, confirmed, back]
    assert has_moved([first], history)
    assert has_moved([published], history)
    assert has_moved([confirmed, published], history), "both started one run"
    assert not has_moved([confirmed], history)
    assert has_moved([back], history)
    by_hand = event(4, None)
    assert has_moved([by_hand], [*history, by_hand])
    assert has_moved([event(5, "a")], [*history, by_hand])


_APPLY = """
import json
from dags import operations
dag = getattr(operations, "inset_access", None)
print(json.dumps(dag and [dag.timetable.expression, [task.python_callable() for task in dag.tasks]]))
"""


@pytest.mark.slow
def test_rights_are_applied_each_minute(tmp_path: Path, airflow_env: dict[str, str]) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    corpus = write_corpus(tmp_path)
    assert described(corpus.parent, airflow_env, _APPLY) is None, "there are no rights"
    write_corpus(tmp_path, "access: {table: access.csv}\n")
    table, workspace = corpus.parent / "access.csv", open_workspace(str(corpus))
    table.write_text("source,principals\n*,group:service\n")
    refresh(workspace)
    assert described(corpus.parent, airflow_env, _APPLY) == ["* * * * *", [{"manuals": 0}]]
    table.write_text("source,principals\n*,group:sales\n")
    assert described(corpus.parent, airflow_env, _APPLY) == ["* * * * *", [{"manuals": 1}]]
    assert read_events(workspace.store, 1)[0].by == "inset_access"


_FIVE_TIMES = """
import json, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from airflow.sdk import DAG
from dags import operations
start, told, states = datetime.now(UTC), Path(sys.argv[1]), {}
for dag in [dag for dag in vars(operations).values() if isinstance(dag, DAG) and type(dag.timetable).__name__ != 'NullTimetable']:
    for number in range(5):
        if number == 2:
            told.mkdir()
        run = dag.test(logical_date=start + timedelta(minutes=15 * number))
        lines = (told / "told").read_text().splitlines() if told.exists() else []
        tasks = {task.task_id: str(task.state) for task in run.get_task_instances()}
        states.setdefault(dag.dag_id, []).append([tasks, lines])
print(json.dumps(states))
"""


@pytest.mark.slow
def test_scheduled_operations_run_again_and_again_and_tell_of_each_state_once(
    tmp_path: Path, airflow_database: dict[str, str]
) -> None:
    corpora, folder = tmp_path / "corpora", tmp_path / "mailbox"
    corpora.mkdir()
    to = f"tests.dags.notifier.FileNotifier: {{file: {folder / 'told'}, text: '{{{{ message }}}}'}}"
    (corpora / "pumps.yaml").write_text(f"name: pumps\nsourc: x\noperations: {{notify: {{{to}}}}}\n")
    (corpora / "winches.yaml").write_text("name: winches\nsource: x\noperations: {notify: {plugins.notify.Webhok: {}}}\n")
    env = airflow_database | {"INSET_CORPORA": str(corpora)}
    command = [sys.executable, "-W", "ignore", "-c", _FIVE_TIMES, str(folder)]
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    (runs,) = json.loads(process.stdout.splitlines()[-1]).values()
    assert [tasks for tasks, _ in runs] == 5 * [{"watch": "failed", "update_assets": "success"}], "somebody is needed"
    assert [len(lines) for _, lines in runs] == [0, 0, 2, 2, 2], "told again until somebody could be told, and once then"
    pumps, winches = runs[-1][1]
    assert pumps.startswith("pumps: broken: ")
    assert "operations.notify: plugins.notify.Webhok can't be made: " in winches


def _ask(file: Path, question: str, page: int) -> None:
    """Write a file of questions: enough of them that a change isn't chance."""
    questions = [{"id": str(n), "question": f"{question} {n}", "doc": "winch.pdf", "pages": [page]} for n in range(12)]
    file.write_text("\n".join(map(json.dumps, questions)))


@pytest.mark.slow
def test_versions_are_rolled_back_and_published_with_person_and_reason(
    tmp_path: Path, airflow_database: dict[str, str]
) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    _ask(tmp_path / "q.jsonl", "Which screws hold the steel winch?", 1)
    corpus = write_corpus(tmp_path, "questions: ../q.jsonl\n")
    workspace = open_workspace(str(corpus))
    first = refresh(workspace).version
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    second = refresh(workspace).version
    assert second is not None
    env = airflow_database | {"INSET_CORPORA": str(corpus.parent)}
    with dag_tests(env) as dags:
        assert dags.run("inset_roll_back", {"corpus": "manuals", "reason": "wrong screws"}) == {"roll_back": "success"}
        pointer = read_pointer(workspace.store)
        assert pointer is not None
        assert (pointer.version, pointer.held) == (first, True)
        (event,) = read_events(workspace.store, 1)
        assert (event.reason, event.by, event.to_version) == ("wrong screws", "dag_test", first)

        published = dags.run("inset_publish", {"corpus": "manuals", "version": second, "reason": "screws are right"})
        assert published == {"publish": "success"}, dags.output
        assert events(env) == [("inset://manuals/", first), ("inset://manuals/", second)]

        _evaluations_tell_what_became_worse(dags, workspace, corpus, second)

        _readers_word_is_decided_on(dags, workspace)
        _a_caption_is_corrected(dags, workspace)

        refresh(workspace)
        assert dags.run("inset_watch") == {"watch": "success", "update_assets": "success"}

        forgotten = {"corpus": "manuals", "source": "pump.pdf", "reason": "withdrawn", "confirm": "pump"}
        for dry_run, outcome in ((True, "success"), (False, "failed")):
            assert dags.run("inset_forget", forgotten | {"dry_run": dry_run}) == {"forget": outcome}
            assert read_forgotten(workspace.store).documents == []
        dags.run("inset_forget", forgotten | {"dry_run": False, "confirm": "pump.pdf"})
    (document,) = read_forgotten(workspace.store).documents
    assert (document.by, document.reason) == ("dag_test", "withdrawn")


def _readers_word_is_decided_on(dags: DagTests, workspace: Workspace) -> None:
    entry = Feedback(at=datetime.now(UTC), version="a", question="What holds the winch?", helpful=False)
    add_feedback(workspace.store, entry)
    parameters = {"corpus": "manuals", "entry": entry.id, "reason": "readers ask it"}
    assert dags.run("inset_feedback", {**parameters, "decision": "question"}) == {"feedback": "failed"}
    assert "the reader names no document" in dags.output
    answered = {**parameters, "decision": "question", "source": "winch.pdf", "page": 1}
    assert dags.run("inset_feedback", answered) == {"feedback": "success"}
    decision = decided(workspace.store)[entry.id]
    assert decision.region is not None
    assert (decision.by, decision.region.page, decision.reason) == ("dag_test", 1, "readers ask it")
    assert dags.run("inset_feedback", {**parameters, "decision": "undo"}) == {"feedback": "success"}
    assert decided(workspace.store) == {}


def _a_caption_is_corrected(dags: DagTests, workspace: Workspace) -> None:
    document = LiveDocument(workspace.store, "manuals", "winch.pdf")
    part = next(part for part in document.parts(1).parts if CorrectionKind.CAPTION in part.kinds)
    parameters = {"corpus": "manuals", "source": "winch.pdf", "page": 1, "part": part.name}
    assert dags.run("inset_correct", {**parameters, "kind": "caption", "value": "The drum"}) == {"correct": "success"}
    (correction,) = read_stored_corrections(workspace.store)
    assert (correction.by, correction.value) == ("dag_test", "The drum")
    assert dags.run("inset_correct", {"corpus": "manuals", "undo": correction.id}) == {"correct": "success"}
    assert read_stored_corrections(workspace.store)[0].undone


def _evaluations_tell_what_became_worse(dags: DagTests, workspace: Workspace, corpus: Path, version: str) -> None:
    pumps_file = corpus.with_name("pumps.yaml")  # has no version, so that an evaluation of it fails
    pumps_file.write_text("name: pumps\nsource: ../pdfs\nquestions: ../q.jsonl\n")
    assert dags.run("inset_evaluate", {"corpus": "manuals"}) == {"corpora": "success", "evaluate": "success"}, dags.output
    assert workspace.store.exists(stored_name(version, "presets", "report.html"))
    pumps_file.unlink()

    _ask(corpus.parent.parent / "q.jsonl", "Who composed the opera Tosca?", 9)
    assert dags.run("inset_evaluate", {"corpus": "manuals"}) == {"corpora": "success", "evaluate": "failed"}
    assert "manuals became worse: since its last report: " in dags.output
