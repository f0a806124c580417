"""The health of every corpus, read from pointers, leases and manifests only, and as measures for monitoring."""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from croniter import croniter

from backends.stores.object_store import open_store
from pipeline.corpus.schedules import CorpusSchedule
from pipeline.corpus.workspace import open_workspace
from pipeline.records.notes import LastRefresh
from pipeline.records.problems import problems_of, read_standing
from pipeline.records.states import State
from schemas.base import Frozen
from schemas.errors import DamagedError, InsetError
from schemas.gates import GateResult
from schemas.ports import ObjectStore
from schemas.printing import line
from schemas.versions import UNDONE, Counts, Spent

Found = TypeVar("Found")


class CorpusHealth(Frozen):
    """A corpus as an operator sees it.

    Attributes:
        runs: When it is refreshed, in words.
        state: The worst of what was found.
        problems: A line a problem, the worst first; [] if all is well.
        live: The live version; None if nothing is published.
        held: Whether refreshes are held back since a rollback.
        newest: The newest finished version, which the gates judged.
        question: Address of the question that waits for an answer, below that of Airflow; None if none does.
        refreshing: The run that holds the lease now; None if none does.
        last_run: When the last run ended, or was last alive; None if there was none.
        due: The next scheduled time; None without a schedule.
        counts: What the live version holds.
        spent: What making the live version cost.
        undone: Figures, pages and texts of the live version that are not read or described.
        seconds: Duration of each stage that made the live version.
        stored: Whether its store could be read, at least in part.
    """

    corpus: str
    file: str
    schedule: str | None
    state: State
    problems: list[str]
    runs: str = "by hand"
    live: str | None = None
    live_since: datetime | None = None
    held: bool = False
    newest: str | None = None
    question: str | None = None
    refreshing: str | None = None
    last_run: datetime | None = None
    due: datetime | None = None
    counts: Counts | None = None
    gates: list[GateResult] = []
    spent: Spent | None = None
    undone: int = 0
    seconds: dict[str, float] = {}
    stored: bool = False


def corpora_health(schedules: Sequence[CorpusSchedule], *, timeout_s: float = 5.0) -> list[CorpusHealth]:
    """Return the health of corpora, in their order.

    Stores are read at once. A corpus that is broken, or whose store doesn't answer within ``timeout_s``, costs its own entry.
    """
    moment = datetime.now(UTC)
    futures = [
        _in_thread((schedule.file, schedule.store), partial(corpus_health, schedule, moment)) for schedule in schedules
    ]
    wait(futures, timeout_s)
    late = f"the store didn't answer within {timeout_s:g} s; is it reachable?"
    return [
        future.result() if future.done() else _without_store(schedule, State.UNREACHABLE, late, moment)
        for schedule, future in zip(schedules, futures, strict=True)
    ]


_reading: dict[Hashable, "Future[Any]"] = {}
_lock = threading.Lock()


def _in_thread(key: Hashable, read: Callable[[], Found]) -> "Future[Found]":
    """Read in a thread, unless another request reads the same now: a store that never answers takes one thread only."""
    with _lock:
        running = _reading.get(key)
        if running is not None and not running.done():
            return running
        future = _reading[key] = Future[Found]()
    # A daemon, since a store that never answers must not keep the process.
    threading.Thread(target=lambda: future.set_result(read()), name="health", daemon=True).start()
    return future


def store_of(schedule: CorpusSchedule) -> ObjectStore:
    """Return the store of a corpus, opened once a process, since making a client of S3 is slow and not thread-safe."""
    with _lock:
        return _open_store(schedule.store)


@cache
def _open_store(address: str) -> ObjectStore:
    return open_store(address)


