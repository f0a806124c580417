"""Read pages from all over PDFs, in child processes with limits."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backends.pdf.document import open_document
from backends.stores.sources import open_source
from schemas.corpus.parse import ParseOptions
from workers.child_processes import Done, run_all
from workers.isolation import isolate


@dataclass(frozen=True)
class _Task:
    address: str
    name: str
    pages: int


def read_samples(address: str, names: Sequence[str], limits: ParseOptions, *, pages: int) -> list[list[str]]:
    """Return the texts of pages spread over each PDF of a source; [] for one that can't be read."""
    tasks = [_Task(address, name, pages) for name in names]
    with contextlib.closing(run_all(_texts, tasks, limits)) as outcomes:
        return [last.result if isinstance(last, Done) else [] for _, last in outcomes]


def _texts(task: _Task, _opened: Callable[[int], None]) -> list[str]:
    data = open_source(task.address).read(task.name)
    isolate()
    document = open_document(data)
    step = -(-document.page_count // task.pages) or 1
    read = (document.read_page(number) for number in range(1, document.page_count + 1, step))
    return [" ".join(line.line.text for line in page.lines) for page in read]
