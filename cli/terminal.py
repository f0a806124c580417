"""What the command shows: progress on standard error, results on standard output."""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

errors = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """Print a line for a person, on standard error."""
    errors.print(message, markup=False)


def print_json(result: BaseModel | dict[str, Any]) -> None:
    """Print a result as the one JSON object on standard output."""
    data = result.model_dump(mode="json") if isinstance(result, BaseModel) else result
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def print_markdown(text: str) -> None:
    """Print Markdown for a person; as it is where nobody looks."""
    if out.is_terminal:
        out.print(Markdown(text))
    else:
        out.print(text, markup=False, end="")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows for a person."""
    table = Table(
        title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    out.print(table, markup=False)


class _Steps:
    """A progress bar a step; steps that are done stay on the screen."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __call__(self, step: str, done: int, total: int) -> None:
        with self._lock:
            if step not in self._tasks:
                self._tasks[step] = self._progress.add_task(step, total=total)
            self._progress.update(self._tasks[step], completed=done, total=max(total, done))


class _Lines:
    """A line when a step begins and ends, for logs and pipes."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        if self._last.get(step) != tenth:
            self._last[step] = tenth
            say(f"{step}: {done} of {total}")


@contextmanager
def reporting() -> Iterator[Any]:
    """Yield what shows the progress of a refresh."""
    if not errors.is_terminal:
        yield _Lines()
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=errors) as progress:
        yield _Steps(progress)
