"""Prices, the queue, deadlines, and work that ends when nobody waits for it."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from query_service import admission
from query_service.app import create_app
from schemas.evidence import Filters, SearchResult
from schemas.retrieval import Query
from tasks.answering.presets import changed, packaged
from tasks.answering.trace import Stopped, Trace
from tests.query_service.fake_corpus import DOC_ID, FakeCorpus, client_of

BASE = "/v1/corpora/pumps"
LATE = {"by": "late", "pool": 1000}


def test_a_price_grows_with_what_is_asked() -> None:
    plan = packaged()["hybrid"]
    cheap = admission.price(plan, hits=10)
    assert cheap < 100
    assert admission.price(plan, hits=100) > cheap
    assert admission.price(plan, hits=100, sentences=True) > 5_000
    assert admission.price(plan, filters=Filters(phrases=["oil"], sources=["*"])) > cheap
    assert admission.price(changed(plan, {"rerank": [LATE] * 5})) > 50_000
    seen, read = (admission.price(changed(plan, {"rerank": [{"by": kind}]})) for kind in ("vlm", "llm"))
    assert seen == read, "both are one call"
    assert all(admission.price(preset, hits=10) < admission.MOST_PRICE for preset in packaged().values())


@pytest.mark.parametrize(("path", "body"), [("search", {"query": "x"}), ("answer", {"question": "x"})])
def test_a_request_that_is_too_expensive_is_refused_before_it_is_searched(path: str, body: dict[str, Any]) -> None:
    corpus = FakeCorpus("pumps")
    client = client_of(create_app({"pumps": corpus}))
    response = client.post(f"{BASE}/{path}", json={**body, "steps": {"rerank": [LATE] * 5}})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("this request is too expensive: about 6")
    assert (corpus.queries, corpus.answer_queries) == ([], [])


def test_what_the_operator_has_chosen_is_never_too_expensive() -> None:
    client = client_of(create_app({"pumps": FakeCorpus("pumps")}, max_price=1.0))
    assert client.post(f"{BASE}/search", json={"query": "x"}).status_code == 200
    assert client.post(f"{BASE}/search", json={"query": "x", "k": 100}).status_code == 422


class Slow(FakeCorpus):
    """Each search waits until it is released, or nobody waits for it."""

    def __init__(self) -> None:
        super().__init__("pumps")
        self.released, self.ended = threading.Event(), threading.Event()
        self.started = threading.Semaphore(0)
        self.at_work = self.most_at_work = 0

    def search(self, query: Query, stopped: Callable[[], bool] = lambda: False) -> SearchResult:
        trace = Trace(stopped=stopped)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        self.started.release()
        try:
            while not self.released.is_set():
                with trace.step("wait"):
                    time.sleep(0.01)
            return super().search(query)
        finally:
            self.at_work -= 1
            self.ended.set()


def _asking(corpus: FakeCorpus, ask: Callable[[httpx.AsyncClient], Any], **options: float) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(create_app({"pumps": corpus}, **options))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as client:
            return await ask(client)

    return asyncio.run(run())


def test_work_at_once_is_bounded_and_so_is_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "CAPACITY", 100.0)
    monkeypatch.setattr(admission, "QUEUE", 6)  # half of it for one caller
    corpus = Slow()

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        asked = [asyncio.create_task(client.post(f"{BASE}/search", json={"query": "x"})) for _ in range(8)]
        while sum(each.done() for each in asked) < 3:
            await asyncio.sleep(0.01)
        corpus.released.set()
        return list(await asyncio.gather(*asked))

    replies = _asking(corpus, ask)
    assert sorted(reply.status_code for reply in replies) == [200] * 5 + [503] * 3
    assert corpus.most_at_work == 2
    busy = next(reply for reply in replies if reply.status_code == 503)
    assert int(busy.headers["retry-after"]) > 0
    assert busy.json()["detail"] == "too many requests are waiting; try again"


def test_a_client_with_many_connections_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "QUEUE", 20)
    corpus = Slow()
    app = create_app({"pumps": corpus})

    async def run() -> tuple[int, list[int], int]:
        def client(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app, client=(address, 1))
            return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30)

        async with client("192.0.2.1") as greedy, client("192.0.2.2") as other:
            asked = [
                asyncio.create_task(greedy.post(f"{BASE}/search", json={"query": "x"})) for _ in range(admission.SHARE + 12)
            ]
            while sum(each.done() for each in asked) < 2 or corpus.at_work < admission.SHARE:
                await asyncio.sleep(0.01)
            mine = asyncio.create_task(other.post(f"{BASE}/search", json={"query": "x"}))
            while corpus.at_work < admission.SHARE + 1:
                await asyncio.sleep(0.01)
            beside = corpus.most_at_work
            corpus.released.set()
            replies = await asyncio.gather(*asked)
            return beside, sorted(reply.status_code for reply in replies), (await mine).status_code

    assert asyncio.run(run()) == (admission.SHARE + 1, [200] * (admission.SHARE + 10) + [503] * 2, 200)


RERANKED = {"query": "x", "steps": {"rerank": [{"by": "late", "pool": 100}]}}
JUDGED = {"query": "x", "steps": {"rerank": [{"by": "llm"}]}}


def test_expensive_searches_compute_a_few_at_once_and_others_pass_them(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Slow()
    most = admission.AT_ONCE[1_000.0]
    monkeypatch.setattr(admission, "SHARE", 100)

    async def ask(client: httpx.AsyncClient) -> tuple[int, int]:
        def search(body: dict[str, Any]) -> "asyncio.Task[httpx.Response]":
            return asyncio.create_task(client.post(f"{BASE}/search", json=body))

        async def working(number: int) -> None:
            while corpus.at_work < number:
                await asyncio.sleep(0.01)

        expensive = [search(RERANKED) for _ in range(most + 3)]
        await working(most)
        others = [search({"query": "x"}) for _ in range(5)] + [search(JUDGED) for _ in range(2)]
        await working(most + len(others))
        beside = corpus.most_at_work
        corpus.released.set()
        replies = await asyncio.gather(*expensive, *others)
        return beside, sum(reply.status_code == 200 for reply in replies)

    assert _asking(corpus, ask) == (most + 7, most + 3 + 7)


def test_a_page_has_a_deadline() -> None:
    never_drawn = f"{BASE}/documents/{DOC_ID}/pages/9.png"
    reply = _asking(FakeCorpus("pumps"), lambda client: client.get(never_drawn), deadline_s=0.1)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert reply.json()["detail"] == "the request took longer than 0.1 s; ask for less, or try again"


def test_a_search_has_a_deadline_and_its_work_ends() -> None:
    corpus = Slow()
    reply = _asking(corpus, lambda client: client.post(f"{BASE}/search", json={"query": "x"}), deadline_s=0.1)
    assert (reply.status_code, reply.json()["code"]) == (503, "unavailable")
    assert reply.json()["detail"].startswith("the request took longer than 0.1 s")
    assert corpus.ended.wait(10)


def test_a_search_ends_when_its_client_leaves() -> None:
    corpus = Slow()

    async def run() -> None:
        body = b'{"query": "x"}'
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.to_thread(corpus.started.acquire)
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            pass

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        path = f"{BASE}/search"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": headers, "http_version": "1.1", "scheme": "http", "root_path": ""}
        await create_app({"pumps": corpus})(scope, receive, send)

    asyncio.run(run())
    assert corpus.ended.wait(10)


def test_a_stopped_search_starts_no_further_step() -> None:
    stops: list[bool] = []
    trace = Trace(stopped=lambda: bool(stops))
    with trace.step("first"):
        stops.append(True)
    for later in (trace, trace.branch()):
        with pytest.raises(Stopped), later.step("second"):
            pytest.fail("it ran")


SERVICE = """
import time
from query_service.app import create_app
from query_service.serve import serve
from tests.query_service.fake_corpus import FakeCorpus

class Slow(FakeCorpus):
    def search(self, query, stopped=None):
        print("searching", flush=True)
        time.sleep(60)

serve(create_app({"pumps": Slow("pumps")}), port=PORT)
"""


def test_the_service_ends_within_ten_seconds_whatever_is_at_work() -> None:
    from query_service.serve import listen

    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE.replace("PORT", str(port))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        asking = threading.Thread(target=_ask_when_it_is_up, args=(port,), daemon=True)
        asking.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "searching\n"
        started = time.monotonic()
        process.terminate()
        process.communicate(timeout=20)
        assert time.monotonic() - started < 10
    finally:
        process.kill()
        process.wait()


def _ask_when_it_is_up(port: int) -> None:
    for _ in range(300):
        try:
            httpx.post(f"http://localhost:{port}{BASE}/search", json={"query": "x"}, timeout=60)
        except httpx.ConnectError:
            time.sleep(0.1)
        except httpx.HTTPError:
            return
        else:
            return
