"""Experiments with judges, over a published version: a scripted model writes, others judge."""

import html
import json
import math
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli import main
from lab.experiment_files import find_experiment
from lab.results import Results, SystemResult
from lab.run import run_experiment
from pipeline.corpus.workspace import Workspace, open_workspace
from schemas.errors import UserError
from schemas.stages import Report, silent
from tasks.enriching.spending import TOKEN_CHARACTERS
from tests import endpoint_server
from tests.endpoint_server import Call, EndpointServer, Reaction, status
from tests.lab.judging.scripted_judge import grade, is_known, known, right
from tests.pipeline.conftest import write_corpus

ILT, EXTRACTIVE = "answer ilt", "answer extractive"
QUESTIONS = [
    {
        "id": f"{subject} {page}",
        "question": f"How many bar does the {subject} of part {page} take?",
        "answer": f"{n}{page} bar.",
    }
    for n, subject in enumerate(("water pump", "steel winch"), 1)
    for page in (1, 2)
]
PAIRS = len(known())


@pytest.fixture
def model() -> Iterator[EndpointServer]:
    with endpoint_server.running() as server:
        server.replies = scripted
        yield server


@pytest.fixture
def folder(published: Workspace, model: EndpointServer) -> Path:
    """A folder with a published corpus, and models at the scripted endpoint: one writes, four judge."""
    options = {"kind": "llm", "revision": "1", "endpoint": {"url": model.url, "retries": 0}, "price": {"call": 1}}
    names = ("llm", "careful", "second", "lenient")
    models = {name: {**options, "model": name} for name in names} | {"seer": {**options, "kind": "vlm", "model": "seer"}}
    folder = published.file.parent.parent
    write_corpus(folder, f"models: {json.dumps(models)}\nanswer: {{model: llm}}\n")
    return folder


def scripted(call: Call) -> str | Reaction:
    """Write one sentence; judge known pairs rightly, and of the others call good what is about the winch."""
    model_name = call.json["model"]
    if model_name == "llm":
        return "It takes 21 bar [P1]."
    if model_name == "lenient":
        return grade(True)
    if is_known(call.prompt):
        return right(call.prompt, call.pictures)
    good = "steel winch" in (question_of(call) or "")
    if model_name == "second" and "of part 2" in call.prompt:
        good = not good
    return grade(good, f"{model_name} says so")


def question_of(call: Call) -> str | None:
    matched = re.search(r"(?m)^Question: (.*)", call.prompt)
    return matched and matched[1]


def written(folder: Path, **keys: object) -> Path:
    """Write an experiment file with further keys."""
    (folder / "questions.jsonl").write_text("\n".join(json.dumps(question) for question in QUESTIONS))
    holds: dict[str, object] = {
        "label": "Judged",
        "corpus": str(folder / "corpora" / "manuals.yaml"),
        "questions": "questions.jsonl",
        "answers": [{"presets": ["ilt", "extractive"]}],
        "judged": ["answer_correctness", "answer_relevancy"],
    }
    file = folder / "experiment.yaml"
    file.write_text(json.dumps(holds | keys))
    return file


def run(folder: Path, *, workers: int = 2, report: Report = silent, **keys: object) -> Results:
    experiment, corpus = find_experiment(str(written(folder, **keys)))
    return run_experiment(open_workspace(corpus), experiment, folder / "out", workers=workers, report=report)


def system(results: Results, name: str = ILT) -> SystemResult:
    return next(system_result for system_result in results.systems if system_result.system.id == name)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = pq.read_table(folder / "out" / f"{name}.parquet").to_pylist()
    return records


def page(folder: Path) -> str:
    """The words of the report."""
    text = (folder / "out" / "report.html").read_text(encoding="utf-8")
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def calls(model: EndpointServer, name: str) -> int:
    return sum(call.json["model"] == name for call in model.calls)


def test_grades_of_an_admitted_judge_are_scores(folder: Path, model: EndpointServer) -> None:
    results = run(folder, judges=["careful"])
    for metric in ("answer_correctness", "answer_relevancy"):
        estimate = system(results).means[metric]
        assert (estimate.mean, estimate.n) == (0.5, 4), "of four questions two are about the winch"
    (judge,) = results.judges
    assert [(admission.admitted, admission.auc, admission.pairs) for admission in judge.admissions] == [
        (True, 1.0, PAIRS)
    ] * 2
    assert system(results, EXTRACTIVE).against["answer_correctness"].n == 4, "judged metrics are compared as others are"
    assert {row["answer_correctness"] for row in rows(folder, "scores") if row["system"] == ILT} == {0.0, 1.0}
    graded = rows(folder, "grades")
    assert Counter(row["reason"] for row in graded) == {"careful says so": 16}
    assert "answer correctness admitted 1.00 12 pairs" in page(folder)
    prompts = [call.prompt for call in model.calls if call.json["model"] == "careful" and not is_known(call.prompt)]
    assert any(
        "Reference answer: 21 bar." in prompt and "Given answer: It takes 21 bar [P1]." in prompt for prompt in prompts
    )


