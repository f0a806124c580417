"""What the command shows on a terminal."""

import io

import pytest
from rich.console import Console

from cli import terminal

TEXT = "Drain the oil.\nOil \x1b[2J filters are\n\nbehind the cover."


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=True, color_system="standard", soft_wrap=True, highlight=False)
    monkeypatch.setattr(terminal, "_out", console)
    return buffer


def test_what_matched_is_bold_and_the_nearest_sentence_underlined(screen: io.StringIO) -> None:
    terminal.show_marked(TEXT, 0, len(TEXT), marks=[(10, 13), (15, 18)], sentence=(0, 14))
    bold, below, merged, plain = "\x1b[1m", "\x1b[4m", "\x1b[1;4m", "\x1b[0m"
    assert screen.getvalue() == (
        f"   {below}Drain the {plain}{merged}oil{plain}{below}.{plain} {bold}Oil{plain} \\x1b[2J filters are behind the cover.\n"
    )


@pytest.mark.parametrize(("width", "lines"), [(60, 2), (30, 1)])
def test_a_table_that_may_not_be_folded_is_plain_lines_on_a_narrow_terminal(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch, width: int, lines: int
) -> None:
    version = "20260131T020000Z-1f6c2d3e"
    monkeypatch.setattr(terminal._out, "width", width)
    terminal.print_table("", ("version", "state", "parent"), [(version, "live", None)], fold=False)
    output_lines = screen.getvalue().splitlines()
    assert (len(output_lines), version in output_lines[-1]) == (lines, True)
    assert ("state live" in output_lines[-1]) == (lines == 1)


def test_a_part_says_that_there_is_more(screen: io.StringIO) -> None:
    terminal.show_marked(TEXT, 6, 13, marks=[(0, 9)], sentence=None)
    assert screen.getvalue() == "   …\x1b[1mthe\x1b[0m oil…\n"
