"""Models that answer questions, in a process that lives longer than an outage."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline.corpus.models import Embedders, QueryModels, loaded
from schemas.corpus.models import EmbeddingModels, EntryKind, ModelEntry
from schemas.errors import TransientError
from schemas.models import Reply, Request
from schemas.versions import VectorSpace
from tests.endpoint_server import EndpointServer, status
from tests.pipeline.records.test_spaces import CARD, Hashed
from tests.pipeline.records.test_spaces import model as hashed

FAILURES = 25
"""More than those in a row after which a refresh sends no more."""


def test_a_model_is_asked_again_after_an_outage(endpoint: EndpointServer) -> None:
    model = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": endpoint.url, "retries": 0}}
    options = {"llm": ModelEntry.model_validate(model)}

    def ask() -> object:
        *_, outcome = QueryModels(options, {})["llm"].stream(Request.of("it", "What is it?"))
        return outcome

    endpoint.script(*[status(500)] * FAILURES)
    assert all(isinstance(ask(), TransientError) for _ in range(FAILURES))
    assert isinstance(ask(), Reply)


class Slow:
    """A scorer whose load takes until it is released."""

    def __init__(self) -> None:
        self.began, self.released = threading.Event(), threading.Event()

    def load(self, _batch: int) -> "Slow":
        self.began.set()
        assert self.released.wait(60)
        return self


def test_the_load_of_a_reranker_holds_up_no_search_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr("backends.models.passage_scorers.model", lambda _where, _options: slow)
    monkeypatch.setattr("backends.models.sentence_transformer.model", hashed)
    loaded.cache_clear()
    reranker = ModelEntry(kind=EntryKind.CROSS_ENCODER, model="acme/slow", revision="1")
    embedders = Embedders({"text": VectorSpace(model=CARD, key="")}, EmbeddingModels(), EmbeddingModels)
    models = QueryModels({"reranker": reranker}, embedders)
    with ThreadPoolExecutor(2) as threads:
        loading = threads.submit(models.__getitem__, "reranker")
        try:
            assert slow.began.wait(60)
            assert isinstance(threads.submit(embedders.__getitem__, "text").result(20), Hashed)
        finally:
            slow.released.set()
        assert loading.result(60) is slow
    loaded.cache_clear()
