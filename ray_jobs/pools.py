"""Run batches on a pool of Ray actors that survives the death of actors and nodes; every row yields one outcome."""

import contextlib
import gc
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from ray_jobs.cluster import connected, is_this_machine, last_line
from schemas.corpus.operations import RayOptions
from schemas.errors import BadInputError, FailureCode, InsetError, TransientError, UserError
from schemas.printing import line

_logger = logging.getLogger(__name__)

Batch = Sequence[tuple[str, Any]]

Run = Callable[[Iterable[Batch]], Iterator[Any]]
"""Runs batches, and yields the values of their rows in order."""

FEW_DOCUMENTS = 1_000
"""Up to so many documents are assembled or checked in one process, which is faster than starting Ray."""

_RETRIES = 3
"""Retries of a batch, or of a worker's start, after the actor died."""
_IN_FLIGHT = 2
"""Batches queued at an actor, so that it never idles."""
_PLACED_WITHIN_S = 600.0
"""Seconds without any running actor until the cluster counts as full: it may have to start a node first."""


_ADD_OR_ASK_LESS = "add such a node, or let actors take less in the corpus file (gpus: auto runs on CPUs)"
_DEAD_ACTOR_S = 60.0
"""Seconds in which Ray notices that a call of a dead actor stays without an answer."""


I = TypeVar("I")  # noqa: E741 -- input
O = TypeVar("O")  # noqa: E741 -- output


@dataclass(frozen=True)
class RowFailure:
    """Why a row has no output."""

    code: FailureCode
    message: str


@dataclass(frozen=True)
class Outcome(Generic[O]):
    """A row's value or failure."""

    row_id: str
    value: O | None
    failure: RowFailure | None = None


def attempt(rows: Sequence[tuple[str, I]], call: Callable[[I], O]) -> list[Outcome[O]]:
    """Run ``call`` on each row; a ``BadInputError`` fails that row, any other error is raised."""
    outcomes: list[Outcome[O]] = []
    for row_id, row in rows:
        try:
            outcomes.append(Outcome(row_id, call(row)))
        except BadInputError as error:
            outcomes.append(Outcome(row_id, None, RowFailure(error.code, error.message)))
    return outcomes


def outcomes_of_batch(rows: Sequence[tuple[str, Any]], value: O) -> list[Outcome[O]]:
    """Return the outcomes of rows that have one value together: the first has it, the others None."""
    return [Outcome(row_id, value if index == 0 else None) for index, (row_id, _) in enumerate(rows)]


@contextlib.contextmanager
def errors_as_bad_input(task: str) -> Iterator[None]:
    """Turn unexpected errors of pure work, and a lack of memory, into a ``BadInputError`` of its input."""
    try:
        yield
    except InsetError:
        raise
    except MemoryError as error:
        raise BadInputError(f"{task} takes more memory than there is", FailureCode.MEMORY_LIMIT) from error
    except Exception as error:
        raise BadInputError(f"{task} failed: {type(error).__name__}: {error}"[:300], FailureCode.CRASHED) from error


class Actor(Protocol):
    """Processes batches; made once in each process, where it loads its models."""

    def run(self, batch: Any) -> list[Outcome[Any]]:
        """Return one outcome for each row."""
        ...


