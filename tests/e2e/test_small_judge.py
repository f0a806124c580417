"""A real language model writes answers and judges them: it is too small to judge, and the report says so."""

import json
import re
from pathlib import Path

import pytest

from lab.experiment_files import find_experiment
from lab.judging.metrics import ADMITTED_AUC
from lab.run import run_experiment
from pipeline.corpus.workspace import open_workspace
from pipeline.run import refresh
from tests import small_model
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = [pytest.mark.endurance, pytest.mark.live]

JUDGED = "text_faithfulness"


def test_a_small_model_writes_and_judges_and_its_admission_fails(tmp_path: Path) -> None:
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    question = {"id": "1", "question": "How many bar does the steel winch take?", "answer": "21 bar."}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question))
    with small_model.running() as url:
        options = {"kind": "llm", "model": small_model.MODEL, "revision": "1", "max_tokens": 60}
        models = {"llm": options | {"endpoint": {"url": url, "concurrency": 1, "retries": 0, "timeout_s": 600}}}
        corpus = write_corpus(tmp_path, f"models: {json.dumps(models)}\nanswer: {{model: llm, context_chars: 3000}}\n")
        assert refresh(open_workspace(str(corpus))).published
        file = tmp_path / "small.yaml"
        file.write_text(
            json.dumps(
                {
                    "label": "A small model",
                    "corpus": str(corpus),
                    "questions": "questions.jsonl",
                    "answers": [{"presets": ["ilt"]}],
                    "judges": ["llm"],
                    "judged": [JUDGED],
                }
            )
        )
        experiment, chosen = find_experiment(str(file))
        results = run_experiment(open_workspace(chosen), experiment, tmp_path / "out", workers=1)
    (system,), (judge,) = results.systems, results.judges
    assert (system.failed, system.note) == ({}, "")
    assert (system.means["output_tokens"].mean or 0.0) > 0.0, "it wrote the answer"
    assert judge.note == ""
    (test,) = judge.admissions
    assert (test.metric, test.admitted) == (JUDGED, False)
    assert test.auc is not None
    assert test.auc < ADMITTED_AUC
    assert JUDGED not in system.means
    page_text = " ".join(re.sub(r"<[^>]*>", " ", (tmp_path / "out" / "report.html").read_text(encoding="utf-8")).split())
    assert "llm faithfulness to texts not admitted" in page_text
    assert "system faithfulness to texts answer ilt not admitted" in page_text
