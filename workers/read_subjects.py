"""Read the subject in PDF metadata, in child processes with limits."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backends.pdf.document import open_document
from backends.stores.object_store import open_store
from schemas.corpus import ParseOptions
from schemas.ids import document_file
from workers.child_processes import Done, run_all


@dataclass(frozen=True)
class _Task:
    doc_id: str
    store_address: str
    passwords: tuple[str, ...]


def read_subjects(
    doc_ids: Sequence[str], *, store_address: str, limits: ParseOptions, passwords: Sequence[str]
) -> dict[str, str]:
    """Return the subject of each PDF, by document id; "" where it has none or can't be opened."""
    orders = [_Task(doc_id, store_address, tuple(passwords)) for doc_id in doc_ids]
    with contextlib.closing(run_all(_subject, orders, limits)) as outcomes:
        return {order.doc_id: last.result if isinstance(last, Done) else "" for order, last in outcomes}


def _subject(order: _Task, _opened: Callable[[int], None]) -> str:
    data = open_store(order.store_address).get(document_file(order.doc_id))
    return " ".join(open_document(data, order.passwords).subject.split())