def test_a_judge_that_fails_the_test_gives_no_score_and_is_not_asked_further(folder: Path, model: EndpointServer) -> None:
    results = run(folder, judges=["lenient"])
    assert results.not_admitted == ["answer_correctness", "answer_relevancy"]
    assert not {"answer_correctness", "answer_relevancy"} & system(results).means.keys()
    assert rows(folder, "grades") == []
    assert {row["answer_correctness"] for row in rows(folder, "scores")} == {None}
    assert all(is_known(call.prompt) for call in model.calls if call.json["model"] == "lenient")
    page_text = page(folder)
    assert "lenient answer correctness not admitted 0.50 12 pairs AUC 0.50 on 12 known pairs; 0.8 admits" in page_text
    assert "Judged system answer correctness answer relevancy answer ilt not admitted not admitted" in page_text


def test_of_two_judges_only_those_that_are_admitted_count(folder: Path) -> None:
    alone = run(folder, judges=["careful"])
    results = run(folder, judges=["careful", "lenient"])
    assert system(results).means == system(alone).means
    assert [(judgement.metric, judgement.judge) for judgement in system(results).judged] == [
        ("answer_correctness", "careful"),
        ("answer_relevancy", "careful"),
    ]
    assert (results.not_admitted, results.agreement) == ([], {})


def test_grades_of_a_judge_that_is_not_admitted_are_shown_with_a_mark_and_count_nowhere(folder: Path) -> None:
    alone = run(folder, judges=["careful"])
    results = run(folder, judges=["careful", "lenient"], show_unadmitted=True)
    assert system(results).means == system(alone).means
    assert {(judgement.judge, judgement.admitted) for judgement in system(results).judged} == {
        ("careful", True),
        ("lenient", False),
    }
    assert results.agreement == {}
    assert "lenient not admitted" in page(folder)


def test_parameters_of_a_paper_are_those_of_the_models_that_write(folder: Path, model: EndpointServer) -> None:
    paper = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 250}
    run(folder, judges=["careful"], parameters={"paper": paper}, use_parameters="paper")
    sent = {call.json["model"]: [call.json.get(name) for name in paper] for call in model.calls}
    assert sent["llm"] == [*paper.values()]
    assert sent["careful"][0] != paper["temperature"], "a judge keeps its own"


def test_two_judges_are_averaged_and_compared(folder: Path) -> None:
    """They differ on half of the questions, each says YES to half: chance alone."""
    results = run(folder, judges=["careful", "second"], judged=["answer_relevancy"])
    system_result = system(results)
    assert [(judgement.judge, judgement.mean.mean, judgement.mean.n) for judgement in system_result.judged] == [
        ("careful", 0.5, 4),
        ("second", 0.5, 4),
    ]
    assert sorted(row["answer_relevancy"] for row in rows(folder, "scores") if row["system"] == ILT) == [0.0, 0.5, 0.5, 1.0]
    agreed = results.agreement["answer_relevancy"]
    assert (agreed.share, agreed.kappa, agreed.n) == (0.5, 0.0, 8)
    assert "answer relevancy 0.50 kappa 0.00, n 8" in page(folder)


def test_judges_are_compared_with_people(folder: Path) -> None:
    """People agree with the judge on three of four; a label of another answer, and one of no system, count for nothing."""
    labels = [("water pump 1", "no"), ("water pump 2", "yes"), ("steel winch 1", "yes"), ("steel winch 2", "yes")]
    lines = [f"{ILT},{question},answer_relevancy,{label},It takes 21 bar." for question, label in labels]
    lines += [f"{EXTRACTIVE},water pump 1,answer_relevancy,yes,I read another answer.", "answer b,q,answer_relevancy,yes,"]
    (folder / "labels.csv").write_text("\n".join(["system,question_id,metric,label,answer", *lines]))
    results = run(folder, judges=["careful", "lenient"], labels="labels.csv")
    careful, lenient = results.judges
    agreement = careful.people["answer_relevancy"]
    assert (agreement.share, agreement.kappa, agreement.n) == (0.75, 0.5, 4)
    assert (list(careful.people), lenient.people) == (["answer_relevancy"], {})
    assert results.warnings == ["2 labels are of no outcome here: another system or question, or another answer"]
    assert "careful and people answer relevancy 0.75 kappa 0.50, n 4" in page(folder)


