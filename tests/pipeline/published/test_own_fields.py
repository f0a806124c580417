"""Fields of a corpus's own: from the corpus file to filters, hits, citations and facets, without code."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import named_manifest
from pipeline.run import refresh
from schemas.errors import RequestError, UserError
from schemas.filters import Filters
from schemas.retrieval import AnswerQuery, Query
from schemas.versions import RunOptions
from tests.manuals import write_manual

FIELDS = """
fields:
  product: {facet: true}
  revision: {type: number}
  plants: {type: keywords, title: Plant, facet: true}
  author: {pdf: author, shown: false}
metadata: {table: fields.csv, path: '{product}/{revision}/*'}
"""


@pytest.fixture
def revisions(corpus_file: Path) -> Path:
    """Return the corpus file of two revisions of a pump's manual, one of a winch's and one without a product."""
    pdfs = corpus_file.parent.parent / "pdfs"
    for revision in (7, 9):
        (pdfs / "PX-4" / f"{revision}").mkdir(parents=True)
    write_manual(pdfs / "PX-4" / "7" / "manual.pdf", "Water Pump", seed=5)
    (pdfs / "pump.pdf").rename(pdfs / "PX-4" / "9" / "manual.pdf")
    (corpus_file.parent / "fields.csv").write_text("source,plants\nPX-4/*,Lyon; Kiel\nwinch.pdf,Kiel\n")
    corpus_file.write_text(corpus_file.read_text() + FIELDS)
    return corpus_file


def found(file: Path, **filters: object) -> set[str]:
    published = PublishedCorpus(open_workspace(str(file)))
    try:
        hits = published.search(Query("screws", k=50, filters=Filters.model_validate(filters))).hits
    finally:
        published.close()
    return {hit.source for hit in hits}


@pytest.mark.slow
def test_a_field_goes_from_the_corpus_file_to_filters_hits_and_facets_without_code(revisions: Path) -> None:
    first = refresh(open_workspace(str(revisions)))
    assert first.published
    old, newest = "PX-4/7/manual.pdf", "PX-4/9/manual.pdf"
    assert found(revisions, where={"product": "PX-4"}) == {old, newest}
    assert found(revisions, where={"revision": {">": 7}}) == found(revisions, where={"revision": "9"}) == {newest}
    assert found(revisions, where={"plants": ["Kiel"], "revision": {"<": 9, ">=": 7}}) == {old}
    assert found(revisions, where={"plants": ["Paris", "Kiel"]}) == {old, newest, "winch.pdf"}
    with pytest.raises(
        RequestError, match="this version has no field colour; known here: product, revision, plants, author"
    ):
        found(revisions, where={"colour": "red"})
    with pytest.raises(RequestError, match=r"revision is a number; compare it with a number such as 7"):
        found(revisions, where={"revision": "nine"})
    published = PublishedCorpus(open_workspace(str(revisions)))
    facets = {facet.name: (facet.title, facet.values) for facet in published.overview().fields}
    assert facets["product"] == ("Product", {"PX-4": 2})
    assert facets["plants"] == ("Plant", {"Kiel": 3, "Lyon": 2})
    assert facets["revision"] == ("Revision", {})
    answer = published.answer(AnswerQuery("screws of the pump", filters=Filters(documents=[newest])))
    assert answer.citations[0].fields == {"product": "PX-4", "revision": 9.0, "plants": ["Lyon", "Kiel"]}
    published.close()
    # A change of metadata alone makes a version in which nothing is parsed, described or embedded.
    (revisions.parent / "fields.csv").write_text("source,plants\nPX-4/*,Lyon\n")
    second = refresh(open_workspace(str(revisions)))
    assert second.published
    assert second.version is not None
    workspace = open_workspace(str(revisions))
    work_counts = named_manifest(workspace.store, "manuals", second.version).work
    assert not any(
        count for name, count in work_counts.items() if name.startswith(("documents_parsed", "pages_parsed", "texts_"))
    )
    assert found(revisions, where={"plants": "Kiel"}) == set()
    assert refresh(open_workspace(str(revisions))).version == second.version


@pytest.mark.slow
def test_searches_leave_out_what_a_newer_revision_replaces_unless_asked(revisions: Path) -> None:
    text = revisions.read_text()
    revisions.write_text(text + "supersedes: {by: [product], newest: revision}\n")
    refresh(open_workspace(str(revisions)))
    old, newest = "PX-4/7/manual.pdf", "PX-4/9/manual.pdf"
    assert found(revisions) == {newest, "winch.pdf"}
    assert found(revisions, superseded="include") == {old, newest, "winch.pdf"}
    assert found(revisions, where={"revision": 7}) == found(revisions, documents=[old]) == {old}
    published = PublishedCorpus(open_workspace(str(revisions)))
    with published.opened() as opened:
        doc_id = next(name for name, sources in opened.sources.items() if old in sources)
        newer = next(name for name, sources in opened.sources.items() if newest in sources)

        def without_newer(doc_ids: Sequence[str]) -> NDArray[np.bool_]:
            return np.array([name != newer for name in doc_ids], np.bool_)

        assert opened.own_fields.superseded(doc_id, opened.are_visible) == "Revision 7, superseded by 9"
        assert opened.own_fields.superseded(newer, opened.are_visible) == ""
        # Who may not see the newer one isn't told of it.
        assert opened.own_fields.superseded(doc_id, without_newer) == ""
        assert opened.own_fields.valid_for(without_newer) == (doc_id,)
        assert opened.own_fields.valid_for(opened.are_visible) == ()
        assert next(facet.values for facet in opened.own_fields.facets(without_newer)) == {"PX-4": 1}
    published.close()


def test_a_wrong_value_is_refused_before_anything_runs(revisions: Path) -> None:
    (revisions.parent / "fields.csv").write_text("source,plants,revision\nPX-4/*,Kiel,new\n")
    workspace = open_workspace(str(revisions))
    with pytest.raises(UserError, match=r"fields\.csv: line 2: revision: 'new' is no number"):
        refresh(workspace, options=RunOptions(dry_run=True))
    assert workspace.store.folders("versions") == []
