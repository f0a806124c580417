"""Telemetry of requests: one JSON object in the log, a trace span and a request id each, and metrics for Prometheus.

The log has the name of the key, never the key; the template of the route, never the path or its parameters; and the question
only if the operator wants it. Metrics name routes and corpora, never paths, keys or questions. With several workers,
``FOLDER`` names a folder in which each keeps its numbers, and any of them returns those of all.
"""

import contextlib
import json
import logging
import os
import re
import secrets
import struct
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import psutil
from fastapi import APIRouter, Response
from opentelemetry import propagate, trace
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.published.corpus import PublishedCorpus
from query_service.access import METRICS, name_of
from query_service.errors import CLIENT_GONE, Problem
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult
from schemas.versions import Spent
from tasks.answering.trace import MEASURED

REQUEST_ID = "x-request-id"

_EXCHANGE = "inset.exchange"
_WORDED = ("question", "follow_up")  # fields with the words of a reader
_NO_ROUTE = "none"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

access_logger = logging.getLogger("inset.access")
_tracer = trace.get_tracer("inset.query_service")

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds of latency: from a cached figure to the deadline of an answer."""

STEP_BUCKETS_S = (0.001, 0.0025, *BUCKETS_S)
"""Upper bounds of the time of a step: from the fusion of rankings to a call of a generative model."""

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which ``prometheus_client`` finds the folder; it reads it when it is imported."""

_TRIES, _PAUSE_S = 20, 0.01

_METHODS = {"GET", "HEAD", "POST", "OPTIONS"}

_COUNTERS = {
    "inset_answer_tokens": ("Tokens of generative models in answers.", "corpus", "direction"),
    "inset_answer_money": ("Cost of answers, by the prices of the corpus file.", "corpus"),
    "inset_feedback": ("What readers said of answers.", "corpus", "helpful", "reason"),
    "inset_questions": ("Questions to corpora that count them, by what became of them.", "corpus", "version", "outcome"),
    "inset_citations_opened": ("Cited pages and PDFs that readers opened.", "corpus"),
}
"""What each counts, and its labels."""


class Metrics:
    """The metrics of one process, or of all workers."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges: list[tuple[Gauge, Callable[[], float]]] = []
        self._seconds = Histogram(
            "inset_http_request_seconds",
            "Time from a request to the end of its response; its count is that of requests.",
            ["method", "route", "status"],
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._step_seconds = Histogram(
            "inset_step_seconds",
            "Time of the steps of searches and answers, of embeddings and of calls of models.",
            ["step"],
            buckets=STEP_BUCKETS_S,
            registry=self._registry,
        )
        self.in_progress = self._gauge("inset_http_requests_in_progress", "Requests without a whole response.")
        self._waiting = self._gauge("inset_requests_waiting", "Requests that wait for capacity.")
        self._versions_open = self._gauge("inset_versions_open", "Open versions.", "corpus")
        self._counters = {
            name: Counter(name, description, labels, registry=self._registry)
            for name, (description, *labels) in _COUNTERS.items()
        }

    def _gauge(self, name: str, description: str, *labels: str) -> Gauge:
        return Gauge(name, description, labels, registry=self._registry, multiprocess_mode="livesum")

    def watch(self, corpora: Mapping[str, PublishedCorpus], waiting: Callable[[], float]) -> None:
        """Report the open versions of corpora, and the requests that wait."""
        self._gauges.append((self._waiting, waiting))
        for name, corpus in corpora.items():
            self._gauges.append((self._versions_open.labels(name), partial(getattr, corpus, "versions_open")))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._update_gauges()
        # Clients may invent methods, and each would be a series of its own.
        self._seconds.labels(method if method in _METHODS else "other", route, str(status)).observe(seconds)

    def step(self, name: str, seconds: float) -> None:
        """Count a step, by its name in the trace of a search."""
        self._step_seconds.labels(name).observe(seconds)

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Add to one of ``_COUNTERS``, with its labels in their order."""
        self._counters[name].labels(*labels).inc(by)

    def spent(self, corpus: str, spent: Spent) -> None:
        """Count what models used for an answer."""
        self.count("inset_answer_tokens", corpus, "input", by=spent.input_tokens)
        self.count("inset_answer_tokens", corpus, "output", by=spent.output_tokens)
        self.count("inset_answer_money", corpus, by=spent.money)

    async def answered(
        self, corpus: str, events: AsyncGenerator[AnswerEvent, None], log: Callable[[AnswerResult], None]
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Pass the events of an answer on, count what its models used, and log its result."""
        try:
            async for event in events:
                if isinstance(event, AnswerFinished):
                    self.spent(corpus, event.result.spent)
                    log(event.result)
                yield event
        finally:
            await events.aclose()  # the client has left: the model stops

    def _update_gauges(self) -> None:
        """Set what is watched; with several workers, a gauge can't be a function that another process calls."""
        for gauge, value in self._gauges:
            gauge.set(value())

    def text(self) -> bytes:
        """Return all metrics."""
        self._update_gauges()
        folder = os.environ.get(FOLDER)
        if folder is None:
            return generate_latest(self._registry)
        # The gauges of a worker that died would be added to those of the others for ever.
        for process in {int(file.stem.rpartition("_")[2]) for file in Path(folder).glob("*.db")}:
            if not psutil.pid_exists(process):
                mark_process_dead(process, folder)  # type: ignore[no-untyped-call]
                for file in Path(folder).glob(f"*_{process}.db"):
                    with contextlib.suppress(FileNotFoundError):  # another worker was first
                        if not file.stat().st_size:  # it died before it wrote anything
                            file.unlink()
        registry = CollectorRegistry()
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        for _ in range(_TRIES):
            # A worker makes a file and then its size: between the two, it can't be read.
            with contextlib.suppress(struct.error):
                return generate_latest(registry)
            time.sleep(_PAUSE_S)
        return generate_latest(registry)


def metrics_of(request: Request) -> Metrics:
    """Return the metrics of the service that a request is for."""
    return cast(Metrics, request.app.state.metrics)


@dataclass
class Exchange:
    """What the log says about a request; parts of the service add what they know."""

    request_id: str
    client: str | None = None
    route: str = _NO_ROUTE
    corpus: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)


