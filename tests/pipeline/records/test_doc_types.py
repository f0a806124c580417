"""Types of documents by their sources: kept with rows, searched by, and changed without a change of documents."""

from pathlib import Path

import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import read_manifest
from pipeline.run import refresh
from schemas.filters import Filters
from schemas.retrieval import Query
from tests.versions import read_evidence

TYPED = "doc_types: {{'win*': {}, '*': machine}}\n"


@pytest.mark.slow
def test_a_search_is_narrowed_by_the_types_of_documents(corpus_file: Path) -> None:
    plain = corpus_file.read_text()
    first = refresh(open_workspace(str(corpus_file)))
    assert _types(corpus_file) == {"pump.pdf": None, "winch.pdf": None}
    assert _found(corpus_file, "hoist") == set()
    corpus_file.write_text(plain + TYPED.format("hoist"))
    second = refresh(open_workspace(str(corpus_file)))
    assert second.published
    assert second.version != first.version
    assert _types(corpus_file) == {"pump.pdf": "machine", "winch.pdf": "hoist"}
    assert _found(corpus_file, "hoist") == {("winch.pdf", "hoist")}
    assert _found(corpus_file, "hoist", "machine") == {("pump.pdf", "machine"), ("winch.pdf", "hoist")}
    assert _found(corpus_file, "hoist", "ship") == {("winch.pdf", "hoist")}
    corpus_file.write_text(plain + TYPED.format("crane"))
    assert refresh(open_workspace(str(corpus_file))).published
    assert _found(corpus_file, "crane") == {("winch.pdf", "crane")}


def test_a_document_that_moved_has_the_type_of_its_new_place(corpus_file: Path) -> None:
    corpus_file.write_text(corpus_file.read_text() + TYPED.format("hoist"))
    refresh(open_workspace(str(corpus_file)))
    pdfs = corpus_file.parent.parent / "pdfs"
    (pdfs / "winch.pdf").rename(pdfs / "lift.pdf")
    assert refresh(open_workspace(str(corpus_file))).published
    assert _types(corpus_file) == {"lift.pdf": "machine", "pump.pdf": "machine"}
    assert _found(corpus_file, "machine") == {("lift.pdf", "machine"), ("pump.pdf", "machine")}


def _types(corpus_file: Path) -> dict[str, str | None]:
    workspace = open_workspace(str(corpus_file))
    published = PublishedCorpus(workspace)
    try:
        overview = published.overview()
    finally:
        published.close()
    assert overview.version is not None
    manifest = read_manifest(workspace.store, overview.version)
    assert manifest is not None
    rows = read_evidence(workspace.store, overview.version).to_pylist()
    doc_types: dict[str, str | None] = {row["sources"][0]: row["doc_type"] for row in rows}
    counted = [*doc_types.values()]
    expected = {kind: counted.count(kind) for kind in doc_types.values() if kind is not None}
    assert overview.doc_types == manifest.counts.documents_by_type == expected
    return doc_types


def _found(corpus_file: Path, *kinds: str) -> set[tuple[str, str | None]]:
    published = PublishedCorpus(open_workspace(str(corpus_file)))
    try:
        hits = published.search(Query("screws", k=50, filters=Filters(doc_types=[*kinds]))).hits
    finally:
        published.close()
    return {(hit.source, hit.doc_type) for hit in hits}
