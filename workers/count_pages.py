"""Count the pages of PDFs, in child processes with limits."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backends.pdf.opening import open_pdf
from backends.stores.sources import open_source
from schemas.corpus.parse import ParseOptions
from workers.child_processes import Done, run_all
from workers.isolation import isolate


@dataclass(frozen=True)
class _Task:
    address: str
    name: str
    doc_id: str


def count_pages(address: str, names: Mapping[str, str], limits: ParseOptions, *, within_s: float) -> dict[str, int]:
    """Return the pages of PDFs of a source by document, of those that are opened within ``within_s`` seconds.

    Args:
        address: The source.
        names: A source of each document.
        limits: Limits of each child process.
        within_s: Seconds for all of them.
    """
    until, pages_by_document = time.monotonic() + within_s, dict[str, int]()
    tasks = [_Task(address, name, doc_id) for doc_id, name in names.items()]
    with contextlib.closing(run_all(_count, tasks, limits)) as outcomes:
        for task, last in outcomes:
            if isinstance(last, Done):
                pages_by_document[task.doc_id] = last.result
            if time.monotonic() > until:
                break
    return pages_by_document


def _count(task: _Task, _opened: Callable[[int], None]) -> int:
    data = open_source(task.address).read(task.name)
    isolate()
    return int(open_pdf(data).page_count)
