"""Ray Jobs: work on a cluster that survives its caller, submitted once and found again by name."""

import asyncio
import contextlib
import itertools
import logging
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue

from ray_jobs.cluster import token_refused
from schemas.errors import TransientError, UserError
from schemas.printing import line

Answer = TypeVar("Answer")

_POLL_S = 5.0
_SILENT_S = 60.0
"""Seconds within which the job server answers."""


@dataclass(frozen=True)
class Job:
    """A job with its files in its working folder; at most one of a ``name`` runs, and Ray's dashboard shows ``about``."""

    name: str
    command: str
    files: Mapping[str, bytes]
    runtime_env: Mapping[str, JsonValue]
    about: Mapping[str, str]


@dataclass(frozen=True)
class JobState:
    """State of a job; ``exit_code`` is None if its process was ended, ``message`` is Ray's."""

    status: str
    exit_code: int | None
    message: str

    @property
    def over(self) -> bool:
        """Whether the job ended."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


class JobServer:
    """The job server of a Ray cluster; each call raises ``TransientError`` if it doesn't answer."""

    def __init__(self, address: str) -> None:
        try:
            from ray.job_submission import JobSubmissionClient
        except ImportError as error:
            raise UserError("Ray is not installed; run: pip install 'inset[ray]'") from error
        # Airflow takes what Ray logs to standard error for errors.
        for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._address = address
        self._client: Any = self._call(lambda: JobSubmissionClient(address))

    def start(self, job: Job) -> tuple[str, bool]:
        """Start a job unless it is running; return its id, and whether it was started.

        A job that ended is started again under a new id, so that its log is kept.
        """
        for number in itertools.count(1):
            job_id = f"{job.name}-{number}"
            state = self.state_of(job_id)
            if state is None and self._submit(job_id, job):
                return job_id, True
            # Another caller may have submitted the job between the two requests, so its state is read again.
            state = state or self.state_of(job_id)
            if state is not None and not state.over:
                return job_id, False
        raise AssertionError

    def _submit(self, job_id: str, job: Job) -> bool:
        """Submit a job; return False if another caller was faster."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in job.files.items():
                file = Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            env = {**job.runtime_env, "working_dir": folder}
            try:
                self._call(
                    lambda: self._client.submit_job(
                        entrypoint=job.command, submission_id=job_id, runtime_env=env, metadata=dict(job.about)
                    )
                )
            except TransientError:
                # Ray reports an id that is taken like any other error, so only the job's existence tells them apart.
                if self.state_of(job_id) is None:
                    raise
                return False
        return True

    def state_of(self, job_id: str) -> JobState | None:
        """Return the state of a job; None if it doesn't exist."""
        try:
            job_info = self._call(lambda: self._client.get_job_info(job_id))
        except TransientError as error:
            if "status code 404" in error.message:
                return None
            raise
        return JobState(str(job_info.status), job_info.driver_exit_code, job_info.message or "")

    def stop(self, job_id: str) -> None:
        """Stop a job if it is running."""
        state = self.state_of(job_id)
        if state is not None and not state.over:
            self._call(lambda: self._client.stop_job(job_id))

    async def lines(self, job_id: str) -> AsyncGenerator[str, None]:
        """Yield the lines of a job's log as they come, until it ends.

        The log is read again and again: a tail of it ends early, and is never closed where a machine is lost.
        """
        yielded, is_over = 0, False
        while not is_over:
            is_over = await self._is_over(job_id)
            text = await asyncio.to_thread(self._job_log, job_id)
            *lines, last_line = text.split("\n")
            # While the job runs, its last line may be unfinished.
            lines += [last_line] if is_over and last_line else []
            for line_text in lines[yielded:]:
                yield line_text
            yielded = max(yielded, len(lines))
            if not is_over:
                await asyncio.sleep(_POLL_S)

    def _job_log(self, job_id: str) -> str:
        """Return the log of a job so far; "" if it can't be read now."""
        with contextlib.suppress(TransientError):
            logs: str = self._call(lambda: self._client.get_job_logs(job_id))
            return logs
        return ""

    async def _is_over(self, job_id: str) -> bool:
        try:
            state = await asyncio.wait_for(asyncio.to_thread(self.state_of, job_id), _SILENT_S)
        except TimeoutError as error:
            raise TransientError(f"Ray's job server at {self._address} doesn't answer") from error
        return state is None or state.over

    def _call(self, request: Callable[[], Answer]) -> Answer:
        from ray.exceptions import AuthenticationError

        try:
            return request()
        except AuthenticationError as error:
            raise token_refused(f"Ray's job server at {self._address}") from error
        except (RuntimeError, OSError) as error:  # those of requests are OSErrors
            raise TransientError(f"Ray's job server at {self._address}: {line(str(error))}"[:500]) from error
