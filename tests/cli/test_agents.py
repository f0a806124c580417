from pathlib import Path

import pytest

from cli.main import main


def test_a_corpus_that_is_not_there_is_one_line_and_no_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["inset", "mcp", "nothing"])
    with pytest.raises(SystemExit) as raised:
        main()
    output = capsys.readouterr()
    assert (raised.value.code, output.out) == (2, "")
    assert output.err.startswith("inset: ")
    assert "nothing" in output.err
    assert output.err.count("\n") == 1
