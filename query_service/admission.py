"""Admit requests by price: bounded work at once, a bounded queue, and a deadline for each request.

A price is an estimate of the milliseconds of one core that a request takes. Cheap requests overtake expensive ones in the queue,
and one request takes at most two fifths of the capacity, so two expensive ones leave room for others. One caller computes
``SHARE`` requests at once, whatever connections it has. Of requests that compute in this process fewer work at once the more they
cost (``AT_ONCE``): threads share the interpreter, so each slows all others down.
"""

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from pipeline.published.corpus import PublishedCorpus
from pipeline.published.version import DEFAULT_K
from query_service.access import name_of
from query_service.access_log import address_of
from query_service.stream import disconnected
from schemas.errors import TransientError
from schemas.evidence import Filters
from schemas.retrieval import AnswerQuery, Judged, Nearness, Pages, Query, Scored, Seen, Steps
from tasks.answering.trace import Stopped

MOST_PRICE = 10_000.0
"""Default price above which a request is refused."""

DEADLINE_S = 60.0
"""Default time for a search, in seconds."""

ANSWER_DEADLINES = 5
"""Deadlines that an answer may take, since a model writes it."""

CAPACITY = 4_000.0
"""Price of the requests that work at once."""

CORES = os.cpu_count() or 1
AT_ONCE = {1_000.0: max(1, CORES - 1), 100.0: CORES + 1}
"""Requests of this price and above that compute at once; those that wait for a generative model aren't counted."""

QUEUE = 64
"""Requests that wait for capacity, and half as many of one caller; further ones get 503."""

SHARE = CORES + 1
"""Requests of one caller, a key or an address, that compute at once. More would be no faster: threads share the interpreter."""

THREADS = 32

RETRIEVER = 20.0
MODEL_CALL = 500.0
EXTRACTION = 100.0
SCORED_ROW = 12.0
PAGE_ROW = 0.2
NEAR_ROW = 0.1
HIT = 0.1
SENTENCES = 60.0
PHRASES = 200.0
GLOB = 20.0
"""Prices of a retriever, a call of a generative model, an answer without one, a row of a reranker, a hit, its sentences, all
phrases, and a glob.

Measured on one core beside other work: bm25 over 17,125 rows 19 ms; 5,000 rows through a late-interaction model over 60 s; the
nearest sentences of 100 hits 6 s; 5,000 texts read for phrases 100 ms.
"""

Reply = TypeVar("Reply")


def price(plan: Steps, *, hits: int = 0, filters: Filters | None = None, sentences: bool = False) -> float:
    """Return the price of a search.

    Args:
        plan: The steps.
        hits: Hits returned.
        filters: The request's filters.
        sentences: Whether the nearest sentence of each hit is found.
    """
    total = sum(RETRIEVER for _ in plan.retrievers) + hits * (HIT + SENTENCES * sentences)
    total += MODEL_CALL * sum(step is not None for step in (plan.describe, plan.rewrite))
    total += MODEL_CALL * (plan.documents is not None and plan.documents.reranked_by is not None)
    for step in plan.rerank:
        match step:
            case Scored():
                total += SCORED_ROW * step.pool
            case Judged() | Seen():
                total += MODEL_CALL
            case Pages():
                total += PAGE_ROW * step.pool
            case Nearness():
                total += NEAR_ROW * step.pool
    narrowed = [filters] if filters else []
    for each in (*narrowed, *(retriever.filters for retriever in plan.retrievers)):
        total += PHRASES * bool(each.phrases) + GLOB * len(each.sources)
    return total


def _waits_for_model(plan: Steps) -> bool:
    """Return whether a search calls a generative model."""
    steps = (plan.describe, plan.rewrite, plan.documents and plan.documents.reranked_by)
    return any(step is not None for step in steps) or any(isinstance(step, Judged | Seen) for step in plan.rerank)


