"""Step: draw pages, where the corpus file asks for rows of pages."""

from collections.abc import Sequence

from backends.stores.document_files import ParsedDocumentFile, parsed_file
from pipeline.corpus.workspace import Workspace
from pipeline.records.descriptions import open_drawn
from pipeline.stages.enrich.keep import keep
from schemas.base import batched
from schemas.documents import DrawnPage, drawn_page_id
from schemas.parquet import table_of
from schemas.stages import Report, Step
from workers.draw_pages import LIMITS
from workers.page_pictures import keep_pictures

DOCUMENTS_AT_ONCE = 64
"""Documents whose pages are looked up together."""


def draw(workspace: Workspace, documents: Sequence[str], report: Report) -> dict[str, int]:
    """Draw the missing pages of structured documents on this machine; return counts.

    A page that can't be drawn has no row; that is recorded and not tried again.
    """
    store, parse = workspace.store, workspace.keys.parse
    if workspace.keys.drawn is None:
        return {}
    cache = open_drawn(store, workspace.keys.drawn)
    limits = LIMITS.model_copy(update={"workers": workspace.corpus.parse.workers})
    drawn_count = 0
    for group in batched(documents, DOCUMENTS_AT_ONCE):
        pages = {
            drawn_page_id(doc_id, page.page): (doc_id, page.page)
            for doc_id in group
            for page in ParsedDocumentFile(store, parsed_file(doc_id, parse)).pages
        }
        missing = cache.missing(pages)
        if missing:
            passwords = workspace.passwords()
            drawn = keep_pictures(
                [pages[name] for name in missing], store_address=store.root, limits=limits, passwords=passwords
            )
            keep(
                cache,
                (table_of(DrawnPage, [drawn_page]) for drawn_page in drawn),
                Step.DRAW,
                len(missing),
                report,
                drawn_count,
            )
            drawn_count += len(missing)
    return {"drawn": drawn_count}
