"""Work on a Ray cluster that outlives whoever asked for it: Ray Jobs, submitted once and found again by name."""

import asyncio
import contextlib
import itertools
import logging
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue

from ray_jobs.cluster import token_refused
from schemas.errors import TransientError, UserError
from schemas.printing import line

Answer = TypeVar("Answer")

_LOOKS_AT_LOG = 3
_POLL_S = 2.0
_SILENT_S = 60.0
"""Seconds without a word of the server, after which it is asked whether it is there."""


@dataclass(frozen=True)
class Job:
    """What to run where.

    ``name`` makes it one job at a time, however often it is asked for. ``files`` lie in the folder that it runs in. ``about`` is
    shown beside it in Ray's dashboard.
    """

    name: str
    command: str
    files: Mapping[str, bytes]
    runtime_env: Mapping[str, JsonValue]
    about: Mapping[str, str]


@dataclass(frozen=True)
class JobState:
    """How far a job is: ``exit_code`` is None where its process didn't end by itself; ``message`` is Ray's."""

    status: str
    exit_code: int | None
    message: str

    @property
    def over(self) -> bool:
        """Whether nothing more happens."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


class JobServer:
    """The job server of a Ray cluster.

    Args:
        address: Its address, such as ``http://head:8265``.

    Raises:
        UserError: Ray isn't installed with what its jobs need.
        TransientError: It doesn't answer.
    """

    def __init__(self, address: str) -> None:
        try:
            from ray.job_submission import JobSubmissionClient
        except ImportError as error:
            raise UserError("Ray is not installed; run: pip install 'inset[ray]'") from error
        # What it packs, and where it sends it, is no news; on standard error, Airflow takes it for errors.
        for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._address = address
        self._client: Any = self._asked(lambda: JobSubmissionClient(address))

    def start(self, job: Job) -> tuple[str, bool]:
        """Start a job, unless it is under way; return its id, and whether it was started.

        A job that is over is another one, with an id of its own: what it printed stays with it.
        """
        for number in itertools.count(1):
            found = f"{job.name}-{number}"
            state = self.look(found)
            if state is None and self._submit(found, job):
                return found, True
            state = state or self.look(found)
            if state is not None and not state.over:
                return found, False
        raise AssertionError

    def _submit(self, job_id: str, job: Job) -> bool:
        """Submit a job; return False where somebody else was faster."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in job.files.items():
                file = Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            env = {**job.runtime_env, "working_dir": folder}
            try:
                self._asked(
                    lambda: self._client.submit_job(
                        entrypoint=job.command, submission_id=job_id, runtime_env=env, metadata=dict(job.about)
                    )
                )
            except TransientError:
                if self.look(job_id) is None:
                    raise
                return False
        return True

    def look(self, job_id: str) -> JobState | None:
        """Return how far a job is; None where there is no such job."""
        try:
            found = self._asked(lambda: self._client.get_job_info(job_id))
        except TransientError as error:
            if "status code 404" in error.message:
                return None
            raise
        return JobState(str(found.status), found.driver_exit_code, found.message or "")

    def stop(self, job_id: str) -> None:
        """Have a job end; nothing happens where it is over, or isn't there."""
        state = self.look(job_id)
        if state is not None and not state.over:
            self._asked(lambda: self._client.stop_job(job_id))

    async def lines(self, job_id: str) -> AsyncGenerator[str, None]:
        """Yield the lines that a job prints, as they come, until it is over.

        Raises:
            TransientError: The server doesn't answer any more.
        """
        import aiohttp

        seen = 0
        while True:
            passed, rest = 0, ""
            try:
                async with contextlib.aclosing(self._client.tail_job_logs(job_id)) as chunks:
                    while True:
                        # A machine that is gone closes no connection.
                        chunk = await asyncio.wait_for(anext(chunks), _SILENT_S)
                        *whole, rest = (rest + chunk).split("\n")
                        for text in whole:
                            passed += 1
                            if passed > seen:
                                seen = passed
                                yield text
            except (StopAsyncIteration, RuntimeError, OSError, TimeoutError, aiohttp.ClientError):
                pass
            if await self._is_over(job_id):
                for text in (await asyncio.to_thread(self._printed, job_id))[seen:]:  # who tails may miss the end
                    yield text
                return
            await asyncio.sleep(_POLL_S)

    def _printed(self, job_id: str) -> list[str]:
        for _ in range(_LOOKS_AT_LOG):  # its last line says why it failed
            try:
                found: str = self._asked(lambda: self._client.get_job_logs(job_id))
            except TransientError:
                time.sleep(_POLL_S)
                continue
            return found.removesuffix("\n").split("\n")
        return []  # nobody waits for what a job printed when the job is over

    async def _is_over(self, job_id: str) -> bool:
        try:
            state = await asyncio.wait_for(asyncio.to_thread(self.look, job_id), _SILENT_S)
        except TimeoutError as error:
            raise TransientError(f"Ray's job server at {self._address} doesn't answer") from error
        return state is None or state.over

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        from ray.exceptions import AuthenticationError

        try:
            return ask()
        except AuthenticationError as error:
            raise token_refused(f"Ray's job server at {self._address}") from error
        except (RuntimeError, OSError) as error:  # what requests raises is an OSError
            raise TransientError(f"Ray's job server at {self._address}: {line(str(error))}"[:500]) from error
