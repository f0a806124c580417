"""Run tasks on documents in child processes with limits on time and memory.

Children are forked from a server that has imported PyMuPDF and loaded the layout model, so they start in milliseconds. They write
results to the store themselves; the parent gets only a short result.
"""

import contextlib
import fcntl
import io
import math
import multiprocessing
import multiprocessing.connection
import os
import pickle
import resource
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any, Generic, TypeVar

import psutil

from backends.pdf.opening import LIBRARY
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, Failure, FailureCode, InsetError, UserError
from schemas.printing import line
from workers.garbage import infrequent_gc

Task = TypeVar("Task")
Result = TypeVar("Result")

Work = Callable[[Task, Callable[[int], None]], Result]
"""Gets a task, and a function to call with the number of pages, which extends the time limit."""

SECONDS_A_PAGE = 1.0
"""Seconds that each page adds to the limit of a document."""

POLL_S = 0.2
"""Seconds between two checks of running children."""
_IDLE_TIMES = 10
"""The time limit is CPU time, so that a busy machine fails nothing; wall time may be so many times longer."""
_TIME_SIGNALS = {-signal.SIGXCPU, -signal.SIGALRM}
"""Exit codes of children that the kernel ended at their limit of CPU or wall time."""

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

    def failure(self, source: str, doc_id: str, step: str, run_id: str | None) -> Failure:
        """Return it as a row of quarantine."""
        page, code, message = self.page, self.code, self.message
        return Failure(source=source, doc_id=doc_id, page=page, step=step, code=code, message=message, run_id=run_id)


@dataclass
class RunningTask(Generic[Task]):
    """A task in its child process; ``reply`` is ready when there is a message, or the child ended."""

    task: Task
    limits: ParseOptions
    process: ForkServerProcess
    reply: Connection
    most_bytes: int = 0

    def kill(self) -> None:
        """Kill the child."""
        self.process.kill()
        self.process.join()


def run_all(
    function: Work[Task, Result], tasks: Sequence[Task], limits: ParseOptions
) -> Generator[tuple[Task, Done[Result] | Refused], None, None]:
    """Run tasks, and yield each with its result as it is done, in no particular order.

    A task that crashes its process or exceeds its limits is refused; others aren't affected. ``function`` is a module-level
    function; its ``BadInputError`` refuses the task, any other ``InsetError`` is raised here. Tasks and results are
    pickled.
    """
    waiting = list(reversed(tasks))
    workers = limits.workers or os.cpu_count() or 1
    running: list[RunningTask[Task]] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(start(function, waiting.pop(), limits))
            multiprocessing.connection.wait([running_task.reply for running_task in running], timeout=POLL_S)
            for running_task in list(running):
                reply = poll(running_task)
                if isinstance(reply, InsetError):
                    raise reply
                if reply is not None:
                    running.remove(running_task)
                    yield running_task.task, reply
    finally:
        for running_task in running:
            running_task.kill()


def start(function: Work[Task, Result], task: Task, limits: ParseOptions) -> RunningTask[Task]:
    """Run a task in a child process, whose result ``poll`` returns; raises ``UserError`` if this process is daemonic."""
    if multiprocessing.current_process().daemon:
        raise UserError(
            "PDFs are read in child processes, which a daemonic process may not have; on Celery workers, set [celery] pool = solo"
        )
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    # The task is pickled here, so that the child sets its environment before it unpickles it.
    process = context.Process(
        target=_in_child, args=(function, pickle.dumps(task), limits, dict(os.environ), theirs), daemon=False
    )
    with _STARTING, _no_main_module():
        process.start()
    # The child alone holds the end to write to, so its death ends the pipe and wakes whoever waits for it.
    theirs.close()
    return RunningTask(task, limits, process, ours)


def prepare(*, parses: bool = True) -> None:
    """Start the fork server, so that the first task needn't wait for it; one that never ``parses`` has no layout model."""
    _context(parses=parses)


def _context(*, parses: bool = True) -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # pyarrow imports pandas at its first table, if it is installed.
    modules = ["workers.parse_shard", "workers.tag_shard", "workers.draw_pages", LIBRARY]
    modules += ["PIL.PngImagePlugin", "pandas", "scipy.ndimage"]
    context.set_forkserver_preload([*modules, "workers.layout_model"] if parses else modules)
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


