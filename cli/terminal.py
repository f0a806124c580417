"""Output of the command: progress on standard error, results on standard output.

All output is escaped here, since file names and text of PDFs are untrusted.
"""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from schemas import printing
from schemas.access import Principals, principal
from schemas.errors import Failure, UserError, pages_by_cause
from schemas.stages import Report

if TYPE_CHECKING:
    from pipeline.corpus.workspace import Workspace

_ANY_WIDTH = 10_000
"""Characters; wider than any table."""

CorpusArgument = Annotated[
    str, typer.Argument(metavar="CORPUS", help="A corpus: NAME for corpora/NAME.yaml, or the path of a corpus file.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
"""The option of commands that can print JSON."""

VERSION_NAMES = ", or live, previous, latest"
VersionOption = Annotated[str | None, typer.Option(help=f"A version{VERSION_NAMES}; by default live.")]

ReaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        metavar="PRINCIPAL",
        help="As this reader, where the corpus file has 'access': group:service, user:4711. May be repeated. Without it no "
        "document is hidden here.",
    ),
]


def principals_of(names: Sequence[str] | None) -> Principals | None:
    """Return the principals of ``--as``, None without one; ``UserError`` if one names nobody."""
    try:
        return frozenset(map(principal, names)) if names else None
    except ValueError as error:
        raise UserError(f"--as {error}") from error


_errors = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
_out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def open_workspace(corpus: str) -> "Workspace":
    """Open a corpus; what that needs is imported now, since most commands are short."""
    from pipeline.corpus import workspace

    return workspace.open_workspace(corpus)


def say(message: str) -> None:
    """Print a message on standard error."""
    _errors.print(Text(printing.line(message)))


def show(line: str, *, bold: str = "") -> None:
    """Print a line of a result, ``bold`` before it."""
    _out.print(Text.assemble((printing.line(bold), "bold"), printing.line(line)))


def show_text(text: str, *, end: str = "\n") -> None:
    """Print text of several lines."""
    _out.print(Text(printing.lines(text)), end=end)


def show_title(title: str) -> None:
    """Print a title."""
    _out.rule(Text(printing.line(title)), align="left")


def print_json(result: object) -> None:
    """Print a result, with the models and records in it, as the one JSON object on standard output."""
    text = json.dumps(to_jsonable_python(result), ensure_ascii=False, indent=2)
    sys.stdout.write(printing.json_text(text) + "\n")


def print_markdown(text: str) -> None:
    """Print Markdown, rendered on a terminal only."""
    fit = printing.lines(text)
    if _out.is_terminal:
        _out.print(Markdown(fit, hyperlinks=False))
    else:
        _out.print(Text(fit), end="")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, fold: bool = True) -> None:
    """Print a table; if the terminal is too narrow, fold its cells, or without ``fold`` let lines go on behind its edge."""
    table = Table(
        title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else printing.line(str(cell))) for cell in row))
    if not fold:
        table.width = _out.measure(table, options=_out.options.update(max_width=_ANY_WIDTH)).maximum
    _out.print(table, crop=False)


@contextmanager
def reporting() -> Iterator[Report]:
    """Yield a function that shows progress: a bar per step, or in logs and pipes a line per tenth of a step."""
    tenths: dict[str, int] = {}
    tasks: dict[str, TaskID] = {}
    lock = threading.Lock()

    def write_line(step: str, done_count: int, total: int, spent: str = "") -> None:
        tenth = 10 * done_count // total if total else 10
        if tenths.get(step) != tenth:
            tenths[step] = tenth
            say(f"{step}: {done_count} of {total}{f', {spent}' if spent else ''}")

    def update_bar(step: str, done_count: int, total: int, spent: str = "") -> None:
        with lock:
            if step not in tasks:
                tasks[step] = progress.add_task(step, total=total, spent=spent)
            progress.update(tasks[step], completed=done_count, total=max(total, done_count), spent=spent)

    if not _errors.is_terminal:
        yield write_line
        return
    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[spent]}"),
    )
    with Progress(*columns, console=_errors) as progress:
        yield update_bar


def by_document(failures: Sequence[Failure]) -> Iterator[tuple[Failure, str]]:
    """Merge failures that differ in their page only; yield one of them with the pages, such as ``3-7, 12``."""
    for failure, pages in pages_by_cause(failures):
        # In a run of pages, each page less its position is the same number.
        runs = (
            [page for _, page in run]
            for _, run in groupby(enumerate(pages), lambda page_index: page_index[1] - page_index[0])
        )
        yield failure, ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def page_words(pages: str) -> str:
    """Return pages, such as ``3-7, 12``, with the word before them."""
    return f"page {pages}" if pages.isdigit() else f"pages {pages}"
