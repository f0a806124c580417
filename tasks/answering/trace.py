"""Keep what each step of a search did."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from schemas.trace import TracedRow, TraceStep

ROWS_SHOWN = 20
"""Rows of a step that a trace keeps."""


@dataclass
class Doing:
    """A step that is under way; whoever does it fills in what came of it."""

    note: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    ranked: list[tuple[str, float]] = field(default_factory=list)

    def gave(self, ranked: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Keep the ranking that came of it, and return it."""
        self.ranked = list(ranked)
        return self.ranked


class Trace:
    """The steps of one search, in the order in which they ended.

    Args:
        clock: Returns seconds; by default no time passes.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.steps: list[TraceStep] = []
        self._clock = clock

    @contextlib.contextmanager
    def step(self, name: str, asked: str = "") -> Iterator[Doing]:
        """Do a step; it is kept when it ends."""
        doing, started = Doing(), self._clock()
        yield doing
        self.steps.append(
            TraceStep(
                step=name,
                asked=asked,
                candidates=len(doing.ranked),
                rows=[TracedRow(evidence_id=row, score=score) for row, score in doing.ranked[:ROWS_SHOWN]],
                note=doing.note,
                seconds=self._clock() - started,
                input_tokens=doing.input_tokens,
                output_tokens=doing.output_tokens,
            )
        )