def poll(item: RunningTask[Any]) -> Done[Any] | Refused | InsetError | None:
    """Return a child's result, or an error that the document didn't cause; None while it runs.

    Call this every ``POLL_S``, since it samples the child's memory.
    """
    if not item.reply.poll():
        item.most_bytes = max(item.most_bytes, _resident_bytes(item.process.pid))
        return None
    try:
        sent = item.reply.recv_bytes()
    except (EOFError, OSError):  # killed before or while it sent its result
        item.process.join()
        return _crash_reason(item)
    item.process.join()
    try:
        last: Done[Any] | Refused | InsetError = _Replies(io.BytesIO(sent)).load()
    except pickle.UnpicklingError as error:
        return Refused(FailureCode.CRASHED, line(str(error)))
    return last


class _Replies(pickle.Unpickler):
    """Reads what a child sent: a PDF may have taken the child over, so its reply makes results and errors, and calls nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in ("schemas", "workers") and "." not in name:
            global_object = super().find_class(module, name)
            if isinstance(global_object, type) and global_object.__module__ == module:
                return global_object
        raise pickle.UnpicklingError(f"a child's reply names {module}.{name}")


def _crash_reason(running_task: RunningTask[Any]) -> Refused:
    """Return why a child ended without a result; MuPDF may crash when memory runs out."""
    exitcode, limit = running_task.process.exitcode, running_task.limits.memory_mb
    peak_mib = running_task.most_bytes // _MEBIBYTE
    if exitcode in _TIME_SIGNALS:
        return Refused(FailureCode.TIME_LIMIT, "it took longer than parse.timeout_s allows, and was stopped")
    if exitcode == -signal.SIGKILL:
        return Refused(
            FailureCode.MEMORY_LIMIT, f"its process was killed at {peak_mib} MiB, most likely for lack of memory"
        )
    if peak_mib >= limit * _NEAR_LIMIT:
        message = f"it crashed the PDF library at {peak_mib} MiB or more; parse.memory_mb is {limit}"
        return Refused(FailureCode.MEMORY_LIMIT, message)
    return Refused(FailureCode.CRASHED, f"it crashed the PDF library (exit {exitcode})")


def _resident_bytes(pid: int | None) -> int:
    """Return the memory that a process holds; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _in_child(
    function: Work[Task, Result], pickled: bytes, limits: ParseOptions, environment: dict[str, str], reply: Connection
) -> None:
    # The fork server has the environment of its start; credentials may be newer, and unpickling tasks needs them.
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _end_with_reader(reply, ends=True)
    last: Done[Result] | Refused | InsetError
    try:
        _limit_memory(limits.memory_mb)
        _limit_time(limits.timeout_s)
        with infrequent_gc():
            task = pickle.loads(pickled)  # noqa: S301  the parent made it
            last = Done(function(task, lambda pages: _limit_time(limits.timeout_s + SECONDS_A_PAGE * pages)))
    except BadInputError as error:
        last = Refused(error.code, error.message, error.page)
    except MemoryError:
        last = Refused(FailureCode.MEMORY_LIMIT, f"it needs more than parse.memory_mb ({limits.memory_mb})")
    except InsetError as error:
        last = error
    except Exception as error:  # noqa: BLE001  an unexpected error fails this document, not the refresh
        last = Refused(FailureCode.CRASHED, line(f"reading it failed: {type(error).__name__}: {error}")[:300])
    _end_with_reader(reply, ends=False)
    with contextlib.suppress(BrokenPipeError):  # the run was killed
        reply.send_bytes(pickle.dumps(last))


def _end_with_reader(pipe: Connection, *, ends: bool) -> None:
    """Let Linux end this process, silently, once the run that reads its pipe was killed; or not any more."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC if ends else flags & ~os.O_ASYNC)


def _limit_memory(mebibytes: int) -> None:
    # The limit is on address space, of which a fork of the server has much before it opens the document.
    limit = psutil.Process().memory_info().vms + mebibytes * _MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_time(seconds: float) -> None:
    """Let the kernel end this process after so much CPU time, in whole seconds from its start, or wall time from now."""
    # The signal at the limit of CPU time would write a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)  # only a superuser may raise it
    cpu_s = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s if hard == resource.RLIM_INFINITY else min(cpu_s, hard), hard))
    signal.setitimer(signal.ITIMER_REAL, _IDLE_TIMES * seconds)
