"""What bench.thresholds finds to change."""

from pathlib import Path

import pytest

from bench.thresholds import main, read
from tests.manuals import write_manual


@pytest.mark.slow  # processes start again
def test_the_pages_that_a_constant_changes_are_found(tmp_path: Path) -> None:
    pdfs = [write_manual(tmp_path / "manual.pdf", "pump")]
    was, now = read(pdfs), read(pdfs, {"schemas.drawings.PAGE_SHARE": 0.05})
    assert was.keys() == now.keys()
    assert any(was[page].figures != now[page].figures for page in was), "pictures are scans of their pages"
    assert all(was[page].tables == now[page].tables for page in was)


@pytest.mark.parametrize(
    ("constant", "fault"),
    [
        ("tasks.figures.overlays.NO_PT", "has no attribute 'NO_PT'"),
        ("tasks.figures.ruled_tables.MOST_BARS", "is a whole number"),
        ("NO_PT", "NO_PT: "),
    ],
)
def test_a_constant_that_cannot_be_set_is_named(
    constant: str, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench.thresholds", constant, "1.5", "3"])
    with pytest.raises(SystemExit):
        main()
    assert fault in capsys.readouterr().err