def corpus_health(schedule: CorpusSchedule, now: datetime) -> CorpusHealth:
    """Return the health of a corpus; what can't be read is a state of it, not an error."""
    if not schedule.store:
        return _without_store(schedule, State.BROKEN, schedule.problem, now)
    try:
        return _read_health(schedule, store_of(schedule), now)
    except DamagedError as error:
        return _without_store(schedule, State.DAMAGED, error.message, now)
    except InsetError as error:
        return _without_store(schedule, State.UNREACHABLE, error.message, now)
    except Exception as error:  # noqa: BLE001  must not hide the other corpora
        return _without_store(schedule, State.UNREACHABLE, line(f"{type(error).__name__}: {error}"[:300]), now)


def _without_store(schedule: CorpusSchedule, state: State, problem: str, now: datetime) -> CorpusHealth:
    return CorpusHealth(
        **_scheduled(schedule, now),
        state=State.BROKEN if schedule.problem else state,
        problems=[*schedule.problem.splitlines(), *(problem.splitlines() if problem != schedule.problem else [])],
    )


def _read_health(schedule: CorpusSchedule, store: ObjectStore, now: datetime) -> CorpusHealth:
    standing = read_standing(store, now)
    pointer, live, newest, last = standing.pointer, standing.live, standing.newest, standing.last
    problems = problems_of(schedule, store, standing, now)
    is_asking = any(problem.state is State.WAITING for problem in problems)
    return CorpusHealth(
        **_scheduled(schedule, now),
        state=problems[0].state if problems else State.OK,
        problems=[problem.message for problem in problems],
        live=pointer.version if pointer else None,
        live_since=pointer.since if pointer else None,
        held=pointer.held if pointer else False,
        newest=newest.version if newest else None,
        question=_question(schedule, last) if last and is_asking else None,
        refreshing=standing.refreshing,
        last_run=standing.last_run,
        counts=live.counts if live else None,
        gates=newest.gates if newest else [],
        spent=sum(live.spent.values(), Spent()) if live else None,
        undone=sum(live.work.get(name, 0) for name in UNDONE) if live else 0,
        seconds=live.timings_s if live else {},
        stored=True,
    )


def _question(schedule: CorpusSchedule, last: LastRefresh) -> str:
    run = quote(last.run_id.removeprefix("airflow:"))
    return f"dags/refresh_{schedule.name}/runs/{run}/tasks/{last.task}/required_actions"


def _scheduled(schedule: CorpusSchedule, now: datetime) -> dict[str, Any]:
    """Return the fields of a corpus's health that its file gives."""
    times, asset = schedule.schedule, schedule.operations.after_asset
    return {
        "corpus": schedule.name,
        "file": str(schedule.file),
        "schedule": times,
        "runs": times or (f"when {asset} is updated" if asset else "by hand"),
        "due": croniter(times, now).get_next(datetime) if times and croniter.is_valid(times) else None,
    }


class Measure(NamedTuple):
    """A gauge: its name, value and tags."""

    name: str
    value: float
    tags: dict[str, str]


def measures(health: CorpusHealth) -> Iterator[Measure]:
    """Yield the gauges of a corpus: its counts, gates, spending, ages in seconds, and a gauge a state (0 or 1)."""
    corpus = {"corpus": health.corpus}
    for state in State:
        yield Measure("inset.state", float(health.state is state), {**corpus, "state": state})
    if health.counts is not None:
        for name, value in health.counts.totals().items():
            yield Measure(f"inset.{name}", value, corpus)
    for gate in health.gates:
        yield Measure("inset.gate_passed", float(gate.passed), {**corpus, "gate": gate.gate.replace(" ", "_")})
    for stage, seconds in health.seconds.items():
        yield Measure("inset.stage_s", seconds, {**corpus, "stage": stage})
    yield Measure("inset.undone", health.undone, corpus)
    if health.spent is not None:
        yield Measure("inset.money", health.spent.money, corpus)
    for name, at in (("live_age_s", health.live_since), ("last_run_age_s", health.last_run)):
        if at is not None:
            yield Measure(f"inset.{name}", (datetime.now(UTC) - at).total_seconds(), corpus)


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
