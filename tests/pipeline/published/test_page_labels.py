"""A citation says what is printed on its page, where the PDF says so."""

from pathlib import Path

import pymupdf

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from schemas.filters import Filters, PageRange
from schemas.retrieval import AnswerQuery, Query
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus


def test_a_citation_names_the_page_as_it_is_printed_and_as_the_pdf_counts_it(tmp_path: Path) -> None:
    write_manual(tmp_path / "pdfs" / "plain.pdf", "steel winch", seed=2)
    labelled = write_manual(tmp_path / "pdfs" / "labelled.pdf", "water pump", seed=1, pages=4)
    with pymupdf.open(labelled) as pdf:
        pdf.set_page_labels([{"startpage": 0, "style": "r"}, {"startpage": 2, "style": "D"}])
        pdf.saveIncr()
    workspace = open_workspace(str(write_corpus(tmp_path)))
    assert refresh(workspace).published
    corpus = PublishedCorpus(workspace)
    try:
        hits = corpus.search(Query("pump or winch", k=100)).hits
        page_names = {(hit.source, region.page): region.page_name for hit in hits for region in hit.regions}
        assert page_names == {
            ("labelled.pdf", 1): "page i (PDF page 1)",
            ("labelled.pdf", 2): "page ii (PDF page 2)",
            ("labelled.pdf", 3): "page 1 (PDF page 3)",
            ("labelled.pdf", 4): "page 2 (PDF page 4)",
            ("plain.pdf", 1): "page 1",
            ("plain.pdf", 2): "page 2",
        }
        narrowed = corpus.search(
            Query("pump", filters=Filters(documents=["labelled.pdf"], page_ranges=[PageRange(first=3, last=3)]))
        )
        assert {hit.regions[0].page_name for hit in narrowed.hits} == {"page 1 (PDF page 3)"}
        for label, page in (("II", 2), ("1", 3)):
            printed = corpus.search(
                Query("pump or winch", filters=Filters(documents=["labelled.pdf"], page_labels=[label]))
            )
            assert {region.page for hit in printed.hits for region in hit.regions} == {page}
        cited = corpus.answer(AnswerQuery(hits[0].text[:200])).citations[0]
        assert cited.regions[0].page_name == page_names[cited.source, cited.page]
    finally:
        corpus.close()
