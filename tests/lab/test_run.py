"""Experiments on a small corpus: what they write, what a second run repeats, and a run that is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lab.changes import Change, evaluated_before
from lab.experiment import read_experiment
from lab.experiment_files import find_experiment
from lab.results import Results
from lab.run import evaluate_version, run_experiment
from lab.statistics import Difference
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.differences import Compared, read_compared
from pipeline.run import refresh
from schemas.errors import UserError
from tests import endpoint_server
from tests.endpoint_server import Call, EndpointServer
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

QUESTIONS: list[dict[str, Any]] = [
    {"id": "1", "question": "How many bar does the steel winch take?", "doc": "winch.pdf", "pages": [1], "answer": "21"},
    {
        "id": "2",
        "question": "Which screws hold the water pump?",
        "doc": "pump.pdf",
        "pages": [1],
        "evidence_types": ["text"],
    },
    {"id": "3", "question": "Who composed the opera Tosca?", "answerable": False},
]
EXPERIMENT = """
label: Words and meaning
questions: questions.jsonl
searches: [pages, bm25]
answers: [{presets: [extractive]}, {presets: [ilt], settings: {passages: [2, 4]}}]
hypotheses: [{better: pages, worse: bm25, metric: "page_recall@10", claim: Meaning helps}]
"""


@pytest.fixture
def model() -> Iterator[EndpointServer]:
    with endpoint_server.running() as server:
        server.replies = lambda _call: "It takes 21 bar [P1]."
        yield server


@pytest.fixture
def workspace(published: Workspace, model: EndpointServer) -> Workspace:
    """The corpus with a model, and an experiment beside its folder."""
    folder = published.file.parent.parent
    write_questions(folder, QUESTIONS)
    (folder / "words.yaml").write_text(EXPERIMENT)
    options = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": model.url, "retries": 0}}
    extra = f"models: {json.dumps({'llm': options})}\nquestions: ../questions.jsonl\n"
    return open_workspace(str(write_corpus(folder, extra)))


def write_questions(folder: Path, questions: list[dict[str, Any]]) -> None:
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))


def run(workspace: Workspace, *, out: str = "out", workers: int = 1) -> Results:
    folder = workspace.file.parent.parent
    experiment, _ = find_experiment(str(folder / "words.yaml"), "manuals")
    return run_experiment(workspace, experiment, folder / out, workers=workers)


def drop_kept(workspace: Workspace) -> None:
    """Delete replies and outcomes, so that the next run begins again."""
    for name in (*workspace.store.names("replies"), *workspace.store.names("versions")):
        if name.startswith("replies/") or "/evaluation/outcomes/" in name:
            workspace.store.delete(name)


def figures(results: Results) -> dict[str, Any]:
    """Return all means but durations."""
    means = {system_result.system.id: system_result.means for system_result in results.systems}
    return {
        system: {name: value for name, value in values.items() if not name.startswith("seconds")}
        for system, values in means.items()
    }


def test_every_system_is_scored_and_an_unchanged_run_asks_no_model(workspace: Workspace, model: EndpointServer) -> None:
    first = run(workspace)
    systems = ["pages", "bm25", "answer extractive", "answer ilt passages=2", "answer ilt passages=4"]
    assert [system_result.system.id for system_result in first.systems] == systems
    assert {system_result.note for system_result in first.systems} == {""}
    means = {system_result.system.id: system_result.means for system_result in first.systems}
    assert means["pages"]["page_recall@10"].mean == 1.0
    assert means["answer extractive"]["abstained"].mean == 1.0
    assert means["answer ilt passages=2"]["abstained"].mean == 0.0  # the script answers everything
    assert len(model.calls) == 6
    assert run(workspace) == first
    assert len(model.calls) == 6
    folder = workspace.file.parent.parent / "out"
    assert pq.read_table(folder / "scores.parquet").num_rows == len(systems) * len(QUESTIONS)
    report = (folder / "report.html").read_text()
    assert "Words and meaning" in report
    assert "http" not in report


def test_order_of_questions_and_number_of_workers_change_no_figure(workspace: Workspace) -> None:
    first = run(workspace)
    write_questions(workspace.file.parent.parent, QUESTIONS[::-1])
    drop_kept(workspace)
    assert figures(run(workspace, workers=4)) == figures(first)


@pytest.mark.slow
def test_renamed_documents_change_no_figure(workspace: Workspace) -> None:
    first = run(workspace)
    folder = workspace.file.parent.parent
    (folder / "pdfs" / "winch.pdf").rename(folder / "pdfs" / "a-hoist.pdf")
    renamed = [question | ({"doc": "a-hoist.pdf"} if question.get("doc") == "winch.pdf" else {}) for question in QUESTIONS]
    assert refresh(workspace).published
    write_questions(folder, renamed)
    assert figures(run(workspace)) == figures(first)


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_report(workspace: Workspace, model: EndpointServer) -> None:
    folder = workspace.file.parent.parent
    command = [sys.executable, "-m", "cli.main", "evaluate", str(folder / "words.yaml")]
    command += ["--corpus", str(workspace.file), "--out", str(folder / "killed"), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def reply(_call: Call) -> str:
        if len(model.calls) == 4:
            os.kill(process.pid, signal.SIGKILL)
        return "It takes 21 bar [P1]."

    model.replies = reply
    assert process.wait() == -signal.SIGKILL
    assert not (folder / "killed" / "report.html").exists()
    again = run(workspace, out="killed")
    assert all(not system_result.failed for system_result in again.systems)
    assert figures(run(workspace, out="second")) == figures(again)
    drop_kept(workspace)
    assert figures(run(workspace, out="again")) == figures(again)
    assert (folder / "killed" / "report.html").exists()


def test_a_failed_call_has_no_score_and_is_tried_again(workspace: Workspace, model: EndpointServer) -> None:
    model.replies = lambda _call: endpoint_server.status(500)
    failed = {system_result.system.id: sum(system_result.failed.values()) for system_result in run(workspace).systems}
    assert failed["answer ilt passages=2"] == 3
    assert failed["pages"] == 0
    model.replies = lambda _call: "It takes 21 bar [P1]."
    assert not any(system_result.failed for system_result in run(workspace).systems)


@pytest.mark.slow
def test_what_changed_since_the_version_before_is_named(workspace: Workspace) -> None:
    folder = workspace.file.parent.parent
    questions = [{"id": str(n), "question": f"How many bar does the steel winch take? {n}", **WINCH} for n in range(12)]
    write_questions(folder, questions)
    presets = find_experiment("presets", "manuals")[0]
    first, compared = evaluate_version(workspace, presets, "live")
    assert compared is None
    (folder / "pdfs" / "winch.pdf").unlink()
    write_manual(folder / "pdfs" / "crane.pdf", "iron crane", seed=7)
    refresh(workspace)
    second, compared = evaluate_version(workspace, presets, "latest")
    assert evaluated_before(workspace.store, second.version, "presets") == first.version
    assert compared is not None
    assert any(line.startswith(f"since {first.version}: bm25: page_recall@10 -") for line in compared.worse)
    assert read_compared(workspace.store, second.version, "presets") == compared
    assert second.warnings == ["the version has no document winch.pdf, which questions ask for"]

    _, night = evaluate_version(workspace, presets, "latest", is_rerun=True)
    assert night == Compared(worse=[], better=[])
    assert read_compared(workspace.store, second.version, "presets") == compared, "what the version changed is still told"


@pytest.mark.slow
@pytest.mark.parametrize("night", [True, False])
def test_another_run_on_a_version_names_what_became_worse_and_what_doesnt_run_any_more(
    workspace: Workspace, night: bool
) -> None:
    folder = workspace.file.parent.parent
    questions = {str(n): f"How many bar does the steel winch take? {n}" for n in range(12)}
    write_questions(folder, [{"id": name, "question": text, **WINCH} for name, text in questions.items()])
    words = find_experiment(str(folder / "words.yaml"), "manuals")[0]
    first, compared = evaluate_version(workspace, words, "live", is_rerun=night)
    assert compared is None

    write_questions(folder, [{"id": name, "question": "Which opera?", **WINCH, "pages": [9]} for name in questions])
    without = open_workspace(str(write_corpus(folder, "questions: ../questions.jsonl\n")))
    second, compared = evaluate_version(without, words, "live", is_rerun=night)
    assert second.version == first.version
    assert compared is not None
    assert read_compared(without.store, second.version, "words") == compared
    lost = [line for line in compared.worse if "doesn't run any more: " in line]
    assert [line.partition(" doesn't")[0] for line in lost] == [
        "since its last report: answer ilt passages=2",
        "since its last report: answer ilt passages=4",
    ]
    assert any(line.startswith("since its last report: pages: page_recall@10 -1.000") for line in compared.worse)
    assert [line.partition(" -")[0] for line in compared.better] == [
        "since its last report: answer extractive: false_figure"
    ]


def test_more_of_what_should_be_less_is_worse() -> None:
    increase, less = (Difference(mean=mean, low=mean, high=mean, n=12, p=0.01) for mean in (0.5, -0.5))
    assert [Change("ilt", "false_figure", difference).worse for difference in (increase, less)] == [True, False]
    assert [Change("ilt", "page_recall@10", difference).worse for difference in (increase, less)] == [False, True]


def test_results_are_given_by_the_type_of_the_documents(workspace: Workspace) -> None:
    file = workspace.file
    file.write_text(f"{file.read_text()}doc_types: {{'win*': hoist, '*': machine}}\n")
    kinds = run(open_workspace(str(file))).systems[0].kinds
    assert {name: means["page_recall@10"].n for name, means in kinds.items() if name.startswith("documents: ")} == {
        "documents: hoist": 1,
        "documents: machine": 1,
    }


def test_the_numbers_of_settings_stay_numbers() -> None:
    grid = {"presets": ["ilt"], "settings": {"max_images": [1, 0], "retrieval": ["pages"]}}
    systems = read_experiment("grid.yaml", {"label": "x", "answers": [grid]}).systems
    assert [repr(system.settings["max_images"]) for system in systems] == ["1", "0"]
    assert systems[0].id == "answer ilt max_images=1 retrieval=pages"


WINCH: dict[str, Any] = {"doc": "winch.pdf", "pages": [1]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("label: x\n", "it names no presets"),
        ("label: x\nsearches: [pages]\nbaseline: dense\n", "there is no system 'dense'; they are pages"),
        ("label: x\nanswers: [{presets: [extractive], settings: {depth: [1]}}]\n", "there is no 'depth'"),
        ("label: x\nanswers: [{presets: [ilt], settings: {rounds: [1, 0]}}]\n", "answers.settings.rounds: "),
        ("label: x\nsearch: [pages]\n", "search: "),
    ],
)
def test_a_wrong_experiment_file_is_refused_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    with pytest.raises(UserError, match=r"wrong\.yaml") as caught:
        find_experiment(str(tmp_path / "wrong.yaml"), "manuals")
    assert says in caught.value.message
