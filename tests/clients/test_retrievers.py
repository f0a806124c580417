"""The retrievers of LangChain and Haystack."""

import asyncio

import pytest

from inset_client import Client
from tests.query_service.fake_corpus import FIGURE_ID, HIT, LIVE, FakeCorpus


@pytest.fixture(autouse=True)
def nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")


def test_langchain_gets_documents(url: str, corpus: FakeCorpus) -> None:
    from inset_client.langchain import InsetRetriever

    with Client(url) as client:
        retriever = InsetRetriever(client=client, corpus="pumps", request={"k": 3, "preset": "bm25"})
        (document,) = retriever.invoke("valve")
        assert (document.id, document.page_content) == ("e1", HIT.text)
        about = {name: document.metadata[name] for name in ("source", "page", "version")}
        assert about == {"source": HIT.source, "page": 3, "version": LIVE}
        assert document.metadata["figures"][0]["figure_id"] == FIGURE_ID
        assert (corpus.queries[-1].query, corpus.queries[-1].k, corpus.queries[-1].preset) == ("valve", 3, "bm25")
        assert asyncio.run(retriever.ainvoke("valve")) == [document]
        assert retriever.batch(["valve", "pump"]) == [[document]] * 2


def test_haystack_gets_documents(url: str, corpus: FakeCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    from haystack import Pipeline

    from inset_client.haystack import InsetRetriever

    pipeline = Pipeline()
    pipeline.add_component("inset", InsetRetriever(url, "pumps", request={"k": 3, "filters": {"has_figure": True}}))
    monkeypatch.setenv("INSET_KEY", "inset_secret")
    stored = pipeline.dumps()
    assert "inset_secret" not in stored
    for each_pipeline in (pipeline, Pipeline.loads(stored, allowed_modules=["inset_client.haystack"])):
        (document,) = each_pipeline.run({"inset": {"query": "valve", "top_k": 2}})["inset"]["documents"]
        assert (document.id, document.content, document.score) == ("e1", HIT.text, HIT.score)
        assert (document.meta["source"], document.meta["page"], document.meta["version"]) == (HIT.source, 3, LIVE)
        query = corpus.queries[-1]
        assert (query.query, query.k, query.filters.has_figure) == ("valve", 2, True)
    pipeline.run({"inset": {"query": "valve", "filters": {"pages": [3]}}})
    assert (corpus.queries[-1].k, corpus.queries[-1].filters.pages, corpus.queries[-1].filters.has_figure) == (3, [3], None)