def test_bad_replies_are_repaired_once_and_then_null_with_the_reason(folder: Path, model: EndpointServer) -> None:
    def babbling(call: Call) -> str | Reaction:
        if call.json["model"] != "careful" or is_known(call.prompt):
            return scripted(call)
        repaired = len(call.json["messages"]) == 3
        if "water pump of part 1" in call.prompt:
            return "It is hard to say."
        return grade(True) if repaired else "{grade: perhaps"

    model.replies = babbling
    results = run(folder, judges=["careful"], answers=[{"presets": ["ilt"]}], judged=["answer_relevancy"])
    (judgement,) = system(results).judged
    assert (judgement.mean.mean, judgement.mean.n, judgement.nulls) == (1.0, 3, 1)
    assert judgement.reason == "the judge's reply has no grade: It is hard to say."
    careful_calls = [
        call for call in model.calls if call.json["model"] == "careful" and question_of(call) == QUESTIONS[0]["question"]
    ]
    assert [len(call.json["messages"]) for call in careful_calls] == [1, 3]
    assert "1 the judge's reply has no grade: It is hard to say." in page(folder)
    assert "1.000 1.000 to 1.000, n 3" in page(folder)


def test_a_judge_that_fails_midway_is_null_and_asked_again_by_the_next_run(folder: Path, model: EndpointServer) -> None:
    complete = run(folder, judges=["careful"])
    model.calls.clear()
    store = open_workspace(str(folder / "corpora" / "manuals.yaml")).store
    for cache in store.folders("replies"):
        for name in list(store.names(f"replies/{cache}")):
            store.delete(name)

    def failing(call: Call) -> str | Reaction:
        return status(503) if "water pump of part 2" in call.prompt else scripted(call)

    model.replies = failing
    broken = run(folder, judges=["careful"])
    (judgement, _) = system(broken).judged
    assert (judgement.mean.n, judgement.nulls) == (3, 1)
    assert "503" in judgement.reason
    model.replies = scripted
    model.calls.clear()
    assert run(folder, judges=["careful"]) == complete
    assert {question_of(call) for call in model.calls} == {QUESTIONS[1]["question"]}


@pytest.mark.slow
def test_a_second_run_calls_no_model_and_other_workers_change_nothing(folder: Path, model: EndpointServer) -> None:
    keys: dict[str, Any] = {"judges": ["careful", "lenient"], "judged": [], "repetitions": 2}
    first = run(folder, **keys)
    report = (folder / "out" / "report.html").read_text()
    assert calls(model, "careful") > 0
    model.calls.clear()
    assert run(folder, workers=5, **keys) == first
    assert model.calls == []
    assert (folder / "out" / "report.html").read_text() == report


def test_a_run_that_was_killed_while_judging_goes_on(folder: Path, model: EndpointServer) -> None:
    def killed(step: str, done: int, _total: int, _spent: str = "") -> None:
        if (step, done) == ("judge", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, judges=["careful"], report=killed, workers=1)
    call_count = len(model.calls)
    results = run(folder, judges=["careful"], workers=1)
    assert system(results).means["answer_relevancy"].n == 4
    requests = [json.dumps(call.json["messages"]) + call.json["model"] for call in model.calls]
    assert len(requests) > call_count
    assert len(requests) == len(set(requests)), "no reply is paid for twice"


def test_judges_spend_from_the_budget_of_the_experiment(folder: Path, model: EndpointServer) -> None:
    generation = len(QUESTIONS)
    tests = 2 * PAIRS
    within: dict[str, Any] = {
        "answers": [{"presets": ["ilt"]}],
        "judges": ["careful"],
        "judged": ["answer_relevancy"],
        "workers": 1,
    }
    results = run(folder, **within, budget={"calls": generation + tests + 1})
    (judgement,) = system(results).judged
    assert (judgement.mean.n, judgement.nulls) == (1, 3)
    assert judgement.reason.startswith("the budget of the experiment")
    assert len(model.calls) == generation + tests + 1
    results = run(folder, **within, budget={"money": 3})
    assert (system(results).judged[0].mean.n, len(model.calls)) == (4, generation + tests + 4)
    assert (results.judges[0].spent.calls, results.judges[0].spent.money) == (tests + 4, tests + 4)
    assert f"Cost, tests included: careful {tests + 4} calls" in page(folder)


