"""The Python client: every operation, errors, tries, streams."""

import asyncio
import inspect
import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from inset_client import AnswerEvent, ApiError, AsyncClient, Client
from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from schemas.answers import AnswerStarted, TextDelta
from schemas.errors import TransientError
from tests.query_service.fake_corpus import DOC_ID, FIGURE_ID, LIVE, FakeCorpus, Released
from tests.query_service.live import serving

API = json.loads((Path(__file__).parent.parent / "golden" / "openapi.json").read_text(encoding="utf-8"))
LEFT_OUT = {
    "healthz": "for the process that restarts the service",
    "readyz": "for the proxy before the service",
    "metrics": "Prometheus has a client of its own",
}
SET = {"table": {"format": "json"}}
"""Parameters that a method sets itself."""
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in API["paths"].items()
    for method, operation in methods.items()
    if operation["operationId"] not in LEFT_OUT
}


@pytest.fixture
def inset(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


def scripted(*replies: httpx.Response) -> tuple[Client, list[httpx.Request]]:
    """Return a client that gets these replies, and the requests that it has sent; the last reply is given again and again."""
    sent: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return replies[min(len(sent), len(replies)) - 1]

    return Client("http://inset.example/below/", transport=httpx.MockTransport(reply)), sent


def test_what_is_left_out_of_the_client_is_there() -> None:
    operation_ids = {operation["operationId"] for methods in API["paths"].values() for operation in methods.values()}
    assert set(LEFT_OUT) <= operation_ids
    assert len(OPERATIONS) == len(operation_ids) - len(LEFT_OUT)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_a_method_with_all_its_parameters(name: str, kind: type[Client] | type[AsyncClient]) -> None:
    method, path, operation = OPERATIONS[name]
    requests: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json=[])

    arguments = {
        location: {parameter["name"]: "7" for parameter in operation.get("parameters", []) if parameter["in"] == location}
        for location in ("path", "query")
    }
    path_names = re.findall(r"{(\w+)}", path)
    client = kind("http://inset.example/below/", transport=httpx.MockTransport(reply))
    result = getattr(client, name)(*(arguments["path"][path_name] for path_name in path_names), **arguments["query"])
    if inspect.isawaitable(result):
        asyncio.run(_value(result))
    assert [requests[0].method, requests[0].url.path] == [method, "/below" + re.sub(r"{\w+}", "7", path)]
    assert dict(requests[0].url.params) == arguments["query"] | SET.get(name, {})


async def _value(result: Any) -> Any:
    return await result


def test_names_stay_within_their_part_of_a_path() -> None:
    client, sent = scripted(httpx.Response(200, json={}))
    client.overview("../../metrics?x#y")
    assert sent[0].url.raw_path == b"/below/v1/corpora/..%2F..%2Fmetrics%3Fx%23y"


def test_a_round_trip(inset: Client, corpus: FakeCorpus) -> None:
    result = inset.search("pumps", query="valve", k=3, filters={"has_figure": True})
    assert result["hits"][0]["figures"][0]["figure_id"] == FIGURE_ID
    assert (corpus.queries[-1].k, corpus.queries[-1].filters.has_figure) == (3, True)
    assert [part["type"] for part in inset.answer("pumps", question="valve?")["parts"]] == ["text", "figure"]
    assert inset.figure("pumps", FIGURE_ID, version=LIVE) == b"pixels"
    assert inset.page_image("pumps", DOC_ID, 3, box=["1,2,3,4", "5,6,7,8"], dpi=72) == b"page"
    drawn = {"doc_id": DOC_ID, "page": 3, "highlight": [(1, 2, 3, 4), (5, 6, 7, 8)], "dpi": 72, "version": None}
    assert corpus.calls[-1] == drawn
    assert inset.document("pumps", DOC_ID).startswith(b"%PDF")
    assert inset.tagged_document("pumps", DOC_ID).endswith(b"tagged")
    assert inset.corpora()[0]["name"] == "pumps"
    assert inset.document_info("pumps", DOC_ID)["pages"] == 4


def test_feedback_is_sent(inset: Client, corpus: FakeCorpus) -> None:
    assert inset.feedback("pumps", question="valve?", helpful=True, comment="thanks") == {"id": "1a2b3c4d"}
    assert corpus.feedback[-1]["comment"] == "thanks"


def test_a_round_trip_without_waiting(url: str) -> None:
    async def ask() -> tuple[str, Sequence[str], bytes]:
        async with AsyncClient(url) as inset:
            result, picture = await asyncio.gather(inset.search("pumps", query="valve"), inset.figure("pumps", FIGURE_ID))
            events = [event["event"] async for event in inset.answer_events("pumps", question="valve?")]
            return result["version"], events, picture

    assert asyncio.run(ask()) == (LIVE, ["start", "part", "part", "result"], b"pixels")


