"""What bench.retrieval counts, and how it writes its page."""

import json
from pathlib import Path

import pytest

from bench.retrieval import INSIDE, OVER, chunked, measured, read_questions, report
from bench.table import rewrite

GOLD = [
    {"id": "1", "question": "a?", "doc": "a.pdf", "pages": [2], "evidence_sources": ["Chart"], "answer": "7 %"},
    {"id": "2", "question": "b?", "doc": "a.pdf", "pages": [1, 3], "evidence_sources": ["Table"], "scope": "document"},
    {"id": "3", "question": "c?", "doc": "a.pdf", "pages": [1], "gold_agrees": False},
    {"id": "4", "question": "d?", "doc": "a.pdf", "pages": [], "answerable": False},
    {"id": "5", "question": "e?", "doc": "a.pdf", "pages": [2], "evidence_sources": ["Figure"], "answer": "Seven"},
]
LAYERS = {("a.pdf", 2): "Seven of ten"}


def test_questions_by_kind_of_evidence(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(question) + "\n" for question in GOLD))
    read = {question.id: question for question in read_questions(file, LAYERS)}
    assert {name: question.kinds for name, question in read.items()} == {
        "1": ("figure or chart", "… whose answer isn't text"),
        "2": ("table",),
        "5": ("figure or chart",),
    }
    assert [question.is_open for question in read.values()] == [True, False, True]


def test_hand_computed_measures_and_their_page(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in GOLD))
    questions = list(read_questions(file, LAYERS))
    inside = {"1": [("a.pdf", 9), ("a.pdf", 2)], "2": [("a.pdf", 1)], "5": []}
    measures = measured(inside, questions)
    assert measures["Success@1"] == {"1": 0, "2": 1, "5": 0}
    assert measures["R@5"] == {"1": 1, "2": 0.5, "5": 0}
    assert measures["nDCG@10"] == pytest.approx({"1": 0.6309, "2": 1 / 1.6309, "5": 0}, abs=1e-4)

    runs = {INSIDE: measures, OVER: measured({"1": inside["1"], "5": []}, questions)}
    text = report(questions, {"ours": runs, "theirs": runs}, version="v", documents=1)
    assert "| ours | 0.333 (0.00–0.67) | 0.667" in text
    assert "| @5, all | +0.000 (+0.000 to +0.000) |" in text

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tool: begin -->\nold\n<!-- tool: end -->\nafter\n")
    rewrite(page, "tool", text)
    rewrite(page, "tool", text)
    assert page.read_text() == f"before\n<!-- tool: begin -->\n\n{text}\n<!-- tool: end -->\nafter\n"
    page.write_text("no lines")
    with pytest.raises(SystemExit, match="mark the generated part"):
        rewrite(page, "tool", text)


def test_chunks_overlap_lose_nothing_and_end_at_white_space() -> None:
    text = " ".join(f"word{number}" for number in range(600))
    pieces = list(chunked(text))
    assert all(len(piece) <= 1_000 for piece in pieces)
    assert set(" ".join(pieces).split()) >= set(text.split())
    assert all(text[text.index(piece) + len(piece)].isspace() for piece in pieces[:-1])
    assert list(chunked("x" * 1_500)) == ["x" * 1_000, "x" * 700]
    assert list(chunked("")) == [""]