def test_a_budget_of_tokens_counts_those_that_a_model_reads(folder: Path, model: EndpointServer) -> None:
    alone: dict[str, Any] = {"answers": [{"presets": ["ilt"]}], "judged": [], "workers": 1}
    run(folder, **alone)
    spent = [json.loads(row["outcome"])["spent"] for row in rows(folder, "outcomes")]
    entry = open_workspace(str(folder / "corpora" / "manuals.yaml")).corpus.models["llm"]
    largest_call = math.ceil(max(len(call.prompt) for call in model.calls) / TOKEN_CHARACTERS) + entry.max_tokens
    slack = max(record["output_tokens"] for record in spent)
    assert all(slack < record["input_tokens"] for record in spent), "what is read is the larger part"
    for name in [*folder.rglob("replies"), *folder.rglob("outcomes")]:
        shutil.rmtree(name)
    model.calls.clear()
    results = run(folder, **alone, budget={"tokens": largest_call + slack})
    assert sum(system(results).failed.values()) == len(QUESTIONS) - 1, "the tokens that the first call read leave none"
    assert len(model.calls) == 1


def test_a_judge_without_budget_for_its_test_is_not_admitted(folder: Path) -> None:
    results = run(folder, judges=["careful"], judged=["answer_relevancy"], budget={"calls": len(QUESTIONS)})
    (test,) = results.judges[0].admissions
    assert not test.admitted
    assert "24 of 24 not graded: the budget of the experiment" in test.reason


def test_a_judge_that_sees_judges_pictures_and_one_that_reads_does_not(folder: Path, model: EndpointServer) -> None:
    results = run(folder, judges=["careful", "seer"], judged=["image_context_relevancy", "evidence_relevancy"])
    careful, seer = ({graded.metric: graded for graded in judge.admissions} for judge in results.judges)
    assert [careful[name].admitted for name in careful] == [False, True]
    assert "the judge sees no pictures" in careful["image_context_relevancy"].reason
    assert [seer[name].admitted for name in seer] == [True, True]
    by_judge = {(graded.metric, graded.judge): graded for graded in system(results).judged}
    nothing_shown = by_judge["image_context_relevancy", "seer"]
    assert (nothing_shown.mean.n, nothing_shown.nulls, nothing_shown.reason) == (0, 4, "no picture was provided")
    assert not any(call.pictures for call in model.calls if call.json["model"] == "careful")


def test_a_judge_that_the_corpus_file_lacks_is_named_and_the_run_goes_on(folder: Path) -> None:
    results = run(folder, judges=["nobody"])
    assert results.judges[0].note == "needs a model nobody (set models.nobody)"
    assert system(results).means["calls"].n == 4
    assert "nobody not asked needs a model nobody" in page(folder)


def test_the_command_says_who_is_not_admitted_and_who_agrees(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "labels.csv").write_text(f"system,question_id,metric,label\n{ILT},steel winch 1,answer_relevancy,yes\n")
    file = written(folder, judges=["careful", "lenient"], judged=["answer_relevancy"], labels="labels.csv")
    monkeypatch.setattr(sys, "argv", ["inset", "evaluate", str(file), "--out", str(folder / "out")])
    with pytest.raises(SystemExit) as raised:
        main.main()
    output = capsys.readouterr().err
    assert not raised.value.code
    assert "judge lenient is not admitted to answer_relevancy: AUC 0.50 on 12 known pairs; 0.8 admits" in output
    assert "judge careful and people on answer_relevancy: 100% of 1 alike, kappa undefined" in output


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"judges": ["careful"], "judged": ["beauty"]}, "judged: there is no metric 'beauty'; use answer_correctness, "),
        ({"judges": ["a", "b", "c"]}, "judges: List should have at most 2 items"),
        ({"judges": ["careful", "careful"]}, "judges: careful stands there twice"),
        ({"labels": "labels.csv"}, "labels: there are no judges to compare with them"),
        ({"judges": ["careful"], "labels": "missing.csv"}, r"can't read .*missing\.csv: No such file"),
    ],
)
def test_a_mistake_is_one_line_before_any_call(
    folder: Path, model: EndpointServer, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(folder, **keys)
    assert model.calls == []
