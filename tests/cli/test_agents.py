from pathlib import Path

import pytest

from cli.main import main


def test_a_corpus_that_is_not_there_is_one_line_and_no_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["inset", "mcp", "nothing"])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert (left.value.code, shown.out) == (2, "")
    assert shown.err.startswith("inset: ")
    assert "nothing" in shown.err
    assert shown.err.count("\n") == 1
