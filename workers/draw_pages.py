"""Draw pages of stored PDFs, each in a child process with limits on time and memory."""

import atexit
import contextlib
import copy
import multiprocessing.connection
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from backends.pdf.opening import open_pdf, refusing
from backends.pdf.page_renderer import Box, Mark, draw_page
from backends.stores.object_store import open_store
from schemas.corpus.parse import ParseOptions
from schemas.errors import BadInputError, FailureCode, InsetError, NotFoundError, TransientError
from workers.child_processes import POLL_S, ChildError, Done, Refused, RunningTask, poll, run_all, start

LIMITS = ParseOptions(timeout_s=10, timeout_s_per_page=0, memory_mb=1024)
"""What one page may cost. Of 692 pages of catalogues, manuals and brochures the dearest takes 0.3 s of CPU at 110 dpi."""

AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
"""Pages drawn at once, of as many documents, whatever the corpora are."""

WAITING = 64
WAITING_A_DOCUMENT = 32
"""Pages that wait at most, of all documents and of one: beyond that a caller is sent away at once."""

PICTURES_BYTES = 64 << 20
"""Bytes of pictures that are kept for whoever asks next."""

FAILURE_S = 900.0
"""How long a failure is remembered: a busy machine may have been the reason."""

REMEMBERED = 1024
"""Failures, and documents with what they cost, that are remembered at most."""

_NICE = 10  # questions go before pictures


@dataclass(frozen=True)
class Drawing:
    """A page to draw, of a PDF that a store holds.

    ``page`` counts from 1; boxes are in points, origin at the top left of the unrotated page; marks go over the page.
    """

    store_address: str
    name: str
    page: int
    dpi: int = 110
    highlight: tuple[Box, ...] = ()
    marks: tuple[Mark, ...] = ()
    passwords: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Drawn:
    """What a child has made: a PNG; None where the document, of so many pages, has no such page."""

    picture: bytes | None
    pages: int


_Document = tuple[str, str]
_Attempt = tuple[str, str, int, int]
"""Store, name, page and dpi: whether a page can be drawn doesn't depend on the boxes over it."""


def draw_pages(drawings: Sequence[Drawing], limits: ParseOptions) -> Iterator[tuple[Drawing, bytes | InsetError]]:
    """Draw pages and yield each as it is done, in no particular order, or why it can't be drawn.

    Raises:
        TransientError: The store did not answer.
    """
    with contextlib.closing(run_all(draw_in_child, drawings, limits)) as outcomes:
        for drawing, last in outcomes:
            yield drawing, _outcome(drawing, last, limits)


