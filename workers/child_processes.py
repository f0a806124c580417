"""Run tasks on documents in child processes with limits on time and memory.

Children are forked from a server that has imported PyMuPDF, so they start in milliseconds. They write results to the store
themselves; the parent gets only a short result.
"""

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any, Generic, TypeVar

import psutil

from backends.pdf.opening import LIBRARY
from schemas.corpus.parse import ParseOptions
from schemas.errors import BadInputError, FailureCode, InsetError
from schemas.printing import line
from workers.garbage import infrequent_gc

Task = TypeVar("Task")
Result = TypeVar("Result")

Work = Callable[[Task, Callable[[int], None]], Result]
"""Gets a task, and a function to call with the number of pages, which extends the time limit."""

POLL_S = 0.2
"""Seconds between two checks of running children."""
_IDLE_TIMES = 10
"""The time limit is CPU time, so that a busy machine fails nothing; wall time may be so many times longer."""

_NEAR_LIMIT = 0.3  # memory may double between two checks
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Done(Generic[Result]):
    """The task is done."""

    result: Result


@dataclass(frozen=True)
class Refused:
    """The document can't be processed."""

    code: FailureCode
    message: str
    page: int | None = None


@dataclass(frozen=True)
class _Began:
    """The child starts its work; the time before doesn't count."""


@dataclass(frozen=True)
class _Opened:
    pages: int


@dataclass(frozen=True)
class ChildError:
    """An error that the document didn't cause, such as of a store that did not answer."""

    error: InsetError


@dataclass
class RunningTask(Generic[Task]):
    """A task in its child process; ``reply`` is ready when there is a message, or the child ended."""

    task: Task
    limits: ParseOptions
    process: ForkServerProcess
    reply: Connection
    allowed_s: float
    began: float = math.inf
    most_bytes: int = 0

    def kill(self) -> None:
        """Kill the child."""
        self.process.kill()
        self.process.join()


def run_all(
    work: Work[Task, Result], tasks: Sequence[Task], limits: ParseOptions
) -> Generator[tuple[Task, Done[Result] | Refused], None, None]:
    """Run tasks, and yield each with its result as it is done, in no particular order.

    A task that crashes its process or exceeds its limits is refused; others aren't affected. ``work`` is a module-level
    function; its ``BadInputError`` refuses the task. Tasks and results are pickled.

    Raises:
        InsetError: An error in a child that its document didn't cause.
    """
    waiting = list(reversed(tasks))
    workers = limits.workers or os.cpu_count() or 1
    running: list[RunningTask[Task]] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(start(work, waiting.pop(), limits))
            multiprocessing.connection.wait([item.reply for item in running], timeout=POLL_S)
            for item in list(running):
                reply = poll(item)
                if isinstance(reply, ChildError):
                    raise reply.error
                if reply is not None:
                    running.remove(item)
                    yield item.task, reply
    finally:
        for item in running:
            item.kill()


def start(work: Work[Task, Result], task: Task, limits: ParseOptions) -> RunningTask[Task]:
    """Run a task in a child process; ``poll`` returns its result."""
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_in_child, args=(work, pickle.dumps(task), limits.memory_mb, dict(os.environ), theirs), daemon=False
    )
    with _STARTING, _no_main_module():
        process.start()
    theirs.close()
    return RunningTask(task, limits, process, ours, limits.timeout_s)


def prepare() -> None:
    """Start the fork server, so that the first task needn't wait for it."""
    _context()


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # pyarrow imports pandas at its first table, where it is installed.
    context.set_forkserver_preload(
        [
            *("workers.parse_shard", "workers.tag_shard", "workers.draw_pages", "workers.page_pictures"),
            *(LIBRARY, "PIL.PngImagePlugin", "pandas", "scipy.ndimage"),
        ]
    )
    with _STARTING, _safe_path():
        forkserver.ensure_running()
    return context


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keep the server from importing modules from the working folder."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


_SAFE_PATH = "PYTHONSAFEPATH"
_STARTING = threading.Lock()
"""Held while the main module is hidden, since threads share it."""


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide the main module, which a child would import: a scheduler's command is unfit for that."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def poll(item: RunningTask[Any]) -> Done[Any] | Refused | ChildError | None:
    """Return a child's result; None while it runs. Kills it when it exceeds its time, so call this every ``POLL_S``."""
    try:
        while item.reply.poll():
            message: _Began | _Opened | Done[Any] | Refused | ChildError = item.reply.recv()
            if isinstance(message, _Began):
                item.began = time.monotonic()
            elif isinstance(message, _Opened):
                item.allowed_s += item.limits.timeout_s_per_page * message.pages
            else:
                item.process.join()
                return message
    except (EOFError, OSError):  # killed before or while it sent its result
        item.process.join()
        return _died(item)
    held, spent = _used(item.process.pid)
    item.most_bytes = max(item.most_bytes, held)
    if spent > item.allowed_s or time.monotonic() - item.began > _IDLE_TIMES * item.allowed_s:
        item.kill()
        return Refused(FailureCode.TIME_LIMIT, "it took longer than parse.timeout_s allows, and was stopped")
    return None


def _died(item: RunningTask[Any]) -> Refused:
    """Return why a child ended without a result; MuPDF may crash when memory runs out."""
    exitcode, limit = item.process.exitcode, item.limits.memory_mb
    held = item.most_bytes // _MEBIBYTE
    if exitcode == -signal.SIGKILL:
        return Refused(FailureCode.MEMORY_LIMIT, f"its process was killed at {held} MiB, most likely for lack of memory")
    if held >= limit * _NEAR_LIMIT:
        message = f"it crashed the PDF library at {held} MiB or more; parse.memory_mb is {limit}"
        return Refused(FailureCode.MEMORY_LIMIT, message)
    return Refused(FailureCode.CRASHED, f"it crashed the PDF library (exit {exitcode})")


def _used(pid: int | None) -> tuple[int, float]:
    """Return the resident bytes and the CPU seconds of a process; 0 where it is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return int(process.memory_info().rss), times.user + times.system
    except psutil.NoSuchProcess:
        return 0, 0.0


def _in_child(
    work: Work[Task, Result], pickled: bytes, memory_mb: int, environment: dict[str, str], reply: Connection
) -> None:
    # The fork server has the environment of its start; credentials may be newer, and unpickling tasks needs them.
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    last: Done[Result] | Refused | ChildError
    try:
        _limit_memory(memory_mb)
        reply.send(_Began())
        with infrequent_gc():
            task = pickle.loads(pickled)  # noqa: S301  the parent made it
            last = Done(work(task, lambda pages: reply.send(_Opened(pages))))
    except BadInputError as error:
        last = Refused(error.code, error.message, error.page)
    except MemoryError:
        last = Refused(FailureCode.MEMORY_LIMIT, f"it needs more than parse.memory_mb ({memory_mb})")
    except InsetError as error:
        last = ChildError(error)
    except Exception as error:  # noqa: BLE001  an unexpected error fails this document, not the refresh
        last = Refused(FailureCode.CRASHED, line(f"reading it failed: {type(error).__name__}: {error}")[:300])
    reply.send(last)


def _limit_memory(mebibytes: int) -> None:
    limit = psutil.Process().memory_info().vms + mebibytes * _MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
