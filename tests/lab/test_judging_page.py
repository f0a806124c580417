"""Pool what an experiment retrieved, judge it on the page, and make the judgements gold evidence."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cli import main
from evaluation.questions import load_questions
from lab.judging_page.app import create_judging_app
from pipeline.corpus.workspace import Workspace
from pipeline.published.corpus import PublishedCorpus
from tests import endpoint_server
from tests.browser import CHROMIUM, Browser
from tests.pipeline.conftest import published, refreshed_once, write_corpus
from tests.query_service.live import serving
from tests.query_service.test_accessibility import FOUND

__all__ = ["published", "refreshed_once"]

QUESTION = {
    "id": "1",
    "question": "How many bar does the steel winch take?",
    "doc": "winch.pdf",
    "pages": [1],
    "answer": "21",
}


def inset(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["inset", *map(str, arguments)])
    with pytest.raises(SystemExit) as raised:
        main.main()
    return int(raised.value.code or 0)


@pytest.fixture
def pooled(published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pool of two systems for one question, three rows each."""
    questions, run = tmp_path / "questions.jsonl", tmp_path / "run"
    questions.write_text(json.dumps(QUESTION))
    (tmp_path / "two.yaml").write_text("label: Two\nquestions: questions.jsonl\nsearches: [bm25, dense]\n")
    assert inset(monkeypatch, "evaluate", tmp_path / "two.yaml", "--corpus", published.file, "--out", run) == 0
    pool = tmp_path / "pool.jsonl"
    assert inset(monkeypatch, "questions", "pool", run, "--questions", questions, "--depth", "3", "--out", pool) == 0
    return pool


