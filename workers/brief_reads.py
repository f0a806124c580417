"""Read a little of each PDF, in child processes with limits: its own metadata."""

import contextlib
from collections.abc import Callable, Sequence

from backends.pdf.document import open_document
from backends.stores.object_store import open_store
from schemas.corpus import ParseOptions
from schemas.ids import document_file
from workers.child_processes import Done, run_all
from workers.isolation import isolate


def read_pdf_metadata(
    doc_ids: Sequence[str], *, store_address: str, limits: ParseOptions, passwords: Sequence[str], keys: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return entries of each PDF's own metadata, by document id and key; without PDFs that can't be opened."""
    tasks = [(doc_id, store_address, passwords, keys) for doc_id in doc_ids]
    with contextlib.closing(run_all(_metadata, tasks, limits)) as outcomes:
        return {doc_id: last.result for (doc_id, *_), last in outcomes if isinstance(last, Done)}


def _metadata(task: tuple[str, str, Sequence[str], Sequence[str]], _opened: Callable[[int], None]) -> dict[str, str]:
    doc_id, store_address, passwords, keys = task
    data = open_store(store_address).get(document_file(doc_id))
    isolate()
    document = open_document(data, passwords)
    return {key: " ".join(document.metadata(key).split()) for key in keys}
