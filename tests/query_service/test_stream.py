"""Answers that are sent while they are written."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient

from query_service.app import create_app
from query_service.serve import listen, server_of
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult, AnswerStarted, PartFinished, TextDelta, TextPart
from schemas.errors import TransientError
from schemas.retrieval import AnswerQuery
from tests.query_service.fake_corpus import LIVE, FakeCorpus, client_of

BASE = "/v1/corpora/pumps"
PART = TextPart(text="Turn the valve.", citations=[])
RESULT = AnswerResult(version=LIVE, abstained=False, parts=[PART], citations=[])
EVENTS: list[AnswerEvent] = [
    AnswerStarted(version=LIVE, preset="written", model="small"),
    TextDelta(part=0, text="Turn the "),
    TextDelta(part=0, text="valve."),
    PartFinished(part=0, value=PART),
    AnswerFinished(result=RESULT),
]


def writing(write: Callable[[Callable[[], bool]], Iterator[AnswerEvent]]) -> FakeCorpus:
    corpus = FakeCorpus("pumps")
    corpus.streams["?"] = write
    return corpus


def client(corpus: FakeCorpus) -> TestClient:
    return client_of(create_app({"pumps": corpus}))


def events_in(body: str) -> list[tuple[str, Any]]:
    """Return the events of a body, in order."""
    events = []
    for block in body.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


@pytest.mark.parametrize(
    ("body", "headers"),
    [({"stream": True}, {}), ({}, {"accept": "text/event-stream"}), ({"stream": True}, {"accept": "*/*"})],
)
def test_events_come_in_order_and_the_last_is_the_whole_answer(body: dict[str, Any], headers: dict[str, str]) -> None:
    response = client(writing(lambda _: iter(EVENTS))).post(
        f"{BASE}/answer", json={"question": "?", **body}, headers=headers
    )
    assert response.headers["content-type"].startswith("text/event-stream")
    assert events_in(response.text) == [(event.event, event.model_dump(mode="json")) for event in EVENTS]


def test_every_event_follows_the_schema_of_the_api() -> None:
    document = client(writing(lambda _: iter(EVENTS))).get("/openapi.json").json()
    content = document["paths"]["/v1/corpora/{corpus}/answer"]["post"]["responses"]["200"]["content"]
    for event in EVENTS:
        sent = {"event": event.event, "data": event.model_dump_json()}
        jsonschema_rs.validate(content["text/event-stream"]["schema"], sent)


def test_without_a_stream_the_answer_is_the_result_alone() -> None:
    response = client(writing(lambda _: iter(EVENTS))).post(f"{BASE}/answer", json={"question": "?"})
    assert response.json() == RESULT.model_dump(mode="json")


@pytest.mark.parametrize("stream", [True, False])
def test_what_goes_wrong_before_the_first_event_is_an_error_as_anywhere(stream: bool) -> None:
    def fails(_: Callable[[], bool]) -> Iterator[AnswerEvent]:
        raise TransientError("the engine is away")
        yield

    response = client(writing(fails)).post(f"{BASE}/answer", json={"question": "?", "stream": stream})
    assert (response.status_code, response.json()["detail"]) == (503, "the engine is away")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [(TransientError("the engine is away"), "unavailable", "the engine is away"), (ZeroDivisionError(), "internal", "log")],
)
def test_what_goes_wrong_later_is_the_last_event(error: Exception, code: str, says: str) -> None:
    def fails(_: Callable[[], bool]) -> Iterator[AnswerEvent]:
        yield EVENTS[0]
        raise error

    events = events_in(client(writing(fails)).post(f"{BASE}/answer", json={"question": "?", "stream": True}).text)
    assert [name for name, _ in events] == ["start", "error"]
    assert events[-1][1]["code"] == code
    assert says in events[-1][1]["detail"]


def test_what_a_request_says_reaches_the_corpus() -> None:
    corpus = writing(lambda _: iter(EVENTS))
    body = {"question": " ? ", "answer": "written", "settings": {"rounds": 2}, "preset": "hybrid", "picture": "AAAA"}
    assert client(corpus).post(f"{BASE}/answer", json=body).status_code == 200
    expected = AnswerQuery("?", answer="written", settings={"rounds": 2}, preset="hybrid", picture=b"\0\0\0", history=[])
    assert corpus.answer_queries == [expected]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_client_that_leaves_ends_the_answer(stream: bool, first: bool) -> None:
    """However far the answer is: before its first event, or after it."""
    started, finished = threading.Event(), threading.Event()

    def write(stopped: Callable[[], bool]) -> Iterator[AnswerEvent]:
        if first:
            yield EVENTS[0]
        started.set()
        while not stopped():
            threading.Event().wait(0.005)
        finished.set()

    body = json.dumps({"question": "?", "stream": stream}).encode()
    head = f"POST {BASE}/answer HTTP/1.1\r\nhost: localhost\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"

    async def ask_and_leave() -> None:
        with listen("127.0.0.1", 0) as bound:
            server = server_of(create_app({"pumps": writing(write)}))
            serving = asyncio.ensure_future(server.serve(sockets=[bound]))
            _, writer = await asyncio.open_connection("127.0.0.1", bound.getsockname()[1])
            writer.write(head.encode() + body)
            assert await asyncio.to_thread(started.wait, 10)
            writer.close()
            assert await asyncio.to_thread(finished.wait, 10)
            server.should_exit = True
            await serving

    asyncio.run(ask_and_leave())
