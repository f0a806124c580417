"""Run work on documents, each in a process of its own that is killed when it takes too long, too much, or both.

The processes are forked from a server that has imported PyMuPDF once, so a document costs milliseconds to start. The child
writes what it makes into the store itself; the parent learns little more than that it is there, or why not.
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
"""Takes an order, and what to call with the number of pages once the document is open: a long one may take longer."""

POLL_S = 0.2
"""Seconds between two looks at children that may be out of time."""
_IDLE_TIMES = 10
"""A document's time is the processor's, so that a busy machine refuses nothing; one that waits may do so this much longer."""

_NEAR_LIMIT = 0.3  # memory doubles between two looks
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Done(Generic[Result]):
    """The child's last word: the work is done."""

    result: Result


@dataclass(frozen=True)
class Refused:
    """The last word on a document that can't be worked on."""

    code: FailureCode
    message: str
    page: int | None = None


@dataclass(frozen=True)
class _Began:
    """The child runs and begins its work: starting it takes what the machine takes, and counts for nothing."""


@dataclass(frozen=True)
class _Opened:
    """The child has opened its document."""

    pages: int


@dataclass(frozen=True)
class ChildError:
    """The last word of a child: an error that is not the order's, such as of a store that did not answer or refused."""

    error: InsetError


@dataclass
class RunningTask(Generic[Task]):
    """An order and the child that carries it out; ``reply`` is ready when there may be a last word."""

    order: Task
    limits: ParseOptions
    process: ForkServerProcess
    reply: Connection
    allowed_s: float
    began: float = math.inf
    most_bytes: int = 0

    def kill(self) -> None:
        """End the child, whatever it does."""
        self.process.kill()
        self.process.join()


def run_all(
    work: Work[Task, Result], orders: Sequence[Task], limits: ParseOptions
) -> Generator[tuple[Task, Done[Result] | Refused], None, None]:
    """Carry out orders, and yield each with its last word as it is done, in no particular order.

    An order that breaks its process, or outlives its limits, is refused; the others never notice.

    Args:
        work: A function of a module, so that a child finds it. A ``BadInputError`` of its refuses the order.
        orders: What to work on; they and the results pickle.
        limits: Time and memory an order may take, and how many processes at once.

    Raises:
        InsetError: What a child met that is not its order's doing, as it was raised there.
    """
    waiting = list(reversed(orders))
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
                    yield item.order, reply
    finally:
        for item in running:
            item.kill()


def start(work: Work[Task, Result], order: Task, limits: ParseOptions) -> RunningTask[Task]:
    """Carry out an order in a child of its own; ``poll`` says what became of it.

    Args:
        work: A function of a module, so that a child finds it.
        order: What to work on; it and the result pickle.
        limits: Time and memory it may take.
    """
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_in_child, args=(work, pickle.dumps(order), limits.memory_mb, dict(os.environ), theirs), daemon=False
    )
    with _STARTING, _no_main_module():
        process.start()
    theirs.close()
    return RunningTask(order, limits, process, ours, limits.timeout_s)


def prepare() -> None:
    """Begin to start the server that children are forked from, so that the first order needn't wait for it."""
    _context()


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # pyarrow imports pandas, where it is installed, at its first table.
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
    """Keep the server from importing modules of the folder that its user happens to be in, which may name them anyhow."""
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
"""Held while the main module is hidden: it is one for all threads."""


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide the main module, which a child would import: a scheduler's command may be it, unfit for a child."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def poll(item: RunningTask[Any]) -> Done[Any] | Refused | ChildError | None:
    """Return the child's last word; None while it works. One that is out of time is killed, so ask every ``POLL_S``."""
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
    except (EOFError, OSError):  # it was killed before its last word, or in the middle of it
        item.process.join()
        return _died(item)
    held, spent = _used(item.process.pid)
    item.most_bytes = max(item.most_bytes, held)
    if spent > item.allowed_s or time.monotonic() - item.began > _IDLE_TIMES * item.allowed_s:
        item.kill()
        return Refused(FailureCode.TIME_LIMIT, "it took longer than parse.timeout_s allows, and was stopped")
    return None


def _died(item: RunningTask[Any]) -> Refused:
    """Say why a child ended without a last word; out of memory, MuPDF may crash instead of saying so."""
    exitcode, limit = item.process.exitcode, item.limits.memory_mb
    held = item.most_bytes // _MEBIBYTE
    if exitcode == -signal.SIGKILL:
        return Refused(FailureCode.MEMORY_LIMIT, f"its process was killed at {held} MiB, most likely for want of memory")
    if held >= limit * _NEAR_LIMIT:
        message = f"it crashed the PDF library at {held} MiB or more; parse.memory_mb is {limit}"
        return Refused(FailureCode.MEMORY_LIMIT, message)
    return Refused(FailureCode.CRASHED, f"it crashed the PDF library (exit {exitcode})")


def _used(pid: int | None) -> tuple[int, float]:
    """Return the bytes that a process holds in memory and the seconds that a processor worked for it; 0 where it is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return int(process.memory_info().rss), times.user + times.system
    except psutil.NoSuchProcess:
        return 0, 0.0


def _in_child(
    work: Work[Task, Result], pickled: bytes, memory_mb: int, environment: dict[str, str], reply: Connection
) -> None:
    # The server that forks children keeps the environment that it was started in; credentials may have come since, and what
    # an order holds, such as a client of S3, is made of them.
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends its children
    last: Done[Result] | Refused | ChildError
    try:
        _limit_memory(memory_mb)
        reply.send(_Began())
        with infrequent_gc():
            order = pickle.loads(pickled)  # noqa: S301  the parent made it
            last = Done(work(order, lambda pages: reply.send(_Opened(pages))))
    except BadInputError as error:
        last = Refused(error.code, error.message, error.page)
    except MemoryError:
        last = Refused(FailureCode.MEMORY_LIMIT, f"it needs more than parse.memory_mb ({memory_mb})")
    except InsetError as error:
        last = ChildError(error)
    except Exception as error:  # noqa: BLE001  what nobody foresaw is this document's failure, not the refresh's
        last = Refused(FailureCode.CRASHED, line(f"reading it failed: {type(error).__name__}: {error}")[:300])
    reply.send(last)


def _limit_memory(mebibytes: int) -> None:
    """Bound what this process may allocate beyond what it was born with."""
    born_with = psutil.Process().memory_info().vms
    limit = born_with + mebibytes * _MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
