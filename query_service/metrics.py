"""Metrics in the format of Prometheus. They name routes and corpora, never paths, keys or questions."""

from collections.abc import AsyncGenerator
from typing import cast

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pipeline.published.corpus import PublishedCorpus
from query_service.access import METRICS
from query_service.errors import Problem
from schemas.answers import AnswerEvent, AnswerFinished

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds of latency: from a cached figure to the deadline of an answer."""

_METHODS = {"GET", "HEAD", "POST", "OPTIONS"}


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "inset_http_request_seconds",
            "Time from a request to the end of its response; its count is that of requests.",
            ["method", "route", "status"],
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self.in_progress = Gauge(
            "inset_http_requests_in_progress", "Requests without a whole response.", registry=self._registry
        )
        self.waiting = Gauge("inset_requests_waiting", "Requests that wait for capacity.", registry=self._registry)
        self._versions_open = Gauge("inset_versions_open", "Open versions.", ["corpus"], registry=self._registry)
        self._tokens = Counter(
            "inset_answer_tokens",
            "Tokens of generative models in answers.",
            ["corpus", "direction"],
            registry=self._registry,
        )
        self._money = Counter(
            "inset_answer_money", "Cost of answers, by the prices of the corpus file.", ["corpus"], registry=self._registry
        )

    def watch(self, name: str, corpus: PublishedCorpus) -> None:
        """Report the open versions of a corpus."""
        self._versions_open.labels(name).set_function(lambda: corpus.versions_open)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._seconds.labels(method if method in _METHODS else "other", route, str(status)).observe(seconds)

    async def answered(self, corpus: str, events: AsyncGenerator[AnswerEvent, None]) -> AsyncGenerator[AnswerEvent, None]:
        """Pass the events of an answer on, and count what its models used."""
        try:
            async for event in events:
                if isinstance(event, AnswerFinished):
                    spent = event.result.spent
                    self._tokens.labels(corpus, "input").inc(spent.input_tokens)
                    self._tokens.labels(corpus, "output").inc(spent.output_tokens)
                    self._money.labels(corpus).inc(spent.money)
                yield event
        finally:
            await events.aclose()  # the client has left: the model stops

    def text(self) -> bytes:
        """Return all metrics."""
        return generate_latest(self._registry)


def metrics_of(request: Request) -> Metrics:
    """Return the metrics of the service that a request is for."""
    return cast(Metrics, request.app.state.metrics)


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
    """Metrics of this process for Prometheus: to this machine, and to keys with ``metrics: true``."""
    return Response(metrics_of(request).text(), media_type=CONTENT_TYPE_LATEST, headers={"cache-control": "no-store"})
