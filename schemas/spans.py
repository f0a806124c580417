"""Spans of OpenTelemetry below that of a request: its steps, embeddings and calls of models.

Where no SDK is set up, a span costs next to nothing and goes nowhere. No span holds text of a question or a document.
"""

from contextlib import AbstractContextManager

from opentelemetry import trace

_tracer = trace.get_tracer("inset")


def span(name: str) -> AbstractContextManager[trace.Span]:
    """Return a span below the current one; it is the current one while it is open."""
    return _tracer.start_as_current_span(name)


def side_span(name: str) -> trace.Span:
    """Return a span below the current one, which stays current, for work that others interrupt; ``end`` it."""
    return _tracer.start_span(name)