@pytest.fixture
def answers(published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The answer of one system to one question, with figures."""
    question = QUESTION | {"question": "Which figure shows the steel winch?", "doc_types": ["hoist"]}
    questions, run, answers = tmp_path / "hoist.jsonl", tmp_path / "answered", tmp_path / "answers.jsonl"
    questions.write_text(json.dumps(question))
    (tmp_path / "one.yaml").write_text("label: One\nquestions: hoist.jsonl\nanswers: [{presets: [extractive]}]\n")
    assert inset(monkeypatch, "evaluate", tmp_path / "one.yaml", "--corpus", published.file, "--out", run) == 0
    pool = ("questions", "pool", run, "--questions", questions, "--answers", "--out", answers)
    assert inset(monkeypatch, *pool) == 0
    return answers


@pytest.fixture
def corpus(published: Workspace) -> Iterator[PublishedCorpus]:
    with closing(PublishedCorpus(published)) as opened:
        yield opened


def client(corpus: PublishedCorpus, pooled: Path, person: str) -> TestClient:
    return TestClient(create_judging_app(corpus, pooled, person), base_url="http://localhost")


def test_judgements_are_kept_and_become_gold_evidence(
    corpus: PublishedCorpus, pooled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions, out = pooled.with_name("questions.jsonl"), pooled.with_name("judged.jsonl")
    assert inset(monkeypatch, "questions", "qrels", pooled, "--questions", questions) == 2
    assert "nobody has judged" in capsys.readouterr().err
    anna = client(corpus, pooled, "anna")
    first = anna.get("/rows/-1").json()
    assert first["grade"] is None
    assert "ranks" not in first, "who found it would sway the judgement"
    for index in range(first["rows"]):
        winch = anna.get(f"/rows/{index}").json()["source"] == "winch.pdf"
        assert anna.post("/grades", json={"place": index, "grade": int(winch)}).status_code == 200
    again = client(corpus, pooled, "anna").get("/rows/0").json()
    assert again["judged"] == again["rows"] == first["rows"]
    client(corpus, pooled, "ben").post("/grades", json={"place": 0, "grade": 1 - again["grade"]})
    assert inset(monkeypatch, "questions", "qrels", pooled, "--questions", questions, "--out", out) == 0
    printed = "".join(capsys.readouterr())
    assert "anna and ben: 0% of 1 alike" in printed
    assert "1 rows are judged differently" in printed
    (judged,) = load_questions(str(out))
    assert len(judged.evidence) == first["rows"] - 1
    assert 1 in judged.evidence.values()


def test_a_model_judges_a_pool_and_is_named_as_a_model(
    published: Workspace, pooled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions, judge = pooled.with_name("questions.jsonl"), ("questions", "judge", pooled, "--corpus", published.file)
    assert inset(monkeypatch, *judge, "--model", "llm") == 2
    assert "there is no generative model llm" in capsys.readouterr().err
    with endpoint_server.running() as server:
        server.replies = lambda call: json.dumps({"grade": "YES" if "winch.pdf" in call.prompt else "NO"})
        options = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": server.url, "retries": 0}}
        write_corpus(published.file.parent.parent, f"models: {json.dumps({'llm': options})}\n")
        assert inset(monkeypatch, *judge, "--model", "llm") == 0
    assert all(row["is_model"] for row in map(json.loads, pooled.with_name("pool.llm.jsonl").read_text().splitlines()))
    assert inset(monkeypatch, "questions", "qrels", pooled, "--questions", questions, "--out", pooled.with_name("out")) == 0
    assert "rows are judged by models alone" in "".join(capsys.readouterr())


def test_whole_answers_are_judged_with_their_figures(
    published: Workspace,
    corpus: PublishedCorpus,
    answers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = client(corpus, answers, "anna")
    rows = [page.get(f"/rows/{index}").json() for index in range(page.get("/rows/0").json()["rows"])]
    assert [row["asks"] for row in rows] == ["answer", "figures"]
    assert "ranks" not in rows[0]
    figure_id = next(part["figure_id"] for part in rows[1]["parts"] if part["type"] == "figure")
    image = page.get(f"/rows/1/figures/{figure_id}")
    assert (image.status_code, image.content[:4]) == (200, b"\x89PNG")
    assert page.get(f"/rows/1/figures/{'0' * len(figure_id)}").status_code == 404
    for index, grade in enumerate((0, 1)):
        assert page.post("/grades", json={"place": index, "grade": grade}).status_code == 200
    capsys.readouterr()
    assert inset(monkeypatch, "questions", "qrels", answers, "--questions", answers.with_name("hoist.jsonl"), "--json") == 0
    shares = json.loads(capsys.readouterr().out)["shares"]
    assert {(share["asks"], share["kind"], share["estimate"]["mean"]) for share in shares} == {
        ("answer", "all", 0.0), ("answer", "hoist", 0.0), ("figures", "all", 1.0), ("figures", "hoist", 1.0),
    }  # fmt: skip
    assert inset(monkeypatch, "questions", "judge", answers, "--corpus", published.file, "--model", "llm") == 2
    assert "people judge these answers" in capsys.readouterr().err


def test_wrong_requests_get_a_message(corpus: PublishedCorpus, pooled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = client(corpus, pooled, "anna")
    assert page.post("/grades", json={"place": 99, "grade": 1}).status_code == 404
    assert page.post("/grades", json={"place": 0, "grade": 2}).status_code == 422
    assert page.post("/corrections", json={"place": 0, "question": " ", "answer": ""}).status_code == 422
    assert page.get("/rows/99/pages/1.png").status_code == 404
    assert page.get("/rows/0", headers={"host": "evil.example"}).status_code == 400
    assert not pooled.with_name("pool.anna.jsonl").exists()
    arguments = ["questions", "judge", str(pooled), "--corpus", "manuals", "--by", "../anna"]
    assert inset(monkeypatch, *arguments) == 2


@pytest.mark.live
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH")
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm on PATH, which fetches axe-core")
def test_a_person_judges_with_the_keyboard(
    corpus: PublishedCorpus, pooled: Path, browser: Browser, axe: str, tmp_path: Path
) -> None:
    with serving(create_judging_app(corpus, pooled, "anna")) as address:
        browser.open(address)
        rows = browser.until("row && row.rows")
        browser.until("[...document.images].length && [...document.images].every((image) => image.naturalWidth > 0)")
        browser.run(axe)
        assert browser.run(FOUND) == []
        browser.run("document.getElementById('correct').open = true")
        browser.run("document.getElementById('new-question').value = 'What does the winch take?'")
        assert browser.run(FOUND) == []
        browser.shoot(tmp_path / "judge.png")
        browser.click("#correct button")
        browser.until("document.getElementById('question').textContent === 'What does the winch take?'")
        for judged in range(1, rows + 1):
            browser.press("y", text="y")
            browser.until(f"row.judged === {judged}")
        assert browser.run("document.getElementById('said').textContent") == "All rows are judged. You may close this page."
    assert len(pooled.with_name("pool.anna.jsonl").read_text().splitlines()) == rows
    (corrected,) = pooled.with_name("pool-corrections.anna.jsonl").read_text().splitlines()
    assert json.loads(corrected)["question"] == "What does the winch take?"


@pytest.mark.live
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH")
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm on PATH, which fetches axe-core")
def test_a_person_sees_an_answer_with_its_figures(
    corpus: PublishedCorpus, answers: Path, browser: Browser, axe: str, tmp_path: Path
) -> None:
    with serving(create_judging_app(corpus, answers, "anna")) as address:
        browser.open(address)
        browser.until("row && row.asks === 'answer'")
        browser.until("[...document.images].length && [...document.images].every((image) => image.naturalWidth > 0)")
        browser.run(axe)
        assert browser.run(FOUND) == []
        browser.press("y", text="y")
        browser.until("row.asks === 'figures' && row.judged === 1")
        assert "right figures" in browser.run("document.getElementById('asked').textContent")
        browser.shoot(tmp_path / "answers.png")