class _Job:
    """A drawing, those who wait for it, and the child that makes it, once it is its turn."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.waiters: set[Future[bytes]] = set()
        self.child: RunningTask[Drawing] | None = None
        self.began = 0.0

    @property
    def document(self) -> _Document:
        return self.drawing.store_address, self.drawing.name


class PageDrawer:
    """Draws pages for many callers at once, and stays small whatever they ask for.

    A few pages are drawn at a time, a bounded number waits; callers who want the same page share one drawing. What nobody waits
    for any more isn't drawn, or is stopped. Failures are remembered, so that a page that costs all it may does so once.

    Args:
        limits: Time and memory that a page may take.
        at_once: Children at most.
    """

    def __init__(self, *, limits: ParseOptions = LIMITS, at_once: int = AT_ONCE) -> None:
        self.limits = limits
        self._at_once = at_once
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Drawing, _Job] = OrderedDict()
        self._running: dict[Drawing, _Job] = {}
        self._pictures: OrderedDict[Drawing, bytes] = OrderedDict()
        self._pictures_bytes = 0
        self._failures: OrderedDict[_Attempt, tuple[float, BadInputError | NotFoundError]] = OrderedDict()
        self._spent: OrderedDict[_Document, float] = OrderedDict()
        self._dear: OrderedDict[_Document, None] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._bell, self._ring = multiprocessing.connection.Pipe(duplex=False)

    def draw(self, drawing: Drawing) -> "Future[bytes]":
        """Return what will be the page as PNG; cancel it where the caller goes.

        The future raises ``NotFoundError`` where there is no such page, ``BadInputError`` where it can't be drawn within its
        limits, and ``TransientError`` where the store doesn't answer.

        Raises:
            TransientError: Too many pages are waiting.
        """
        future: Future[bytes] = Future()
        with self._lock:
            known = self._known(drawing)
            if known is None:
                job = self._job(drawing)
                job.waiters.add(future)
        if known is None:
            future.add_done_callback(lambda gone: self._leave(job, gone))
            self._wake()
        elif isinstance(known, bytes):
            future.set_result(known)
        else:
            future.set_exception(known)
        return future

    def close(self) -> None:
        """End the children; who still waits gets a ``TransientError``."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._wake()
            thread.join()
            atexit.unregister(self.close)

    def _known(self, drawing: Drawing) -> bytes | InsetError | None:
        if drawing in self._pictures:
            self._pictures.move_to_end(drawing)
            return self._pictures[drawing]
        until, failure = self._failures.get(_attempt(drawing), (0.0, None))
        # A copy, since each raising adds to an exception's traceback.
        return copy.copy(failure) if failure is not None and time.monotonic() < until else None

    def _job(self, drawing: Drawing) -> _Job:
        job = self._running.get(drawing) or self._waiting.get(drawing)
        if job is not None:
            return job
        job = _Job(drawing)
        of_document = sum(other.document == job.document for other in self._waiting.values())
        if self._closed or len(self._waiting) >= WAITING or of_document >= WAITING_A_DOCUMENT:
            raise TransientError("too many pages are waiting to be drawn; try again in a moment")
        self._waiting[drawing] = job
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="page-drawer", daemon=True)
            self._thread.start()
            atexit.register(self.close)  # children that still draw would keep the process from ending
        return job

    def _leave(self, job: _Job, waiter: "Future[bytes]") -> None:
        with self._lock:
            job.waiters.discard(waiter)
            unwanted = not job.waiters
            if unwanted and self._waiting.get(job.drawing) is job:
                del self._waiting[job.drawing]
        if unwanted:
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # closed meanwhile
            self._ring.send_bytes(b"!")

    def _work(self) -> None:
        while not self._closed:
            for job in self._next():
                try:
                    job.child = start(draw_in_child, job.drawing, self.limits)
                except OSError as error:
                    self._finish(
                        job, ChildError(TransientError(f"no process can be started to draw pages: {error.strerror}"))
                    )
            children = [job.child.reply for job in self._running.values() if job.child is not None]
            multiprocessing.connection.wait([self._bell, *children], timeout=POLL_S if children else None)
            while self._bell.poll():
                self._bell.recv_bytes()
            self._look()
        with self._lock:
            left = [*self._running.values(), *self._waiting.values()]
            self._waiting.clear()
        for job in left:
            if job.child is not None:
                job.child.kill()
            self._finish(job, ChildError(TransientError("pages are no longer drawn here")))

    def _next(self) -> list[_Job]:
        """Move the jobs whose turn it is from those that wait to those that run.

        The document that has cost least comes first, and one page of a document is drawn at a time. Documents that broke a
        limit share one child, so that the others always have one, too.
        """
        with self._lock:
            busy = {job.document for job in self._running.values()}
            begun = []
            for job in sorted(self._waiting.values(), key=lambda job: self._spent.get(job.document, 0.0)):
                dear = job.document in self._dear and any(document in self._dear for document in busy)
                if len(self._running) < self._at_once and job.document not in busy and not dear:
                    busy.add(job.document)
                    self._running[job.drawing] = self._waiting.pop(job.drawing)
                    job.began = time.monotonic()
                    begun.append(job)
            return begun

    def _look(self) -> None:
        """Finish what is drawn, and stop what nobody waits for."""
        for job in list(self._running.values()):
            if job.child is None:
                continue
            last = poll(job.child)
            if last is not None:
                self._finish(job, last)
                continue
            with self._lock:
                unwanted = not job.waiters
                if unwanted:  # whoever asks from here on begins anew
                    self._end(job)
            if unwanted:
                job.child.kill()

    def _finish(self, job: _Job, last: Done[Drawn] | Refused | ChildError) -> None:
        made = _outcome(job.drawing, last, self.limits)
        with self._lock:
            self._end(job)
            waiters = list(job.waiters)
            if isinstance(last, Refused) and last.code in {FailureCode.TIME_LIMIT, FailureCode.MEMORY_LIMIT}:
                self._dear[job.document] = None
                _bound(self._dear)
            if isinstance(made, bytes):
                self._keep(job.drawing, made)
            elif isinstance(made, BadInputError | NotFoundError):
                self._failures[_attempt(job.drawing)] = (time.monotonic() + FAILURE_S, made)
                _bound(self._failures)
        for waiter in waiters:
            if waiter.set_running_or_notify_cancel():
                if isinstance(made, bytes):
                    waiter.set_result(made)
                else:
                    waiter.set_exception(copy.copy(made))

    def _end(self, job: _Job) -> None:
        if self._running.pop(job.drawing, None) is not None:
            spent = self._spent.pop(job.document, 0.0) + time.monotonic() - job.began
            self._spent[job.document] = spent
            _bound(self._spent)

    def _keep(self, drawing: Drawing, picture: bytes) -> None:
        self._pictures[drawing] = picture
        self._pictures_bytes += len(picture)
        while self._pictures_bytes > PICTURES_BYTES:
            _, dropped = self._pictures.popitem(last=False)
            self._pictures_bytes -= len(dropped)


