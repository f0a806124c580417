"""The engine that a corpus file names: what is written down of it, and what is said where it isn't there."""

from pathlib import Path

import pytest

from pipeline.published import PublishedCorpus
from pipeline.refresh import refresh
from pipeline.workspace import open_workspace
from schemas.corpus import IndexOptions
from schemas.errors import TransientError
from schemas.evidence import MODES
from tests.pipeline.conftest import write_corpus

RANKED = "index: {weights: {title: 2, text: 1}, stop_words: english, fusion: weighted, alpha: 0.4, diversity: 0.2}\n"
NOWHERE = "index: {engine: weaviate, url: 'http://127.0.0.1:9', weights: {title: 2, text: 1}}\n"


def test_no_server_is_told_before_anything_is_spent(corpus_file: Path) -> None:
    workspace = open_workspace(str(write_corpus(corpus_file.parent.parent, NOWHERE)))
    with pytest.raises(TransientError, match=r"Weaviate at http://127.0.0.1:9 .* doesn't answer; start it"):
        refresh(workspace)
    assert workspace.store.folders("parsed") == workspace.store.folders("versions") == []


def test_a_version_keeps_to_its_engine_whatever_the_file_says_since(corpus_file: Path) -> None:
    before = open_workspace(str(write_corpus(corpus_file.parent.parent, NOWHERE)))
    before.settle_index("v1")
    after = open_workspace(str(write_corpus(corpus_file.parent.parent, "index: {rrf_k: 7}\n")))
    assert after.index_options("v1") == before.corpus.index
    assert after.index_options("v1").weights == {"title": 2, "text": 1}
    assert after.index_options("from before any of this") == IndexOptions()


def test_ranking_by_the_corpus_file(corpus_file: Path) -> None:
    workspace = open_workspace(str(write_corpus(corpus_file.parent.parent, RANKED)))
    assert refresh(workspace).published
    published = PublishedCorpus(workspace)
    try:
        for mode in MODES:
            hits = published.search("what does the steel winch take", mode=mode, k=3).hits
            assert hits[0].source == "winch.pdf"
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    finally:
        published.close()
