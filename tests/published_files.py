"""Files of published corpora, each read from a version that is opened for it."""

from collections.abc import Sequence

from pipeline.published.corpus import PublishedCorpus
from schemas.geometry import Box


def figure_of(corpus: PublishedCorpus, figure_id: str, version: str | None = None) -> bytes:
    with corpus.opened(version) as opened:
        return opened.figure(figure_id)


def document_of(corpus: PublishedCorpus, doc_id: str, version: str | None = None) -> tuple[bytes, str]:
    with corpus.opened(version) as opened:
        return opened.document(doc_id)


def tagged_document_of(corpus: PublishedCorpus, doc_id: str, version: str | None = None) -> tuple[bytes, str]:
    with corpus.opened(version) as opened:
        return opened.tagged_document(doc_id)


def page_of(
    corpus: PublishedCorpus,
    doc_id: str,
    page: int,
    *,
    highlight: Sequence[Box] = (),
    dpi: int = 36,
    version: str | None = None,
) -> bytes:
    with corpus.opened(version) as opened:
        return corpus.drawer.draw(opened.drawing(doc_id, page, highlight, dpi))
