"""Run batches on a pool of Ray actors, and lose no batch to an actor that dies."""

from collections.abc import Iterator, Sequence
from typing import Any

import tenacity

from ray_jobs.rows import Outcome, RowFailure
from schemas.errors import FailureCode, TransientError

Batch = Sequence[tuple[str, Any]]

_RESTARTS = 3
_LOOKS = 16
"""Looks at an actor that is being restarted, less and less often: some three minutes together."""


def run_pool(
    actor: type, arguments: Sequence[Any], batches: Sequence[Batch], *, workers: int, num_gpus: float = 0
) -> Iterator[list[Outcome[Any]]]:
    """Yield the outcomes of each batch as it is finished, in no particular order.

    An actor that dies is restarted and its batch tried again. A batch that keeps killing actors is taken apart, so that
    only the row that does it fails. An actor that can't be made at all says nothing about any row.

    Args:
        actor: A class with ``run(batch) -> list[Outcome]``.
        arguments: What its constructor takes.
        batches: Rows as ``(row_id, input)``.
        workers: Actors at once.
        num_gpus: GPUs that each actor takes.

    Raises:
        TransientError: Ray lost a worker for a reason that is not the rows', or can't start one.
    """
    import ray
    from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

    remote: Any = ray.remote(num_cpus=1, num_gpus=num_gpus, max_restarts=-1)(actor)
    waiting: list[tuple[Batch, int]] = [(batch, 0) for batch in reversed(batches)]
    idle = [remote.remote(*arguments) for _ in range(min(workers, len(batches)))]
    running: dict[Any, tuple[Any, Batch, int]] = {}
    while waiting or running:
        while idle and waiting:
            batch, tries = waiting.pop()
            handle = idle.pop()
            running[handle.run.remote(batch)] = (handle, batch, tries)
        (done, *_), _rest = ray.wait(list(running), num_returns=1)
        handle, batch, tries = running.pop(done)
        idle.append(handle)
        try:
            yield ray.get(done)
        except RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except (RayActorError, OutOfMemoryError) as error:
            _wait_until_ready(handle)
            if tries < _RESTARTS:
                waiting.append((batch, tries + 1))
            elif len(batch) > 1:
                waiting.extend(([row], 0) for row in batch)
            elif batch:
                yield [_crashed(batch[0][0])]
            else:
                raise TransientError(f"Ray lost a worker: {error}") from error
    for handle in idle:
        ray.kill(handle)


def _crashed(row_id: str) -> Outcome[Any]:
    message = f"the worker died each of {_RESTARTS + 1} times on this row"
    return Outcome(row_id, None, RowFailure(row_id, FailureCode.MODEL_CRASHED, message))


def _wait_until_ready(handle: Any) -> None:
    """Return once an actor that died runs again; raise where it can't be made: a model that isn't there, or too large."""
    import ray
    from ray.exceptions import ActorUnavailableError, OutOfMemoryError, RayActorError

    restarting = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(ActorUnavailableError),
        stop=tenacity.stop_after_attempt(_LOOKS),
        wait=tenacity.wait_exponential(0.1, max=15),
        reraise=True,
    )
    try:
        restarting(lambda: ray.get(handle.__ray_ready__.remote()))
    except (RayActorError, OutOfMemoryError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise TransientError(f"a worker of Ray can't be started: {lines[-1] if lines else error}") from error


def cut_batches(rows: Sequence[tuple[str, Any]], size: int) -> list[Batch]:
    """Cut rows into batches of at most ``size``."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]
