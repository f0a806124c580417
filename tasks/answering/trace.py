"""What a request did: spans of OpenTelemetry, and the steps of a search."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from opentelemetry import trace

from schemas.evidence import TracedRow, TraceStep

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


ROWS_SHOWN = 20
"""Rows of a step that a trace shows."""


class Stopped(BaseException):
    """Nobody waits for the search any more; not an ``Exception``, so that no handler of failures catches it."""


@dataclass
class StepRecord:
    """A step in progress; the step fills in its results."""

    step: str
    asked: str = ""
    note: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    ranked: list[tuple[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def finished(self) -> TraceStep:
        """The step as a trace shows it."""
        facts = {name: value for name, value in vars(self).items() if name != "ranked"}
        rows = [TracedRow(evidence_id=row, score=score) for row, score in self.ranked[:ROWS_SHOWN]]
        return TraceStep(**facts, candidates=len(self.ranked), rows=rows)

    def keep(self, ranked: list[tuple[str, float]]) -> list[tuple[str, float]]:
        """Record and return the resulting ranking."""
        self.ranked = ranked
        return ranked


class Trace:
    """The steps of one search, in the order in which they ended; parallel ones in the plan's order.

    The clock returns seconds; when ``stopped`` returns true nobody waits any more, and the next step raises ``Stopped``.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, stopped: Callable[[], bool] = lambda: False) -> None:
        self.stopped = stopped
        self._records: list[StepRecord] = []
        self._clock = clock

    @property
    def steps(self) -> list[TraceStep]:
        """The finished steps."""
        return [record.finished for record in self._records]

    @contextlib.contextmanager
    def step(self, name: str, query: str = "") -> Iterator[StepRecord]:
        """Run a step, in a span of its name, and record it when it ends."""
        if self.stopped():
            raise Stopped
        record, started = StepRecord(name, query), self._clock()
        with span(name) as measured:
            yield record
            measured.set_attribute("inset.candidates", len(record.ranked))
        record.seconds = self._clock() - started
        self._records.append(record)

    def branch(self) -> "Trace":
        """Return an empty trace with the same clock and stop, for a step that runs in parallel."""
        return Trace(self._clock, self.stopped)

    def join(self, branches: "Iterable[Trace]") -> None:
        """Add the steps of branches, in their order."""
        for branch in branches:
            self._records += branch._records