def test_an_error_has_what_the_service_says(inset: Client) -> None:
    with pytest.raises(ApiError, match=r"^404 not_found: there is no corpus 'nothing'; served here: pumps$") as raised:
        inset.overview("nothing")
    error = raised.value
    assert (error.status, error.code, error.retry_after_s, len(error.request_id)) == (404, "not_found", None, 16)


def test_a_key_is_sent(corpus: FakeCorpus, tmp_path: Path) -> None:
    key = new_key()
    (tmp_path / "keys.jsonl").write_text(key_line(Key(name="team", sha256=digest(key), corpora=("pumps",))))
    app = create_app({"pumps": corpus}, access=Access(KeyFile(tmp_path / "keys.jsonl")))
    with serving(app) as url:
        with Client(url, key) as inset:
            assert inset.search("pumps", query="valve")["hits"]
        with Client(url) as inset, pytest.raises(ApiError, match=r"^401 unauthorized: a key is needed"):
            inset.search("pumps", query="valve")


def refused(status: int, **headers: str) -> httpx.Response:
    problem = {"status": status, "code": "unavailable", "detail": "busy", "title": "", "type": "about:blank"}
    return httpx.Response(status, json=problem, headers={"content-type": "application/problem+json", **headers})


def test_a_request_is_sent_again_after_the_time_that_the_service_names() -> None:
    busy = {"retry-after": "0"}
    inset, sent = scripted(refused(503, **busy), refused(429, **busy), httpx.Response(200, json={"hits": []}))
    assert inset.search("pumps", query="valve")["hits"] == []
    assert [json.loads(request.content) for request in sent] == [{"query": "valve"}] * 3


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        (refused(503, **{"retry-after": "0"}), 4),
        (refused(503, **{"retry-after": "31"}), 1),
        (refused(503, **{"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}), 1),
        (refused(503), 1),
        (refused(500, **{"retry-after": "0"}), 1),
    ],
    ids=["always", "too long", "a date", "no time", "a fault"],
)
def test_tries_have_an_end(reply: httpx.Response, tries: int) -> None:
    inset, sent = scripted(reply)
    with pytest.raises(ApiError, match="busy"):
        inset.overview("pumps")
    assert len(sent) == tries


def test_an_error_of_a_proxy_is_one_too() -> None:
    inset, _ = scripted(httpx.Response(502, text="<html>"))
    with pytest.raises(ApiError, match=r"^502: Bad Gateway$"):
        inset.corpora()


def test_a_service_that_is_not_there_is_an_error_of_httpx() -> None:
    with Client("http://127.0.0.1:1") as inset, pytest.raises(httpx.ConnectError):
        inset.corpora()


class Cut(httpx.SyncByteStream):
    """A response cut into pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_are_whole_however_they_are_cut(size: int) -> None:
    text = '{"event": "text", "part": 0, "text": "für\u2028 \u0085 dich"}'
    sent = f": still here\n\nevent: text\ndata: {text}\n\nid: 7\nevent:text\ndata:{text}\n\n".encode()
    stream = Cut([sent[start : start + size] for start in range(0, len(sent), size)])
    inset, _ = scripted(httpx.Response(200, stream=stream))
    assert list(inset.answer_events("pumps", question="?")) == [json.loads(text)] * 2


def _streamed(inset: Client, corpus: FakeCorpus, *events: Any) -> tuple[Released, Generator[AnswerEvent, None]]:
    released = corpus.streams["slowly"] = Released(*events)
    return released, inset.answer_events("pumps", question="slowly")


STARTED = AnswerStarted(version=LIVE, preset="extractive")


def test_events_arrive_while_the_answer_is_written(inset: Client, corpus: FakeCorpus) -> None:
    released, events = _streamed(
        inset, corpus, STARTED, TextDelta(part=0, text="Turn"), TransientError("the model has left")
    )
    for event_name in ("start", "text"):
        released.release()
        assert next(events)["event"] == event_name
    released.release()
    with pytest.raises(ApiError, match=r"^503 unavailable: the model has left$"):
        next(events)


def test_closing_the_events_ends_the_answer(inset: Client, corpus: FakeCorpus) -> None:
    released, events = _streamed(inset, corpus, STARTED, STARTED)
    released.release()
    with closing(events):
        next(events)
    assert released.has_stopped.wait(30)


def test_an_error_before_the_first_event_has_its_status(inset: Client) -> None:
    with pytest.raises(ApiError, match=r"^404 not_found: there is no version"):
        next(inset.answer_events("pumps", question="valve?", version="20200101T000000Z-00000000"))


def test_the_items_of_a_list_are_read_page_after_page() -> None:
    replies = [
        httpx.Response(200, json={"items": items, "next": cursor}) for items, cursor in (([1, 2], "abc"), ([3], None))
    ]
    client, sent = scripted(*replies)
    assert list(client.items(client.document_rows, "pumps", DOC_ID, limit=2)) == [1, 2, 3]
    assert [request.url.query for request in sent] == [b"limit=2", b"limit=2&cursor=abc"]
