"""What the command shows on a terminal."""

import io

import pytest
from rich.console import Console

from cli import terminal


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=True, color_system="standard", soft_wrap=True, highlight=False)
    monkeypatch.setattr(terminal, "_out", console)
    return buffer


@pytest.mark.parametrize("width", [60, 30])
def test_a_table_that_may_not_be_folded_keeps_its_lines_on_a_narrow_terminal(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    version = "20260131T020000Z-1f6c2d3e"
    monkeypatch.setattr(terminal._out, "width", width)
    terminal.print_table("", ("version", "state", "parent"), [(version, "live", None)], fold=False)
    head, row = screen.getvalue().splitlines()
    assert "version" in head
    assert row.split() == [version, "live"]
