"""The task ``enrich``: in the worker that runs it, or as a job of a Ray cluster, for which no worker waits.

Where the corpus file names the job server of a cluster, the task submits a job there and hands over to a trigger: the triggerer
passes on what the job prints, and holds the run's lease, until it is over. A try that comes later finds the job that is under
way. Who marks the task failed, or clears it, ends the job.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from plugins.terms import in_airflow_terms, planned_as, run_name
from schemas.errors import ContractError, InsetError, TransientError
from schemas.stages import Stage

_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) +(.*)")
_RENEWED_EVERY_S = 60.0


class Enrich(BaseOperator):
    """Runs the stage ``enrich`` of a corpus file."""

    def __init__(self, *, corpus: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.corpus = corpus
        self._job: tuple[str, str] | None = None

    def execute(self, context: Any) -> None:
        """Run it here, or have it run on the cluster."""
        from pipeline import steps
        from pipeline.job import job_of
        from ray_jobs.submission import JobServer

        run, version = run_name(), planned_as("version")
        with in_airflow_terms():
            work = job_of(self.corpus, run, version)
            if work is None:
                steps.run_stage(Stage.ENRICH, self.corpus, run, version)
                return
            server = JobServer(work.server)
            job, began = server.start(work.job)
        self._job = work.server, job
        self.log.info("%s Ray job %s at %s", "submitted" if began else "already under way:", job, work.server)
        trigger = JobTrigger(server=work.server, job=job, store=work.store, run=run)
        self.defer(trigger=trigger, method_name="finish")

    def finish(self, context: Any, event: dict[str, Any]) -> None:
        """Take over when the job is over: succeed, fail for good, or fail so that it is tried again."""
        from pipeline.job import REFUSED

        with in_airflow_terms():
            if event["status"] == "SUCCEEDED":
                return
            if event["exit_code"] == REFUSED:
                raise ContractError(event["line"])
            raise TransientError(event["line"])

    def on_kill(self) -> None:
        """End the job; a task that is killed before it has handed over leaves none behind."""
        from ray_jobs.submission import JobServer

        if self._job is not None:
            server, job = self._job
            JobServer(server).stop(job)


class JobTrigger(BaseTrigger):
    """Follows a job until it is over.

    Args:
        server: The job server's address.
        job: The job's id.
        store: The corpus's store, for the lease.
        run: Who refreshes.
    """

    def __init__(self, *, server: str, job: str, store: str, run: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.server, self.job, self.store, self.run_name = server, job, store, run

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on."""
        arguments = {"server": self.server, "job": self.job, "store": self.store, "run": self.run_name}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Put what the job prints into the task's log, and fire when it is over."""
        from ray_jobs.submission import JobServer

        holding = asyncio.create_task(self._hold_lease())
        last = ""
        try:
            server = await asyncio.to_thread(JobServer, self.server)
            async for text in server.lines(self.job):
                last = self._passed_on(text) or last
            state = await asyncio.to_thread(server.state_of, self.job)
        except InsetError as error:
            yield _event("LOST", None, error.message)
            return
        finally:
            holding.cancel()
        if state is None:
            yield _event("LOST", None, f"the Ray job {self.job} is gone")
            return
        # A process that ended by itself has given its reason last; of one that was killed, only Ray knows why.
        own = state.exit_code in range(1, 128) and last
        why = own or f"the Ray job {self.job} {state.status.lower()}: {(state.message.splitlines() or [''])[0]}"
        yield _event(state.status, state.exit_code, why)

    async def on_kill(self) -> None:
        """End the job: somebody marked its task, or cleared it."""
        from ray_jobs.submission import JobServer

        def stop() -> None:
            JobServer(self.server).stop(self.job)

        await asyncio.to_thread(stop)

    def _passed_on(self, text: str) -> str:
        found = _LEVEL.fullmatch(text)
        level, message = (found[1], found[2]) if found else ("INFO", text)
        self.log.log(logging.getLevelNamesMapping()[level], "%s", message)
        return message.strip()

    async def _hold_lease(self) -> None:
        """Renew the run's lease: a job that waits for its place holds nothing yet."""

        def renew() -> None:
            from backends.stores.object_store import open_store
            from pipeline.records import lease

            # As with any renewal, a failed one is not the end: publishing checks the fence.
            with contextlib.suppress(InsetError):
                lease.acquire(open_store(self.store), self.run_name, tied_to_process=False)

        while True:
            await asyncio.to_thread(renew)
            await asyncio.sleep(_RENEWED_EVERY_S)


def _event(status: str, exit_code: int | None, why: str) -> TriggerEvent:
    payload = {"status": status, "exit_code": exit_code, "line": why}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