def _bound(remembered: "OrderedDict[Any, Any]") -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def _attempt(drawing: Drawing) -> _Attempt:
    return drawing.store_address, drawing.name, drawing.page, drawing.dpi


def _outcome(drawing: Drawing, last: Done[Drawn] | Refused | ChildError, limits: ParseOptions) -> bytes | InsetError:
    match last:
        case Done(Drawn(picture, pages)):
            return picture or NotFoundError(f"there is no page {drawing.page}; the document has {pages}")
        case ChildError(error):
            return error
        case Refused():
            return refusal(drawing, last, limits)


def refusal(drawing: Drawing, last: Refused, limits: ParseOptions) -> BadInputError:
    """Return why a page can't be drawn, in words that name it."""
    page, message = drawing.page, last.message
    match last.code:
        case FailureCode.TIME_LIMIT:
            message = f"page {page} can't be drawn: it takes more than {limits.timeout_s:g} s"
        case FailureCode.MEMORY_LIMIT:
            message = f"page {page} can't be drawn: it takes more than {limits.memory_mb} MiB of memory"
        case _ if f"page {page}" not in message:
            message = f"page {page} can't be drawn: {message}"
    return BadInputError(message, last.code, page)


def draw_in_child(drawing: Drawing, _opened: Callable[[int], None]) -> Drawn:
    """Draw a page in this process, which must be a child with limits."""
    with open_in_child(drawing) as pdf:
        if drawing.page > pdf.page_count:
            return Drawn(None, pdf.page_count)
        picture = draw_page(pdf, drawing.page, highlight=drawing.highlight, marks=drawing.marks, dpi=drawing.dpi)
        return Drawn(picture, pdf.page_count)


@contextlib.contextmanager
def open_in_child(drawing: Drawing) -> Iterator[Any]:
    """Open the document of a page in this process, which must be a child with limits; errors are those of the page."""
    os.nice(_NICE)
    try:
        data = open_store(drawing.store_address).get(drawing.name)
    except OSError as error:
        raise TransientError(f"the store can't give {drawing.name}: {error.strerror or error}") from error
    what = f"page {drawing.page} can't be drawn"
    with open_pdf(data, drawing.passwords) as pdf, refusing(what, FailureCode.PAGE_UNREADABLE, drawing.page):
        yield pdf
