"""``inset questions`` as a person meets it."""

import json
import sys
from pathlib import Path

import pytest

from cli import main
from evaluation.questions import load_questions


def _inset(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["inset", "questions", *map(str, arguments)])
    with pytest.raises(SystemExit) as raised:
        main.main()
    return int(raised.value.code or 0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    file.write_text("question,doc,pages,evidence_types\nWhich seal fits?,pump.pdf,3,table\nWhy?,pump.pdf,0,\n")
    return file


def test_nothing_is_written_while_a_row_is_malformed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert _inset(monkeypatch, "import", table, "--out", out) == 2
    mistake, last = capsys.readouterr().err.splitlines()
    assert mistake.startswith(f"{table}: line 3: pages.0.page: ")
    assert "--skip" in last
    assert not out.exists()
    assert _inset(monkeypatch, "import", table, "--out", out, "--skip", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": str(out),
        "format": "inset",
        "questions": 1,
        "skipped": 1,
        "not_read": [],
    }
    (question,) = load_questions(str(out))
    assert (question.question, question.documents) == ("Which seal fits?", ["pump.pdf"])


def test_statistics_are_shown_and_printed_as_json(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _inset(monkeypatch, "stats", table) == 2
    assert "inset questions import" in capsys.readouterr().err
    out = tmp_path / "out.jsonl"
    _inset(monkeypatch, "import", table, "--out", out, "--skip")
    assert _inset(monkeypatch, "stats", out) == 0
    printed_rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["with", "pages", "1"] in printed_rows
    assert ["table", "1", "100.0%"] in printed_rows
    assert ["(none", "named)", "1", "100.0%"] in printed_rows
    assert _inset(monkeypatch, "stats", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["documents"] == {"pump.pdf": 1}


def test_a_format_that_is_not_there_is_named(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _inset(monkeypatch, "import", table, "--format", "excel") == 2
    assert "write auto, inset, mmlongbench" in capsys.readouterr().err
