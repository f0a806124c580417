"""The measures of a corpus that monitoring stores over time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from pipeline.corpus.workspace import open_workspace
from pipeline.operations.health import CorpusHealth
from pipeline.records.states import State
from schemas.errors import InsetError


class Measure(NamedTuple):
    """A gauge: its name, value and tags."""

    name: str
    value: float
    tags: dict[str, str]


def measures(health: CorpusHealth, now: datetime | None = None) -> Iterator[Measure]:
    """Yield the gauges of a corpus: its counts, gate margins, spending, ages in seconds, and a gauge a state (0 or 1)."""
    moment = now or datetime.now(UTC)
    corpus = {"corpus": health.corpus}
    for state in State:
        yield Measure("inset.state", float(health.state is state), {**corpus, "state": state})
    if health.counts is not None:
        for name, value in health.counts.totals().items():
            yield Measure(f"inset.{name}", value, corpus)
    for gate in health.gates:
        yield Measure("inset.gate_passed", float(gate.passed), {**corpus, "gate": gate.gate.replace(" ", "_")})
        if gate.margin is not None:
            yield Measure("inset.gate_margin", gate.margin, {**corpus, "gate": gate.gate.replace(" ", "_")})
    for stage, seconds in health.seconds.items():
        yield Measure("inset.stage_s", seconds, {**corpus, "stage": stage})
    yield Measure("inset.undone", health.undone, corpus)
    if health.spent is not None:
        yield Measure("inset.money", health.spent.money, corpus)
    for name, at in (("live_age_s", health.live_since), ("last_run_age_s", health.last_run)):
        if at is not None:
            yield Measure(f"inset.{name}", (moment - at).total_seconds(), corpus)


def engine_answers(health: CorpusHealth) -> bool | None:
    """Return whether the search engine of a corpus answers; None where the corpus can't be opened."""
    try:
        workspace = open_workspace(health.file)
    except InsetError:
        return None
    try:
        workspace.reach_engine()
    except InsetError:
        return False
    return True
