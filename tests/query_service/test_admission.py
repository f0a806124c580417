"""Kinds of requests, the queue, deadlines, and work that ends when nobody waits for it."""

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
from query_service.admission import Cost, FairSemaphore, cost_of_answer, cost_of_search
from query_service.app import create_app
from schemas.access import Principals
from schemas.evidence import SearchResult
from schemas.filters import Filters
from schemas.retrieval import AnswerQuery, Query
from tasks.answering.presets import changed, packaged
from tasks.answering.trace import Stopped, Trace
from tests.query_service.fake_corpus import DOC_ID, FakeCorpus, client_of

BASE = "/v1/corpora/pumps"
LATE = {"by": "late", "pool": 1000}


def _cost(text: str = "x", **options: Any) -> Cost:
    return cost_of_search(FakeCorpus("pumps"), Query(text, **options))


def test_requests_are_cheap_unless_they_compute_or_wait_for_a_model() -> None:
    assert _cost() is _cost(k=100) is _cost(filters=Filters(sources=["*"])) is Cost.CHEAP
    assert _cost(highlight=True) is _cost(filters=Filters(phrases=["oil"])) is Cost.EXPENSIVE
    assert _cost("", picture=b"x", highlight=True) is Cost.CHEAP, "no words, no sentences"
    assert _cost(steps={"rerank": [{"by": "late", "pool": 100}]}) is Cost.EXPENSIVE
    assert _cost(steps={"rerank": [{"by": "llm"}]}) is _cost(steps={"rerank": [{"by": "vlm"}]}) is Cost.WAITING
    answers = [cost_of_answer(FakeCorpus("pumps"), AnswerQuery("x", answer=name)) for name in (None, "generated")]
    assert answers == [Cost.EXPENSIVE, Cost.WAITING]


@pytest.mark.parametrize(("path", "body"), [("search", {"query": "x"}), ("answer", {"question": "x"})])
def test_rerankers_of_a_request_score_so_many_rows_at_most(path: str, body: dict[str, Any]) -> None:
    corpus = FakeCorpus("pumps")
    client = client_of(create_app({"pumps": corpus}))
    response = client.post(f"{BASE}/{path}", json={**body, "steps": {"rerank": [LATE] * 5}})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("the rerankers of this request score 5000 rows, of 1000 at most")
    assert (corpus.queries, corpus.answer_queries) == ([], [])


def test_what_the_operator_has_chosen_is_never_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = changed(packaged()["hybrid"], {"rerank": [LATE] * 2})
    monkeypatch.setattr(FakeCorpus, "plan", lambda _, query: changed(preset, query.steps))
    client = client_of(create_app({"pumps": FakeCorpus("pumps")}))
    assert client.post(f"{BASE}/search", json={"query": "x"}).status_code == 200
    assert client.post(f"{BASE}/search", json={"query": "x", "steps": {"rerank": [LATE] * 3}}).status_code == 422


def test_places_go_round_the_callers() -> None:
    async def run() -> list[str]:
        semaphore, order = FairSemaphore(1, 1), list[str]()
        await semaphore.acquire("greedy")

        async def wait(caller: str) -> None:
            await semaphore.acquire(caller)
            order.append(caller)
            semaphore.release(caller)

        waiting = [asyncio.create_task(wait(caller)) for caller in ("greedy", "greedy", "gone", "greedy", "other")]
        while semaphore.waiting < 5:
            await asyncio.sleep(0)
        waiting[2].cancel()
        semaphore.release("greedy")
        await asyncio.wait(waiting)
        return order

    assert asyncio.run(run()) == ["greedy", "other", "greedy", "greedy"]


class Slow(FakeCorpus):
    """Each search waits until it is released, or nobody waits for it."""

    def __init__(self) -> None:
        super().__init__("pumps")
        self.released, self.ended = threading.Event(), threading.Event()
        self.started = threading.Semaphore(0)
        self.at_work = self.most_at_work = 0

    def for_reader(self, principals: Principals | None) -> "Slow":
        return self

    def search(
        self, query: Query, stopped: Callable[[], bool] = lambda: False, *, calibrated: bool = False
    ) -> SearchResult:
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
    monkeypatch.setitem(admission.AT_ONCE, Cost.CHEAP, 2)
    monkeypatch.setattr(admission, "QUEUE", 6)  # half of it for one caller
    corpus = Slow()

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        searches = [asyncio.create_task(client.post(f"{BASE}/search", json={"query": "x"})) for _ in range(8)]
        while sum(task.done() for task in searches) < 3:
            await asyncio.sleep(0.01)
        corpus.released.set()
        return list(await asyncio.gather(*searches))

    replies = _asking(corpus, ask)
    assert sorted(reply.status_code for reply in replies) == [200] * 5 + [503] * 3
    assert corpus.most_at_work == 2
    busy = next(reply for reply in replies if reply.status_code == 503)
    assert int(busy.headers["retry-after"]) > 0
    assert busy.json()["detail"] == "too many requests are waiting; try again"


def test_a_client_with_many_connections_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "QUEUE", 20)
    corpus, share = Slow(), admission.SHARE[Cost.CHEAP]
    app = create_app({"pumps": corpus})

    async def run() -> tuple[int, list[int], int]:
        def client(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app, client=(address, 1))
            return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30)

        async with client("192.0.2.1") as greedy, client("192.0.2.2") as second_client:
            searches = [asyncio.create_task(greedy.post(f"{BASE}/search", json={"query": "x"})) for _ in range(share + 12)]
            while sum(task.done() for task in searches) < 2 or corpus.at_work < share:
                await asyncio.sleep(0.01)
            mine = asyncio.create_task(second_client.post(f"{BASE}/search", json={"query": "x"}))
            while corpus.at_work < share + 1:
                await asyncio.sleep(0.01)
            beside = corpus.most_at_work
            corpus.released.set()
            replies = await asyncio.gather(*searches)
            return beside, sorted(reply.status_code for reply in replies), (await mine).status_code

    assert asyncio.run(run()) == (
        share + 1,
        [200] * (share + 10) + [503] * 2,
        200,
    )


RERANKED = {"query": "x", "steps": {"rerank": [{"by": "late", "pool": 100}]}}
JUDGED = {"query": "x", "steps": {"rerank": [{"by": "llm"}]}}


def test_expensive_searches_compute_a_few_at_once_and_others_pass_them(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Slow()
    at_once_limit = admission.AT_ONCE[Cost.EXPENSIVE]
    for cost in Cost:
        monkeypatch.setitem(admission.SHARE, cost, 100)

    async def ask(client: httpx.AsyncClient) -> tuple[int, int]:
        def search(body: dict[str, Any]) -> "asyncio.Task[httpx.Response]":
            return asyncio.create_task(client.post(f"{BASE}/search", json=body))

        async def working(number: int) -> None:
            while corpus.at_work < number:
                await asyncio.sleep(0.01)

        expensive = [search(RERANKED) for _ in range(at_once_limit + 3)]
        await working(at_once_limit)
        passing_searches = [search({"query": "x"}) for _ in range(5)] + [search(JUDGED) for _ in range(2)]
        await working(at_once_limit + len(passing_searches))
        beside = corpus.most_at_work
        corpus.released.set()
        replies = await asyncio.gather(*expensive, *passing_searches)
        return beside, sum(reply.status_code == 200 for reply in replies)

    assert _asking(corpus, ask) == (at_once_limit + 7, at_once_limit + 3 + 7)


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
