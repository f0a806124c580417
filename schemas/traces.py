"""What a request did: spans of OpenTelemetry, and the steps of a search."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from opentelemetry import trace
from pydantic import Field

from schemas.base import Frozen

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


class TracedRow(Frozen):
    """A row as a step ranked it."""

    evidence_id: str
    score: float


class TraceStep(Frozen):
    """One step of a search."""

    step: str = Field(description="Its name, such as retrieve: bm25.")
    asked: str = Field("", description="What it was asked: the words that it looked for.")
    candidates: int = Field(0, description="Rows, or documents, that it gave.")
    rows: list[TracedRow] = Field([], description="The best of them, best first.")
    note: str = Field("", description="What was out of the ordinary, such as a reply that couldn't be used.")
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
