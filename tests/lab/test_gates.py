"""Gates on metrics of a corpus's experiment: a version goes live only if they hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.run import refresh
from pipeline.stages.plan import plan
from schemas.errors import UserError
from schemas.reports import RefreshResult
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

QUESTIONS = [
    {"id": "1", "question": "How many bar does the steel winch take?", "doc": "winch.pdf", "pages": [1]},
    {"id": "2", "question": "Which screws hold the steel winch?", "doc": "winch.pdf", "pages": [9]},
]
EXPERIMENT = "label: Ours\nsearches: [bm25]\nanswers: [{presets: [ilt]}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    (tmp_path / "ours.yaml").write_text(EXPERIMENT)
    return tmp_path


def corpus(folder: Path, *gates: dict[str, Any]) -> Workspace:
    extra = f"questions: ../questions.jsonl\nexperiment: ../ours.yaml\ngates: {json.dumps({'metrics': gates})}\n"
    return open_workspace(str(write_corpus(folder, extra)))


def refused(result: RefreshResult) -> list[tuple[str, float | None]]:
    assert not result.published
    return [(gate.gate, gate.value) for gate in result.gates if not gate.passed]


def test_a_version_below_a_metric_is_refused_and_built_again_by_another_bound(folder: Path) -> None:
    gate = {"system": "bm25", "metric": "page_recall@10"}
    first = refresh(corpus(folder, gate | {"min": 0.9}))
    assert refused(first) == [("experiment: page_recall@10 of bm25, at least", 0.5)]
    assert refresh(corpus(folder, gate | {"min": 0.9})).version == first.version
    assert refused(refresh(corpus(folder, gate | {"min": 0.8}))) == refused(first)
    assert refresh(corpus(folder, gate | {"min": 0.5})).published


@pytest.mark.slow
def test_a_metric_without_a_value_refuses_and_says_why(folder: Path) -> None:
    gate = {"system": "answer ilt", "metric": "false_figure", "max": 0.2}
    first = refresh(corpus(folder, gate))
    assert refused(first) == [("experiment: false_figure of answer ilt, at most", None)]
    assert "it has no value: needs a model llm (set " in first.gates[-1].message
    assert refused(refresh(corpus(folder, gate))) == refused(first), "it is judged again, since a model may answer now"
    assert refresh(corpus(folder)).published, "the corpus file has no such gate any more"


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ({"system": "dense", "metric": "page_recall@10", "min": 0.5}, "has no system 'dense'; use bm25, answer ilt"),
        ({"system": "bm25", "metric": "recall", "min": 0.5}, "there is no metric 'recall'; use document_precision, "),
        ({"system": "bm25", "metric": "page_recall@10"}, "set min or max"),
    ],
)
def test_a_wrong_gate_is_refused_before_anything_is_done(folder: Path, gate: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        plan(corpus(folder, gate), "run")
    assert says in caught.value.message
    assert "gates.metrics" in caught.value.message
