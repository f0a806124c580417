"""RAGAS, in its own environment, scores what an experiment wrote; a scripted model judges."""

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import endpoint_server
from tests.endpoint_server import Call

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-ragas" / "bin" / "python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.endurance,
    pytest.mark.skipif(not PYTHON.exists(), reason="RAGAS is not installed: make ragas"),
]


def judge(call: Call) -> str:
    """Reply as each of RAGAS's prompts wants; answers of 99 bar are wrong."""
    right = 0 if "It takes 99 bar" in call.prompt else 1
    if '"rating"' in call.prompt:
        return json.dumps({"rating": 4 * right})
    if '"attributed"' in call.prompt:
        return json.dumps({"classifications": [{"statement": "21 bar", "reason": "so it says", "attributed": right}]})
    if '"verdict"' not in call.prompt:
        return json.dumps({"statements": ["It takes 21 bar." if right else "It takes 99 bar."]})
    if '"statements"' in call.prompt:
        return json.dumps({"statements": [{"statement": "21 bar", "reason": "so it says", "verdict": right}]})
    return json.dumps({"reason": "so it says", "verdict": right})


def write_run(folder: Path) -> Path:
    """Write outcomes of two systems, one right and one wrong, and a system that only searches."""
    answers = {"right": "It takes 21 bar.", "wrong": "It takes 99 bar.", "search": None}
    rows = [
        {"system": system, "question_id": "1", "outcome": "{}", "answer": answer, "contexts": ["The winch takes 21 bar."]}
        for system, answer in answers.items()
    ]
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "outcomes.parquet")
    questions = folder / "questions.jsonl"
    questions.write_text(json.dumps({"id": "1", "question": "How many bar does the winch take?", "answer": "21 bar."}))
    return questions


def score(folder: Path, questions: Path, url: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "lab" / "ragas" / "score.py"
    command = [PYTHON, "-W", "ignore", script, folder, questions, "--url", url, "--model", "tiny"]
    return subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)


def test_answers_are_scored_and_a_reply_that_does_not_fit_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    questions = write_run(folder)
    with endpoint_server.running() as server:
        server.replies = judge
        process = score(folder, questions, server.url)
        assert process.returncode == 0, process.stderr
        scored = {row.pop("system"): row for row in pq.read_table(folder / "ragas.parquet").to_pylist()}
        metrics = ("faithfulness", "context_precision", "context_recall", "answer_accuracy")
        assert [scored["right"][name] for name in metrics] == pytest.approx([1.0] * 4)
        assert (scored["wrong"]["faithfulness"], scored["wrong"]["answer_accuracy"]) == (0.0, 0.0)
        assert "search" not in scored
        assert "answer_accuracy       1.000  n 1 of 1" in process.stdout
        server.replies = lambda _call: "I can't."
        process = score(folder, questions, server.url)
    assert process.returncode == 0
    assert "answer_accuracy           –  n 0 of 1" in process.stdout
    missing = score(tmp_path / "nothing", questions, "http://127.0.0.1:9/v1")
    assert missing.returncode == 1
    assert "Traceback" not in missing.stderr