class Admission:
    """Runs the work of requests in threads, as far as the capacity of this process goes.

    Args:
        most: Price above which a request is refused.
        deadline_s: Time for a request, in the queue and in work.
    """

    def __init__(self, most: float = MOST_PRICE, deadline_s: float = DEADLINE_S) -> None:
        self._most, self.deadline_s = most, deadline_s
        self._threads = ThreadPoolExecutor(THREADS, "request")
        self._working = 0.0
        self._computing: list[float] = []
        self._of_caller = Counter[str]()
        self._waiting: dict[asyncio.Future[None], str] = {}

    @property
    def waiting(self) -> int:
        """Requests that wait for capacity."""
        return len(self._waiting)

    def price_of_search(self, corpus: PublishedCorpus, query: Query, before: float = 0.0) -> tuple[float, bool]:
        """Return the price of a search, and whether it waits for a generative model.

        ``before`` is the price of the searches before it in one request.

        Raises:
            HTTPException: 422, it is too high, and higher than that of the preset as the operator has it; or too high with those
                before it.
            RequestError: There is no such preset.
        """
        plan, own = corpus.plan(query), corpus.plan(replace(query, steps={}))
        hits, sentences = query.k or plan.select.k or DEFAULT_K, bool(query.highlight and query.text)
        asked = price(plan, hits=hits, filters=query.filters, sentences=sentences)
        self._check(asked, price(own, hits=DEFAULT_K))
        if before and before + asked > self._most:
            raise HTTPException(
                422,
                f"the searches of this request are too expensive together: about {(before + asked) / 1000:.0f} s of one core, of "
                f"{self._most / 1000:g} at most; send this one in another request",
            )
        return asked, _waits_for_model(plan)

    def price_of_answer(self, corpus: PublishedCorpus, query: AnswerQuery) -> tuple[float, bool]:
        """Return what ``price_of_search`` does, of an answer; errors as there."""
        plan, own = corpus.plan(query), corpus.plan(replace(query, steps={}))
        rounds = query.settings.get("rounds", 1)
        is_written = corpus.is_written(query)
        written = MODEL_CALL if is_written else EXTRACTION
        asked = written + rounds * price(plan, filters=query.filters)
        self._check(asked, written + price(own))
        return asked, is_written

    def _check(self, asked: float, unchanged: float) -> None:
        if asked > max(self._most, unchanged):
            raise HTTPException(
                422,
                f"this request is too expensive: about {asked / 1000:.0f} s of one core, of {self._most / 1000:g} at most; ask "
                "for fewer hits, smaller pools of rerankers, or no highlight",
            )

    async def run(self, request: Request, asked: float, work: Callable[[], Reply], *, waits: bool = False) -> Reply:
        """Run work in a thread once there is capacity for its price, which is free again when the thread has ended.

        Args:
            request: The client's request: callers share the capacity.
            asked: The price.
            work: The work.
            waits: It mostly waits for a generative model.

        Raises:
            TransientError: Too many requests are waiting.
        """
        weight = min(asked, CAPACITY * 2 / 5)
        computes = 0.0 if waits else asked
        caller = caller_name(request)
        if self._is_full(weight, computes, caller):
            others = sum(other == caller for other in self._waiting.values())
            if len(self._waiting) >= QUEUE or others >= QUEUE // 2:
                raise TransientError("too many requests are waiting; try again")
        loop = asyncio.get_running_loop()
        while self._is_full(weight, computes, caller):
            turn = loop.create_future()
            self._waiting[turn] = caller
            try:
                await turn
            finally:
                del self._waiting[turn]
        self._working += weight
        self._computing.append(computes)
        self._of_caller[caller] += computes > 0
        running = self._threads.submit(copy_context().run, work)  # spans are below that of the request

        def ended(_: Future[Reply]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the service has ended
                loop.call_soon_threadsafe(self._release, weight, computes, caller)

        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    async def reply(
        self, request: Request, asked: float, work: Callable[[Callable[[], bool]], Reply], *, waits: bool = False
    ) -> Reply | None:
        """Return the result of work; None where the client disconnects first.

        Args:
            request: The client's request.
            asked: Its price.
            work: Is given a function that returns true once nobody waits for the result.
            waits: As for ``run``.

        Raises:
            TransientError: The deadline has passed, or too many requests are waiting.
        """
        stopped = threading.Event()
        working = asyncio.ensure_future(self.run(request, asked, lambda: _unless_stopped(work, stopped), waits=waits))
        leaving = asyncio.ensure_future(disconnected(request))
        try:
            async with asyncio.timeout(self.deadline_s):
                await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        except TimeoutError:
            raise late(self.deadline_s) from None
        finally:
            stopped.set()
            leaving.cancel()
            working.cancel()

    def close(self) -> None:
        """End waiting work; an app that is started again gets threads of its own."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._threads = ThreadPoolExecutor(THREADS, "request")

    def _is_full(self, weight: float, computes: float, caller: str) -> bool:
        if self._working > 0 and self._working + weight > CAPACITY:
            return True
        if computes and self._of_caller[caller] >= SHARE:
            return True
        return any(
            computes >= least and sum(other >= least for other in self._computing) >= most
            for least, most in AT_ONCE.items()
        )

    def _release(self, weight: float, computes: float, caller: str) -> None:
        self._working -= weight
        self._computing.remove(computes)
        self._of_caller[caller] -= computes > 0
        self._of_caller += Counter()  # forgets callers without requests
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)


def caller_name(request: Request) -> str:
    """Return whose share of the capacity a request takes: the name of its key or user, or its address."""
    return name_of(request.scope) or address_of(request.scope) or ""


def late(deadline_s: float) -> TransientError:
    """Return the error of a request that takes too long."""
    return TransientError(f"the request took longer than {deadline_s:g} s; ask for less, or try again")


def _unless_stopped(work: Callable[[Callable[[], bool]], Reply], stopped: threading.Event) -> Reply | None:
    try:
        return work(stopped.is_set)
    except Stopped:
        return None
