"""Questions that a scripted model writes from a published version."""

import json
import sys
from pathlib import Path

import pymupdf
import pytest

from cli import main
from evaluation.questions import Question, load_questions
from pipeline.corpus.workspace import open_workspace
from pipeline.run import refresh
from tests.endpoint_server import Call, EndpointServer
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: EndpointServer) -> Path:
    """A published corpus of two manuals, each with figures and a table that names the same parts."""
    folder = tmp_path_factory.mktemp("generate")
    for number, subject in enumerate(("water pump", "steel winch"), 1):
        _add_table(write_manual(folder / "pdfs" / f"{subject.split()[1]}.pdf", subject, seed=number), number)
    options = {"kind": "vlm", "model": "tiny", "revision": "1", "endpoint": {"url": model.url, "retries": 0}}
    file = write_corpus(folder, f"models: {json.dumps({'vlm': options, 'mute': {**options, 'model': 'mute'}})}\n")
    assert refresh(open_workspace(str(file))).published
    return folder


def _add_table(file: Path, number: int) -> None:
    """Add a ruled table of three columns to the last page."""
    cells = [["Part", "Torque", "Count"], ["Steel bolt", f"{number}0 Nm", "4"], ["Rubber seal", f"{number} Nm", "2"]]
    with pymupdf.open(stream=file.read_bytes()) as document:
        page = document[-1]
        for y, line in enumerate([*cells, []]):
            page.draw_line((72, 580 + 20 * y), (372, 580 + 20 * y))
            for x, cell in enumerate(line):
                page.insert_text((76 + 100 * x, 594 + 20 * y), cell, fontsize=10)
        for x in range(4):
            page.draw_line((72 + 100 * x, 580), (72 + 100 * x, 640))
        document.save(file, garbage=3, deflate=True, no_new_id=True)  # the same bytes, so the same sample, in every run


def generate(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *arguments: str) -> tuple[int, list[Question]]:
    out = folder / "generated.jsonl"
    out.unlink(missing_ok=True)
    command = ["inset", "questions", "generate", str(folder / "corpora" / "manuals.yaml"), "--from", kind]
    monkeypatch.setattr(sys, "argv", [*command, "--model", "vlm", "--out", str(out), *arguments])
    with pytest.raises(SystemExit) as raised:
        main.main()
    return int(raised.value.code or 0), load_questions(str(out)) if out.exists() else []


def written(**keys: object) -> str:
    return json.dumps({"question": "Which side has the screws?", "answer": "Side 1.", **keys})


def test_a_question_about_a_figure_has_the_figure_and_its_page_as_gold(
    folder: Path, model: EndpointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.calls.clear()
    model.replies = lambda call: written(question=f"What shows {call.prompt.partition('Caption: ')[2].splitlines()[0]}?")
    code, questions = generate(folder, monkeypatch, "figures", "-n", "3")
    assert (code, len(questions), len(model.calls)) == (0, 3, 3)
    assert all(call.picture for call in model.calls), "a model that sees is shown the figure"
    for question in questions:
        number = int(question.question.partition("Figure ")[2][0])
        assert question.documents == ["winch.pdf" if "winch" in question.question else "pump.pdf"]
        assert [(page.page, page.doc) for page in question.pages] == [(number, question.documents[0])]
        assert question.figures[0].bbox == pytest.approx((180, 300, 420, 460), abs=2)
        assert question.evidence_types == ["figure"]
    assert generate(folder, monkeypatch, "figures", "-n", "3") == (code, questions)
    assert len(model.calls) == 3, "replies are kept"
    assert generate(folder, monkeypatch, "figures", "-n", "3", "--seed", "1")[1] != questions


def test_evidence_of_two_kinds_is_wanted_and_each_part_must_be_there(
    folder: Path, model: EndpointServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = iter([written(evidence=["S1"]), written(evidence=["T1", "F2"]), *[written(evidence=["F9", "S1"])] * 2])
    prompts: list[str] = []

    def reply(call: Call) -> str:
        prompts.append(call.prompt)
        return next(replies)

    model.replies = reply
    code, questions = generate(folder, monkeypatch, "contents", "-n", "2")
    assert code == 0
    assert [question.evidence_types for question in questions] == [["figure", "table"]]
    assert [page.page for page in questions[0].pages] == [2]
    assert len(questions[0].figures) == 1
    assert "the evidence is of one kind" in prompts[1]
    assert "1 rejected: there is no part F9" in capsys.readouterr().err


def test_tables_of_two_documents_that_name_the_same_things_give_one_question(
    folder: Path, model: EndpointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []

    def reply(call: Call) -> str:
        prompts.append(call.prompt)
        if len(prompts) == 1:
            return written(question="Which?")
        return written(question="Which takes more torque, bolt of pump or winch?", evidence=["S1"])

    model.replies = reply
    code, questions = generate(folder, monkeypatch, "tables")
    assert code == 0
    assert "rubber seal, steel bolt" in prompts[0]
    assert "Question: Which?" in prompts[1], "the question is revised with the texts"
    assert "steel bolt" in prompts[1].casefold(), "the tables are there to be read again"
    assert questions[0].evidence_types == ["table", "text"], "the gold is both tables and the text that was used"
    assert [question.question for question in questions] == ["Which takes more torque, bolt of pump or winch?"]
    assert sorted(questions[0].documents) == ["pump.pdf", "winch.pdf"]
    assert {(page.doc, page.page) for page in questions[0].pages} > {("pump.pdf", 2), ("winch.pdf", 2)}
    assert len(questions[0].regions) == 3


def test_a_model_that_writes_no_question_leaves_no_file(
    folder: Path, model: EndpointServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model.replies = lambda _call: "I can't."
    assert generate(folder, monkeypatch, "figures", "--model", "mute") == (2, [])
    assert "nothing written: the reply has no question (4 times)" in capsys.readouterr().err
    assert generate(folder, monkeypatch, "pictures") == (2, [])
    assert "there is no 'pictures'; write figures, contents, tables" in capsys.readouterr().err
