"""The task ``enrich``, in the Airflow worker or as a job of a Ray cluster.

If the corpus file names a cluster, the task submits a job and defers to a trigger, which logs the job's output and renews the
run's lease until the job ends. A retry finds the running job. Marking the task failed, or clearing it, stops the job.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from plugins.airflow_run import logged_errors, planned, refresh_run, run_name
from schemas.errors import ContractError, InsetError, TransientError
from schemas.stages import Stage

if TYPE_CHECKING:
    from ray_jobs.submission import JobState

_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) +(.*)")
_RENEWED_EVERY_S = 60.0


class Enrich(BaseOperator):
    """Runs the stage ``enrich`` of a corpus file."""

    def __init__(self, *, corpus: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.corpus = corpus
        self._job: tuple[str, str] | None = None

    def execute(self, context: Any) -> None:
        """Run the stage here, or submit it to the cluster."""
        from pipeline.job import job_of
        from pipeline.run_log import log_note
        from ray_jobs.submission import JobServer

        run, version = run_name(), planned("version")
        with refresh_run(self.corpus, version) as refresh:
            submission = job_of(self.corpus, run, version)
            if submission is None:
                log_note(Stage.ENRICH, refresh.work(Stage.ENRICH, version))
                return
            server = JobServer(submission.server)
            job, began = server.start(submission.job)
        self._job = submission.server, job
        self.log.info("%s Ray job %s at %s", "submitted" if began else "already under way:", job, submission.server)
        trigger = JobTrigger(server=submission.server, job=job, store=submission.store, run=run)
        self.defer(trigger=trigger, method_name="finish")

    def finish(self, context: Any, event: dict[str, Any]) -> None:
        """Succeed, fail, or fail with a retry, depending on how the job ended."""
        from pipeline.job import REFUSED

        with logged_errors():
            if event["status"] == "SUCCEEDED":
                return
            if event["exit_code"] == REFUSED:
                raise ContractError(event["line"])
            raise TransientError(event["line"])

    def on_kill(self) -> None:
        """Stop the job of a task that is killed before it has deferred."""
        from ray_jobs.submission import JobServer

        if self._job is not None:
            server, job = self._job
            JobServer(server).stop(job)


class JobTrigger(BaseTrigger):
    """Follows a job until it ends.

    Args:
        server: The job server's address.
        job: The job's id.
        store: The corpus's store, which holds the lease.
        run: The run that holds the lease.
    """

    def __init__(self, *, server: str, job: str, store: str, run: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.server, self.job, self.store, self.run_name = server, job, store, run

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the trigger's class and arguments."""
        arguments = {"server": self.server, "job": self.job, "store": self.store, "run": self.run_name}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Log the job's output, and fire when the job ends."""
        from ray_jobs.submission import JobServer

        holding = asyncio.create_task(self._hold_lease())
        try:
            server = await asyncio.to_thread(JobServer, self.server)
            async for text in server.lines(self.job):
                level, message = _level_and_message(text)
                self.log.log(logging.getLevelNamesMapping()[level], "%s", message)
            state = await asyncio.to_thread(server.state_of, self.job)
        except InsetError as error:
            yield _event("LOST", None, error.message)
            return
        finally:
            holding.cancel()
        if state is None:
            yield _event("LOST", None, f"the Ray job {self.job} is gone")
            return
        yield _event(state.status, state.exit_code, _reason(self.job, state))

    async def on_kill(self) -> None:
        """Stop the job: its task was marked or cleared."""
        from ray_jobs.submission import JobServer

        def stop() -> None:
            JobServer(self.server).stop(self.job)

        await asyncio.to_thread(stop)

    async def _hold_lease(self) -> None:
        """Renew the run's lease, which a queued job doesn't do yet."""

        def renew() -> None:
            from backends.stores.object_store import open_store
            from pipeline.records import lease

            # A failed renewal is harmless: publishing checks the fence.
            with contextlib.suppress(InsetError):
                lease.renew(open_store(self.store), self.run_name)

        while True:
            await asyncio.to_thread(renew)
            await asyncio.sleep(_RENEWED_EVERY_S)


def _level_and_message(text: str) -> tuple[str, str]:
    match = _LEVEL.fullmatch(text)
    return (match[1], match[2].strip()) if match else ("INFO", text.rstrip())


def _reason(job: str, state: "JobState") -> str:
    """Return why a job ended: what its process printed last if it exited, else what Ray says."""
    # Ray's message is a line of its own, then the last lines of the log. Ray buffers the line that it writes to the log first,
    # so that it can stand behind the output of a short process.
    first, *printed = state.message.splitlines() or [""]
    printed = [text for text in printed if text.strip() and not text.startswith("Running entrypoint for job ")]
    if printed and state.exit_code in range(1, 128):
        return _level_and_message(printed[-1])[1]
    return f"the Ray job {job} {state.status.lower()}: {first}"


def _event(status: str, exit_code: int | None, why: str) -> TriggerEvent:
    payload = {"status": status, "exit_code": exit_code, "line": why}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
