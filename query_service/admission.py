"""Admit requests to a semaphore of their kind, each with a bounded queue, and give each request a deadline.

Cheap requests run an engine's query or read a list. Expensive ones compute in this process: rerankers, nearest sentences,
phrases, extractive answers. The others wait for a generative model, or for a page that a child process draws. Threads share the
interpreter, so few expensive requests run at once. Places go round the callers: one has a share of them, whatever connections it
has.
"""

import asyncio
import contextlib
import os
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from pipeline.published.corpus import PublishedCorpus
from query_service.access import name_of
from query_service.errors import ClientGoneError
from query_service.stream import disconnected
from query_service.telemetry import address_of
from schemas.errors import TransientError
from schemas.retrieval import AnswerQuery, Judged, Preset, Query, Scored, Seen
from tasks.answering.trace import Stopped

DEADLINE_S = 60.0
"""Default time for a search, in seconds."""

ANSWER_DEADLINES = 5
"""Deadlines that an answer may take, since a model writes it."""

SCORED_ROWS = 1_000
"""Maximum rows that the rerankers of a request score, of all its rerank steps: some 12 ms of one core each."""

QUEUE = 64
"""Requests of a kind that wait, and half as many of one caller; further ones get 503."""

CORES = os.cpu_count() or 1


class Cost(StrEnum):
    """The kinds of requests, by what they mostly take."""

    CHEAP = "an engine's query"
    EXPENSIVE = "computation in this process"
    WAITING = "calls of a generative model"
    DRAWING = "pages drawn in child processes"


AT_ONCE = {Cost.CHEAP: 4 * CORES, Cost.EXPENSIVE: max(1, CORES - 1), Cost.WAITING: 16, Cost.DRAWING: 16}
"""Requests of each kind that run at once."""

SHARE = {Cost.CHEAP: CORES + 1, Cost.EXPENSIVE: max(1, CORES // 2), Cost.WAITING: 8, Cost.DRAWING: 8}
"""Those of one caller: a key, a user or an address."""

Reply = TypeVar("Reply")
Item = TypeVar("Item")


def cost_of_search(corpus: PublishedCorpus, query: Query) -> Cost:
    """Return the kind of a search.

    Raises:
        HTTPException: 422, its rerankers score too many rows, and more than those of the preset as the operator has it.
    """
    plan = _checked_plan(corpus, query)
    computes = bool(query.highlight and query.query) or bool(query.filters.phrases) or any(plan.rerank)
    return Cost.WAITING if _waits_for_model(plan) else Cost.EXPENSIVE if computes else Cost.CHEAP


def cost_of_answer(corpus: PublishedCorpus, query: AnswerQuery) -> Cost:
    """Return the kind of an answer; errors are those of ``cost_of_search``."""
    waits = _waits_for_model(_checked_plan(corpus, query)) or corpus.is_written(query)
    return Cost.WAITING if waits else Cost.EXPENSIVE


def _checked_plan(corpus: PublishedCorpus, query: Query | AnswerQuery) -> Preset:
    plan = corpus.plan(query)
    scored = _scored_rows(plan)
    if scored > SCORED_ROWS and scored > _scored_rows(corpus.plan(replace(query, steps={}))):
        raise HTTPException(
            422, f"the rerankers of this request score {scored} rows, of {SCORED_ROWS} at most; ask for smaller pools"
        )
    return plan


def _scored_rows(plan: Preset) -> int:
    return sum(step.pool for step in plan.rerank if isinstance(step, Scored))


def _waits_for_model(plan: Preset) -> bool:
    steps = (plan.describe, plan.rewrite, plan.documents and plan.documents.reranked_by)
    return any(step is not None for step in steps) or any(isinstance(step, Judged | Seen) for step in plan.rerank)


class FairSemaphore:
    """A semaphore of ``capacity`` places, ``share`` a caller at most, that go round the callers that wait. For one loop."""

    def __init__(self, capacity: int, share: int) -> None:
        self._capacity, self._share = capacity, share
        self._running = Counter[str]()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._waiting.values()))

    async def acquire(self, caller: str) -> None:
        """Wait for a place; raise ``TransientError`` if the queue is full, or the caller's half of it."""
        # Nobody is overtaken: while a place is free, all callers that wait have their share.
        if self._has_room(caller):
            self._running[caller] += 1
            return
        if self.waiting >= QUEUE or len(self._waiting.get(caller, ())) >= QUEUE // 2:
            raise TransientError("too many requests are waiting; try again")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(caller, turn)
            else:  # it had its place already
                self.release(caller)
            raise

    def release(self, caller: str) -> None:
        """Give a place back, to the caller that waits and was served longest ago."""
        self._running[caller] -= 1
        self._running += Counter()  # forgets callers without requests
        # A caller that has its share is passed over, and keeps its place in the order.
        for name, turns in self._waiting.items():
            if self._has_room(name):
                turn = turns[0]
                self._remove(name, turn)
                if name in self._waiting:
                    self._waiting.move_to_end(name)
                self._running[name] += 1
                turn.set_result(None)
                return

    def _has_room(self, caller: str) -> bool:
        return self._running.total() < self._capacity and self._running[caller] < self._share

    def _remove(self, caller: str, turn: asyncio.Future[None]) -> None:
        self._waiting[caller].remove(turn)
        if not self._waiting[caller]:
            del self._waiting[caller]