class Observed:
    """ASGI middleware around everything else, which measures and logs each request."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, logs_questions: bool, client_of: Callable[[Scope], str | None]
    ) -> None:
        self._app, self._metrics, self._logs_questions, self._client_of = app, metrics, logs_questions, client_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A client's id goes into the log and the response, so only a plain one is taken.
        sent_id = Headers(scope=scope).get(REQUEST_ID, "")
        exchange = Exchange(sent_id if _ID.fullmatch(sent_id) else secrets.token_hex(8), self._client_of(scope))
        scope.setdefault("state", {})[_EXCHANGE] = exchange
        started, status = time.perf_counter(), CLIENT_GONE

        async def with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = exchange.request_id
            await send(message)

        method = scope["method"]  # within, HEAD is GET
        parent = propagate.extract(dict(Headers(scope=scope)))
        with (
            self._metrics.in_progress.track_inprogress(),
            _tracer.start_as_current_span(method, parent, trace.SpanKind.SERVER) as span,
        ):
            measured = MEASURED.set(self._metrics.step)
            try:
                await self._app(scope, receive, with_id)
            finally:
                MEASURED.reset(measured)
                seconds = time.perf_counter() - started
                # The route is known only after the app has matched the path.
                exchange.route = getattr(scope.get("route"), "path", _NO_ROUTE)
                span.update_name(f"{method} {exchange.route}")
                span.set_attributes(_attributes(scope, method, exchange, status))
                self._metrics.request(method, exchange.route, status, seconds)
                self._log(scope, method, exchange, status, seconds)

    def _log(self, scope: Scope, method: str, exchange: Exchange, status: int, seconds: float) -> None:
        fields = {name: value for name, value in exchange.fields.items() if name not in _WORDED or self._logs_questions}
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request_id": exchange.request_id,
            "key": name_of(scope),
            "client": exchange.client,
            "method": method[:20],
            "route": exchange.route,
            "corpus": exchange.corpus,
            "status": status,
            "ms": round(seconds * 1000, 1),
            **fields,
        }
        access_logger.info(json.dumps(entry))


def note_corpus(request: Request, corpus: str) -> None:
    """Add to the log which corpus a request is for: one that is there, and that the caller may see."""
    if exchange := _exchange(request.scope):
        exchange.corpus = corpus


def describe(request: Request, **fields: Any) -> None:
    """Add to the log what a request asks; ``question`` is left out unless the operator wants it."""
    if exchange := _exchange(request.scope):
        exchange.fields.update(fields)


def address_of(scope: Scope) -> str | None:
    """Return the address that a request comes from."""
    exchange = _exchange(scope)
    return exchange.client if exchange else None


def _exchange(scope: Mapping[str, Any]) -> Exchange | None:
    return cast(Exchange | None, scope.get("state", {}).get(_EXCHANGE))


def _attributes(scope: Scope, method: str, exchange: Exchange, status: int) -> dict[str, str | int]:
    """Return the attributes of a span, by OpenTelemetry's names if it has some."""
    attributes: dict[str, str | int | None] = {
        "http.request.method": method,
        "http.route": exchange.route,
        "http.response.status_code": status,
        "inset.request_id": exchange.request_id,
        "inset.corpus": exchange.corpus,
        "inset.key": name_of(scope),
    }
    return {name: value for name, value in attributes.items() if value is not None}


router = APIRouter(
    responses={
        401: {"model": Problem, "description": "A key is needed."},
        403: {"model": Problem, "description": "The key may not read metrics."},
    }
)


@router.get(
    METRICS,
    tags=["operations"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": "inset_requests_waiting 0.0"}}}},
)
def metrics(request: Request) -> Response:
    """Metrics of the service for Prometheus: to this machine, and to keys with ``metrics: true``."""
    return Response(metrics_of(request).text(), media_type=CONTENT_TYPE_LATEST, headers={"cache-control": "no-store"})
