"""One question to several corpora."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.published.across import composed, merged
from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult, TablePart, TextPart
from schemas.errors import TransientError
from schemas.evidence import SearchResult
from schemas.retrieval import AnswerQuery, Query
from tests.query_service.fake_corpus import CITATION, HIT, LIVE, FakeCorpus, client_of

SEARCH = {"query": "where is the valve"}


class Scored(FakeCorpus):
    """Finds a hit of each score."""

    def __init__(self, name: str, *scores: float, confidence: float = 0.9) -> None:
        super().__init__(name)
        self.scores, self.confidence = scores, confidence
        self.late: threading.Event | None = None
        self.ignored: list[str] = []

    def search(
        self, query: Query, stopped: Callable[[], bool] = lambda: False, *, calibrated: bool = False
    ) -> SearchResult:
        assert calibrated
        if self.late is not None:
            self.late.wait(20)
        super().search(query, stopped)
        hits = [
            HIT.model_copy(update={"evidence_id": f"{self.name}{rank}", "score": score})
            for rank, score in enumerate(self.scores)
        ]
        return SearchResult(version=LIVE, preset="hybrid", hits=hits[: query.k])

    def applicable(self, query: Any) -> tuple[Any, list[str]]:
        return replace(query, filters=query.filters.model_copy(update={"where": {}})), self.ignored

    def answer_events(self, query: AnswerQuery, stopped: Callable[[], bool] = lambda: False) -> Iterator[AnswerEvent]:
        if query.question == "busy":
            raise TransientError("the index does not answer")
        *_, last = super().answer_events(query, stopped)
        assert isinstance(last, AnswerFinished)
        yield AnswerFinished(result=last.result.model_copy(update={"confidence": self.confidence}))


@pytest.fixture
def corpora() -> dict[str, Scored]:
    return {"pumps": Scored("pumps", 0.9, 0.3, 0.5), "valves": Scored("valves", 0.8, 0.35, confidence=0.95)}


@pytest.fixture
def client(corpora: Mapping[str, FakeCorpus]) -> TestClient:
    return client_of(create_app(corpora))


def ids(reply: Any) -> list[str]:
    return [hit["evidence_id"] for hit in reply.json()["hits"]]


def test_hits_are_merged_by_calibrated_scores_in_each_corpus_own_order(client: TestClient) -> None:
    reply = client.post("/v1/search", json=SEARCH)
    # 0.3 and 0.5 of pumps are fitted by 0.4 each, since they stand in the other order.
    assert ids(reply) == ["pumps0", "valves0", "pumps1", "pumps2", "valves1"]
    scores = [hit["score"] for hit in reply.json()["hits"]]
    assert scores == pytest.approx([0.9, 0.8, 0.4, 0.4, 0.35])
    assert [(hit["corpus"], hit["version"]) for hit in reply.json()["hits"]][:2] == [("pumps", LIVE), ("valves", LIVE)]
    assert f"/v1/corpora/valves/rows/valves0?version={LIVE}" in reply.text
    parts = reply.json()["corpora"]
    assert [(part["name"], part["version"], part["problem"]) for part in parts] == [
        ("pumps", LIVE, ""),
        ("valves", LIVE, ""),
    ]
    assert reply.json()["more"] is False


def test_pages_of_hits_follow_one_another(client: TestClient, corpora: Mapping[str, Scored]) -> None:
    pages = [client.post("/v1/search", json=SEARCH | {"k": 2, "offset": offset}) for offset in (0, 2, 4)]
    assert [ids(page) for page in pages] == [["pumps0", "valves0"], ["pumps1", "pumps2"], ["valves1"]]
    assert [page.json()["more"] for page in pages] == [True, True, False]
    assert [query.k for query in corpora["pumps"].queries] == [3, 5, 7]


def test_one_answer_has_the_citations_of_all_that_are_sure(client: TestClient) -> None:
    answer = client.post("/v1/answer", json={"question": "where is the valve"}).json()
    assert [(cited["n"], cited["corpus"], cited["version"]) for cited in answer["citations"]] == [
        (1, "valves", LIVE),
        (2, "pumps", LIVE),
    ]
    texts = [(part.get("text"), part["citations"], part["folded"]) for part in answer["parts"] if part["type"] == "text"]
    assert texts == [("Turn the valve.", [1], False), ("pumps", [], True), ("Turn the valve.", [2], True)]
    streamed = client.post("/v1/answer", json={"question": "where is the valve", "stream": True}).text
    events = [line.partition(": ")[2] for line in streamed.splitlines() if line.startswith("event")]
    assert (events[0], events[-1]) == ("start", "result")
    assert json.loads(streamed.rstrip().rpartition("data: ")[2])["result"] == answer


def test_a_corpus_that_fails_is_named_and_left_out(
    client: TestClient, corpora: dict[str, Scored], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> SearchResult:
        raise ZeroDivisionError("a secret")

    corpora["pumps"].search = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        reply = client.post("/v1/search", json=SEARCH)
    assert ids(reply) == ["valves0", "valves1"]
    assert reply.json()["corpora"][0] == {
        "name": "pumps",
        "version": None,
        "preset": "",
        "problem": "it can't be asked; the service's log says why",
        "ignored": [],
    }
    refused = client.post("/v1/answer", json={"question": "busy"})
    assert (refused.status_code, refused.json()["detail"]) == (503, "the index does not answer")


def test_a_slow_corpus_is_left_out_after_the_deadline(corpora: dict[str, Scored]) -> None:
    corpora["pumps"].late = threading.Event()
    try:
        reply = client_of(create_app(corpora, deadline_s=0.3)).post("/v1/search", json=SEARCH)
    finally:
        corpora["pumps"].late.set()
    assert ids(reply) == ["valves0", "valves1"]
    assert "took longer than 0.3 s" in reply.json()["corpora"][0]["problem"]


def test_conditions_apply_where_a_corpus_has_the_field(client: TestClient, corpora: dict[str, Scored]) -> None:
    corpora["pumps"].ignored = ["product"]
    reply = client.post("/v1/search", json=SEARCH | {"filters": {"where": {"product": "PX-4"}}})
    assert [part["ignored"] for part in reply.json()["corpora"]] == [["product"], []]


def test_named_corpora_alone_are_asked_and_a_key_sees_its_own(corpora: dict[str, Scored], tmp_path: Path) -> None:
    key, file = new_key(), tmp_path / "keys"
    file.write_text(key_line(Key(name="k", sha256=digest(key), corpora=("valves",))))
    client = client_of(create_app(corpora, access=Access(KeyFile(file))))
    headers = {"x-api-key": key}
    reply = client.post("/v1/search", json=SEARCH, headers=headers)
    assert [part["name"] for part in reply.json()["corpora"]] == ["valves"]
    assert "pumps" not in reply.text
    hidden, absent = (
        client.post("/v1/search", json=SEARCH | {"corpora": ["valves", name]}, headers=headers)
        for name in ("pumps", "nones")
    )
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("pumps", "nones") == absent.text
    assert client.post("/v1/answer", json={"question": "valve?", "corpora": ["pumps"]}, headers=headers).status_code == 404
    assert client.post("/v1/search", json=SEARCH | {"version": LIVE}, headers=headers).status_code == 404
    assert client.post("/v1/search", json=SEARCH | {"corpora": []}, headers=headers).status_code == 422
    assert client.post("/v1/search", json=SEARCH).status_code == 401


def test_results_without_hits_and_unsure_answers_add_nothing() -> None:
    nothing = merged({"a": SearchResult(version=LIVE, preset="bm25", hits=[])}, {"b": "it is away"}, 0, 5)
    assert (nothing.hits, nothing.more, [part.name for part in nothing.corpora]) == ([], False, ["a", "b"])
    table = TablePart(rows=[["a"], ["b"]], figures=[], citations=[1])
    sure = AnswerResult(version=LIVE, abstained=False, confidence=0.5, parts=[table], citations=[CITATION])
    unsure = sure.model_copy(update={"unsure": True, "confidence": 0.9, "model": "m"})
    none = AnswerResult(version=LIVE, abstained=True, confidence=0.99, parts=[], citations=[])
    answer = composed({"unsure": unsure, "sure": sure, "none": none}, {})
    assert [citation.corpus for citation in answer.citations] == ["sure"]
    assert (answer.abstained, answer.unsure, answer.model, answer.parts) == (False, False, None, [table])
    assert composed({"none": none}, {}).abstained
    assert isinstance(composed({"x": sure, "y": sure}, {}).parts[1], TextPart)
