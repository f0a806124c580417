"""Spans of OpenTelemetry below that of a request: its steps, embeddings and calls of models.

Where no SDK is set up, a span costs next to nothing and goes nowhere. No span holds text of a question or a document.
``MEASURED`` receives the seconds of each, whether there is an SDK or not.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from opentelemetry import trace

_tracer = trace.get_tracer("inset")

MEASURED: ContextVar[Callable[[str, float], None]] = ContextVar("measured", default=lambda _name, _seconds: None)
"""Takes the name and the seconds of each span of a request, in whichever thread it ends."""


@contextlib.contextmanager
def span(name: str) -> Iterator[trace.Span]:
    """Return a span below the current one; it is the current one while it is open."""
    with _measured(name), _tracer.start_as_current_span(name) as current:
        yield current


@contextlib.contextmanager
def side_span(name: str) -> Iterator[trace.Span]:
    """Return a span below the current one, which stays current, for work that others interrupt."""
    with _measured(name):
        current = _tracer.start_span(name)
        try:
            yield current
        finally:
            current.end()


@contextlib.contextmanager
def _measured(name: str) -> Iterator[None]:
    measured, began = MEASURED.get(), time.perf_counter()
    try:
        yield
    finally:
        measured(name, time.perf_counter() - began)
