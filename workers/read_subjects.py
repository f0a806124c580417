"""Read the subject in PDF metadata, in child processes with limits."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backends.pdf.document import open_document
from backends.stores.object_store import open_store
from schemas.corpus.parse import ParseOptions
from schemas.ids import document_file
from workers.child_processes import Done, run_all
from workers.isolation import isolate


@dataclass(frozen=True)
class _Task:
    doc_id: str
    store_address: str
    passwords: tuple[str, ...]


def read_subjects(
    doc_ids: Sequence[str], *, store_address: str, limits: ParseOptions, passwords: Sequence[str]
) -> dict[str, str]:
    """Return the subject of each PDF, by document id; "" if it has none or can't be opened."""
    tasks = [_Task(doc_id, store_address, tuple(passwords)) for doc_id in doc_ids]
    with contextlib.closing(run_all(_subject, tasks, limits)) as outcomes:
        return {task.doc_id: last.result if isinstance(last, Done) else "" for task, last in outcomes}


def _subject(task: _Task, _opened: Callable[[int], None]) -> str:
    data = open_store(task.store_address).get(document_file(task.doc_id))
    isolate()
    return " ".join(open_document(data, task.passwords).subject.split())
