"""Read a little of each PDF, in child processes with limits: its number of pages, its own metadata."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from backends.pdf.document import open_document
from backends.pdf.opening import open_pdf
from backends.stores.object_store import open_store
from backends.stores.sources import open_source
from schemas.corpus import ParseOptions
from workers.child_processes import Done, run_all
from workers.isolation import isolate


def count_pages(address: str, names: Mapping[str, str], limits: ParseOptions, *, within_s: float) -> dict[str, int]:
    """Return the pages of a source's PDFs by document, as far as they are opened within ``within_s`` seconds.

    ``names`` gives a source of each document.
    """
    until, pages_by_document = time.monotonic() + within_s, dict[str, int]()
    tasks = [(address, name, doc_id) for doc_id, name in names.items()]
    with contextlib.closing(run_all(_page_count, tasks, limits)) as outcomes:
        for (*_, doc_id), last in outcomes:
            if isinstance(last, Done):
                pages_by_document[doc_id] = last.result
            if time.monotonic() > until:
                break
    return pages_by_document


def _page_count(task: tuple[str, str, str], _opened: Callable[[int], None]) -> int:
    address, name, _ = task
    data = open_source(address).read(name)
    isolate()
    return int(open_pdf(data).page_count)


def read_pdf_metadata(
    pdfs: Mapping[str, str], *, store_address: str, limits: ParseOptions, passwords: Sequence[str], keys: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return entries of each PDF's own metadata, by document id and key; without PDFs that can't be opened.

    Args:
        pdfs: Names of PDFs in the store, by document id.
        store_address: The store.
        limits: Of the processes that open them.
        passwords: Tried on encrypted ones.
        keys: The entries, such as author.
    """
    tasks = [(doc_id, pdf, store_address, passwords, keys) for doc_id, pdf in pdfs.items()]
    with contextlib.closing(run_all(_metadata, tasks, limits)) as outcomes:
        return {doc_id: last.result for (doc_id, *_), last in outcomes if isinstance(last, Done)}


def _metadata(task: tuple[str, str, str, Sequence[str], Sequence[str]], _opened: Callable[[int], None]) -> dict[str, str]:
    _, pdf, store_address, passwords, keys = task
    data = open_store(store_address).get(pdf)
    isolate()
    document = open_document(data, passwords)
    return {key: " ".join(document.metadata(key).split()) for key in keys}
