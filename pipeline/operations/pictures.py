"""Pictures of figures and of pages, as the pages in Airflow show them."""

import functools
import io
from dataclasses import replace

from backends.models.pictures import fit
from pipeline.corpus.workspace import open_workspace
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import last_manifest
from schemas.errors import NotFoundError
from schemas.ids import document_file, figure_file
from schemas.ports import ObjectStore
from workers.draw_pages import Drawing, PageDrawer


def figure_picture(store: ObjectStore, figure_id: str, side: int) -> bytes:
    """Return a stored figure as WebP, its longer side at most ``side`` pixels.

    Args:
        store: The corpus's store.
        figure_id: The figure.
        side: In pixels.

    Raises:
        NotFoundError: The store has no such figure.
        TransientError: It isn't what was written.
    """
    try:
        stored = store.get(figure_file(figure_id))
    except FileNotFoundError as error:
        raise NotFoundError(f"the store has no figure {figure_id}") from error
    webp = io.BytesIO()
    fit(stored, side).save(webp, "WEBP", quality=80, method=0)
    return webp.getvalue()


def page_picture(file: str, doc_id: str, page: int, *, dpi: int) -> bytes:
    """Return the PNG of a page of a document, drawn in a child process.

    The document is in the store, or in quarantine after the last refresh: then it may be in the source only. Errors are those of
    ``PageDrawer.draw``, and:

    Args:
        file: The corpus file.
        doc_id: The document.
        page: From 1.
        dpi: Resolution.

    Raises:
        NotFoundError: Neither has it.
    """
    workspace = open_workspace(file)
    # The newest conversion, if the document isn't a PDF.
    name = [document_file(doc_id), *workspace.store.names(f"converted/{doc_id}")][-1]
    drawing = Drawing(workspace.store.root, name, page, dpi, passwords=workspace.passwords_set())
    if not workspace.store.exists(drawing.name):
        source = _source_of(workspace.store, doc_id)
        drawing = replace(drawing, store_address=workspace.corpus.source_address, name=source, digest=doc_id)
    return _drawer().draw(drawing)


def _source_of(store: ObjectStore, doc_id: str) -> str:
    """Return where the last refresh found a document."""
    last = last_manifest(store)
    if last is not None:
        for row in read_ledger(store, last.version):
            if row.doc_id == doc_id:
                return row.source
    raise NotFoundError(f"neither the store nor the last refresh has a document {doc_id}")


@functools.cache
def _drawer() -> PageDrawer:
    return PageDrawer()
