"""One JSON object in the log for each request, a trace span, and a request id.

The log has the name of the key, never the key; the template of the route, never the path or its parameters; and the question
only where the operator wants it.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from opentelemetry import propagate, trace
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query_service.access import name_of
from query_service.errors import CLIENT_GONE
from query_service.metrics import Metrics
from tasks.answering.trace import MEASURED

SLOW_S = 5.0
"""Default time above which a request goes to the log of slow ones, in seconds."""

REQUEST_ID = "x-request-id"

_EXCHANGE = "inset.exchange"
_WORDED = ("question", "follow_up")  # fields with the words of a reader
_NO_ROUTE = "none"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

access_logger = logging.getLogger("inset.access")
slow_logger = logging.getLogger("inset.slow")
_tracer = trace.get_tracer("inset.query_service")


@dataclass(frozen=True)
class LogOptions:
    """What is logged of requests."""

    slow_s: float = SLOW_S
    """Time above which a request goes to the log of slow ones, in seconds."""
    questions: bool = False
    """Whether the text of questions is logged."""


LOGS = LogOptions()


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
        self, app: ASGIApp, metrics: Metrics, options: LogOptions, client_of: Callable[[Scope], str | None]
    ) -> None:
        self._app, self._metrics, self._options, self._client_of = app, metrics, options, client_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
                exchange.route = getattr(scope.get("route"), "path", _NO_ROUTE)
                span.update_name(f"{method} {exchange.route}")
                span.set_attributes(_attributes(scope, method, exchange, status))
                self._metrics.request(method, exchange.route, status, seconds)
                self._log(scope, method, exchange, status, seconds)

    def _log(self, scope: Scope, method: str, exchange: Exchange, status: int, seconds: float) -> None:
        fields = {name: value for name, value in exchange.fields.items() if name not in _WORDED or self._options.questions}
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
        if seconds > self._options.slow_s:
            slow_logger.warning(json.dumps({"slow": True, **entry}))


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
    """Return the attributes of a span, by OpenTelemetry's names where it has some."""
    attributes: dict[str, str | int | None] = {
        "http.request.method": method,
        "http.route": exchange.route,
        "http.response.status_code": status,
        "inset.request_id": exchange.request_id,
        "inset.corpus": exchange.corpus,
        "inset.key": name_of(scope),
    }
    return {name: value for name, value in attributes.items() if value is not None}