def run_pool(
    actor: Callable[..., Actor],
    arguments: Sequence[Any],
    batches: Iterable[Batch],
    *,
    workers: int,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Generator[list[Outcome[Any]], None, None]:
    """Yield the outcomes of each batch as it is finished, in no particular order.

    ``batches`` have at least one row each, ``(row_id, input)``, and are taken as actors become free; ``workers`` is the
    most actors, which are started as there is work. ``actor`` is a class that workers can import, ``arguments`` those of
    its constructor, and CPUs and GPUs (perhaps a fraction) are those of each actor. Leaving the generator ends them.

    A dead actor is replaced, on another node if need be, and its batch is tried again. A batch that keeps killing actors is
    split, so that only the row at fault fails. A batch that runs out of memory, of a GPU or of the process, is halved, down
    to a row that fails with ``MEMORY_LIMIT``.

    Raises:
        TransientError: An actor can't be started, or the cluster has no room for one.
        UserError: This machine can't hold such an actor.
        InsetError: Raised by an actor's constructor or ``run``.
    """
    with contextlib.closing(_Pool(actor, tuple(arguments), workers, {"CPU": num_cpus, "GPU": num_gpus})) as pool:
        yield from _run(pool, batches)


@contextlib.contextmanager
def ordered_pool(
    actor: Callable[..., Actor], arguments: Sequence[Any], ray: RayOptions, *, documents: int
) -> Iterator[Run]:
    """Yield a function that runs batches, and yields the values that aren't None in the order of the rows; ids are unique.

    Actors, one for each CPU, stay for all calls. For few ``documents``, or if Ray would have one CPU of this machine
    alone, a single one is made in this process, without Ray. Raises ``TransientError`` if a row failed; else as
    ``run_pool`` does.
    """
    if documents <= FEW_DOCUMENTS or (ray.address is None and (ray.num_cpus or os.cpu_count() or 1) == 1):
        local = actor(*arguments)
        yield lambda batches: _values(chain.from_iterable(map(local.run, batches)))
        return
    with connected(ray) as cpus, contextlib.closing(_Pool(actor, tuple(arguments), cpus, {"CPU": 1, "GPU": 0})) as pool:
        yield lambda batches: _values(_in_order(pool, batches))


def _in_order(pool: "_Pool", batches: Iterable[Batch]) -> Iterator[Outcome[Any]]:
    unfinished_ids = deque[str]()
    early_outcomes: dict[str, Outcome[Any]] = {}

    def listed() -> Iterator[Batch]:
        for batch in batches:
            unfinished_ids.extend(row_id for row_id, _ in batch)
            yield batch

    for outcomes in _run(pool, listed()):
        early_outcomes |= {outcome.row_id: outcome for outcome in outcomes}
        # An outcome waits until those of all rows before it were yielded; a batch that is split keeps its row ids.
        while unfinished_ids and unfinished_ids[0] in early_outcomes:
            yield early_outcomes.pop(unfinished_ids.popleft())


def _values(outcomes: Iterable[Outcome[Any]]) -> Iterator[Any]:
    for outcome in outcomes:
        if outcome.failure is not None:
            raise TransientError(f"{outcome.row_id}: {outcome.failure.message}")
        if outcome.value is not None:
            yield outcome.value


def _run(pool: "_Pool", batches: Iterable[Batch]) -> Iterator[list[Outcome[Any]]]:
    waiting, remaining = deque[_Attempt](), iter(batches)
    outcome_batches: list[list[Outcome[Any]]] = []
    while True:
        free_slots = pool.room() - len(waiting)
        new_attempts = [_Attempt(batch) for batch in islice(remaining, max(0, free_slots))]
        waiting.extend(new_attempts)
        # Fewer batches than there is room for mean that no more come.
        pool.feed(waiting, last=len(new_attempts) < free_slots)
        yield from outcome_batches  # the actors work meanwhile
        if not waiting and not pool.busy():
            return
        outcome_batches = []
        for finished in pool.wait():
            retries, outcomes = _next_attempts(finished)
            waiting.extendleft(reversed(retries))
            outcome_batches += outcomes


@dataclass(frozen=True)
class _Attempt:
    """A batch, and the number of actors that died while they ran it."""

    batch: Batch
    deaths: int = 0


def _may_share(queue: "deque[tuple[Any, _Attempt]]", attempt: _Attempt) -> bool:
    """Return whether a batch may be queued behind others: one that killed an actor may lose the answer to the one before."""
    return not queue or (not attempt.deaths and not any(queued.deaths for _, queued in queue))


@dataclass(frozen=True)
class _NoMemory:
    """Answer of an actor that ran out of memory."""

    message: str


@dataclass(frozen=True)
class _Died:
    """Result of a batch whose actor died; ``begun`` is False if it was only queued."""

    begun: bool


_Finished = tuple[_Attempt, list[Outcome[Any]] | _NoMemory | _Died]


def _next_attempts(finished: _Finished) -> tuple[list[_Attempt], list[list[Outcome[Any]]]]:
    attempt, result = finished
    match result:
        case _NoMemory(message):
            if len(attempt.batch) == 1:
                return [], [_failed(attempt.batch, FailureCode.MEMORY_LIMIT, message)]
            middle = len(attempt.batch) // 2
            return [_Attempt(attempt.batch[:middle]), _Attempt(attempt.batch[middle:])], []
        case _Died(begun):
            if not begun:
                return [attempt], []
            if attempt.deaths < _RETRIES:
                return [_Attempt(attempt.batch, attempt.deaths + 1)], []
            # Alone, each row gets all tries again, so that only the one at fault fails.
            if len(attempt.batch) > 1:
                return [_Attempt([row]) for row in attempt.batch], []
            message = f"the worker died each of {_RETRIES + 1} times on this row"
            return [], [_failed(attempt.batch, FailureCode.MODEL_CRASHED, message)]
        case outcomes:
            return [], [outcomes]


def _failed(batch: Batch, code: FailureCode, message: str) -> list[Outcome[Any]]:
    row_id = batch[0][0]
    return [Outcome(row_id, None, RowFailure(code, message))]


class _Host:
    """The process of an actor. ``make`` is a call, so that errors of the constructor come back as they were raised."""

    def make(self, actor: Callable[..., Actor], arguments: tuple[Any, ...]) -> None:
        """Make the actor."""
        self._actor = actor(*arguments)

    def run(self, batch: Batch) -> list[Outcome[Any]] | _NoMemory:
        """Return the outcomes of a batch."""
        try:
            return self._actor.run(batch)
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
            message = line(f"there is not enough memory for it: {error}")[:300]
        # The error, which held the batch's memory, is gone now.
        gc.collect()
        if torch := sys.modules.get("torch"):
            torch.cuda.empty_cache()
        return _NoMemory(message)


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, of the process or of a GPU, for which torch has its own error."""
    causes = (error, error.__cause__)
    return any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for cause in causes for kind in type(cause).__mro__)


@dataclass(eq=False)
class _Worker:
    """An actor and its queued batches, oldest first; none before it is ready."""

    handle: Any
    starting: Any
    """What the pool waits for until the actor is ready: its process, then its constructor."""
    placed: bool = False
    is_ready: bool = False
    queue: "deque[tuple[Any, _Attempt]]" = field(default_factory=deque)


class _Pool:
    def __init__(
        self, actor: Callable[..., Actor], arguments: tuple[Any, ...], max_workers: int, resources: dict[str, float]
    ) -> None:
        import ray
        from ray import exceptions

        self._ray, self._max_workers, self._resources = ray, max_workers, resources
        # With restarts by Ray, it is unknown which batches were begun.
        self._host: Any = ray.remote(
            scheduling_strategy="SPREAD", max_restarts=0, num_cpus=resources["CPU"], num_gpus=resources["GPU"]
        )(_Host)
        self._constructor = actor, arguments
        self._workers: list[_Worker] = []
        self._failed_starts = 0
        self._check_room()
        self._death_errors = (
            exceptions.ActorDiedError,
            exceptions.ActorUnavailableError,
            exceptions.NodeDiedError,
            exceptions.ObjectLostError,
            exceptions.OutOfMemoryError,
            exceptions.WorkerCrashedError,
        )

    def room(self) -> int:
        """Return how many batches fit now."""
        return self._max_workers * _IN_FLIGHT - sum(len(worker.queue) for worker in self._workers)

    def busy(self) -> bool:
        """Return whether an actor has a batch."""
        return any(worker.queue for worker in self._workers)

    def feed(self, waiting: "deque[_Attempt]", *, last: bool) -> None:
        """Give batches to actors, and start actors for the rest; the ``last`` aren't queued behind others, to share the work."""
        ready_workers = [worker for worker in self._workers if worker.is_ready]
        # The first round gives idle actors a batch, and the second gives each one more to have at hand.
        for depth in range(1 if last else _IN_FLIGHT):
            # Starting actors get one each before any gets a second.
            spare = 0 if depth == 0 else self._max_workers - len(ready_workers)
            for worker in ready_workers:
                if len(waiting) > spare and len(worker.queue) == depth and _may_share(worker.queue, waiting[0]):
                    attempt = waiting.popleft()
                    worker.queue.append((worker.handle.run.remote(attempt.batch), attempt))
        starting = len(self._workers) - len(ready_workers)
        for _ in range(min(self._max_workers - len(self._workers), len(waiting) - starting)):
            handle = self._host.remote()
            self._workers.append(_Worker(handle, handle.__ray_ready__.remote()))

    def wait(self) -> list[_Finished]:
        """Wait for an event; return the batches that are finished, or whose actor died."""
        holders = {ref: worker for worker in self._workers for ref, _ in worker.queue}
        holders |= {worker.starting: worker for worker in self._workers if not worker.is_ready}
        # Once an actor has a place, a batch may take any time; before that, the cluster may never have room.
        has_room = any(worker.placed for worker in self._workers)
        ready_refs, _ = self._ray.wait([*holders], num_returns=1, timeout=None if has_room else _PLACED_WITHIN_S)
        if not ready_refs:
            raise TransientError(
                f"{self._no_room_message()} free within {_PLACED_WITHIN_S / 60:.0f} minutes; {_ADD_OR_ASK_LESS}"
            )
        worker = holders[ready_refs[0]]
        if not worker.is_ready:
            self._continue_start(worker)
            return []
        try:
            result = self._ray.get(ready_refs[0])
        except self._death_errors:
            return self._remove_dead(worker)
        except self._ray.exceptions.RayTaskError as error:
            raise _original_error(error) from None
        position = next(position for position, (ref, _) in enumerate(worker.queue) if ref == ready_refs[0])
        attempt = worker.queue[position][1]
        del worker.queue[position]
        return [(attempt, result)]

    def close(self) -> None:
        """End the actors."""
        while self._workers:
            self._end(self._workers.pop())

    def _check_room(self) -> None:
        """Raise if this machine is too small; a cluster, which may add a node, only gets a warning."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= count for name, count in self._resources.items()) for node in nodes):
            if is_this_machine():
                raise UserError(f"{self._no_room_message()}; {_ADD_OR_ASK_LESS}")
            _logger.warning("%s; waiting %.0f minutes for one", self._no_room_message(), _PLACED_WITHIN_S / 60)

    def _no_room_message(self) -> str:
        resources = " and ".join(f"{count:g} {name}" for name, count in self._resources.items() if count)
        return f"no node of the Ray cluster has {resources}"

    def _end(self, worker: _Worker) -> None:
        with contextlib.suppress(Exception):  # Ray may be gone
            self._ray.kill(worker.handle)

    def _continue_start(self, worker: _Worker) -> None:
        try:
            self._ray.get(worker.starting)
        except self._ray.exceptions.RayTaskError as error:
            raise _start_error(error) from None
        except self._death_errors as error:
            self._failed_starts += 1
            if self._failed_starts > _RETRIES * self._max_workers:
                raise TransientError(f"a worker of Ray can't be started: {last_line(error)}") from error
            self._remove_dead(worker)
        except self._ray.exceptions.RayError as error:
            raise TransientError(f"a worker of Ray can't be started: {last_line(error)}") from error
        else:
            if worker.placed:
                worker.is_ready, self._failed_starts = True, 0
            else:
                # The constructor is a second step: to load a model may take minutes, in which the cluster doesn't count
                # as full.
                worker.placed = True
                worker.starting = worker.handle.make.remote(*self._constructor)

    def _remove_dead(self, worker: _Worker) -> list[_Finished]:
        """Remove a dead actor, and return the results of its batches, which it ran in order."""
        self._workers.remove(worker)
        self._end(worker)
        finished: list[_Finished] = []
        # The actor was at the first batch without an answer when it died; those behind it had not begun, and bear no blame.
        may_have_run = True
        for ref, attempt in worker.queue:
            try:
                finished.append((attempt, self._ray.get(ref, timeout=_DEAD_ACTOR_S)))
            except (*self._death_errors, self._ray.exceptions.GetTimeoutError):
                finished.append((attempt, _Died(may_have_run)))
                may_have_run = False
            except self._ray.exceptions.RayTaskError as error:
                raise _original_error(error) from None
        return finished


def _original_error(error: Any) -> BaseException:
    if isinstance(error.cause, InsetError):
        return error.cause
    original: BaseException = error.as_instanceof_cause()
    return original


def _start_error(error: Any) -> InsetError:
    cause = error.cause
    if isinstance(cause, InsetError):
        return cause
    if "failed to import on the worker" in str(cause) or isinstance(cause, ModuleNotFoundError):
        why = f"it lacks code that is here ({last_line(cause)}); see docs/guides/run-on-a-ray-cluster.md"
    else:
        first, *_ = str(cause).splitlines() or [""]
        why = f"{type(cause).__name__}: {line(first)}"[:500]
    return TransientError(f"a worker of Ray can't be started: {why}")