class Admission:
    """Runs the work of requests in threads, as many at once as the semaphore of their kind has places.

    ``deadline_s`` is the time for a request, in the queue and in work.
    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self.deadline_s = deadline_s
        self._semaphores = {cost: FairSemaphore(AT_ONCE[cost], SHARE[cost]) for cost in Cost}
        self._threads = ThreadPoolExecutor(sum(AT_ONCE.values()), "request")

    @property
    def waiting(self) -> int:
        """Requests that wait for capacity."""
        return sum(semaphore.waiting for semaphore in self._semaphores.values())

    async def run(self, request: Request, cost: Cost, call: Callable[[], Reply]) -> Reply:
        """Run work in a thread once there is a place, free again when the thread has ended; raises as ``acquire`` does."""
        caller = name_of(request.scope) or address_of(request.scope) or ""
        semaphore = self._semaphores[cost]
        loop = asyncio.get_running_loop()
        await semaphore.acquire(caller)
        running = self._threads.submit(copy_context().run, call)  # spans are below that of the request

        # Not in a ``finally``: a request that is cut off leaves its thread at work, which keeps the place.
        def ended(_: Future[Reply]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the service has ended
                loop.call_soon_threadsafe(semaphore.release, caller)

        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    async def stream(
        self, request: Request, cost: Cost, make: Callable[[Callable[[], bool]], Iterable[Item]], *, deadlines: int = 1
    ) -> AsyncGenerator[Item, None]:
        """Yield items that are made in a worker thread, which may take so many deadlines, until the client disconnects.

        ``make`` is given a function that returns true once nobody waits for the items. Raises what it and ``run`` raise.

        Raises:
            TransientError: The deadline has passed.
        """
        loop, deadline_s = asyncio.get_running_loop(), self.deadline_s * deadlines
        # One queue takes the items, and all that ends them: the end, an error, a disconnect and the deadline.
        queue: asyncio.Queue[Item | Exception | None] = asyncio.Queue()
        stopped = threading.Event()

        def work() -> None:
            with contextlib.suppress(Stopped):
                for item in make(stopped.is_set):
                    loop.call_soon_threadsafe(queue.put_nowait, item)

        async def until_disconnected() -> None:
            await disconnected(request)
            queue.put_nowait(None)

        async def running() -> None:
            try:
                await self.run(request, cost, work)
            except Exception as error:  # noqa: BLE001 - raised again where the items are read
                queue.put_nowait(error)
            else:
                queue.put_nowait(None)

        work_task, disconnect_task = asyncio.ensure_future(running()), asyncio.ensure_future(until_disconnected())
        late = TransientError(f"the request took longer than {deadline_s:g} s; ask for less, or try again")
        deadline = loop.call_later(deadline_s, queue.put_nowait, late)
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            # A thread can't be cancelled: it ends at its next step, once it sees that nobody waits.
            stopped.set()
            deadline.cancel()
            disconnect_task.cancel()
            work_task.cancel()

    async def reply(
        self, request: Request, cost: Cost, call: Callable[[Callable[[], bool]], Reply], *, deadlines: int = 1
    ) -> Reply:
        """Return the one item of ``stream``; raise ``ClientGoneError`` if the client has disconnected."""
        replies = self.stream(request, cost, lambda stopped: iter([call(stopped)]), deadlines=deadlines)
        async with contextlib.aclosing(replies):
            received = [reply async for reply in replies]
        if not received:
            raise ClientGoneError
        return received[0]

    def close(self) -> None:
        """End waiting work; an app that is started again gets threads of its own."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._threads = ThreadPoolExecutor(sum(AT_ONCE.values()), "request")
