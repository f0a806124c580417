"""Draw pages of stored PDFs in child processes with limits on time and memory, for callers or to be stored like figures."""

import atexit
import contextlib
import copy
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from backends.pdf.opening import RELEASE, open_pdf, rejecting
from backends.pdf.pixels import Box, OverlayBox, draw_page, page_pixels
from backends.stores.object_store import open_store
from backends.stores.sources import open_source
from schemas.corpus import ParseOptions
from schemas.documents import DrawnPage, drawn_page_id
from schemas.errors import BadInputError, FailureCode, InsetError, NotFoundError, TransientError
from schemas.ids import figure_file, key, sha256
from tasks.figures.render import encode, is_blank, scaled
from workers.child_processes import POLL_S, ChildError, Done, Refused, poll, run_all, start
from workers.isolation import isolate, writing

LIMITS = ParseOptions(timeout_s=10, memory_mb=1024)
"""Limits of one page. The most expensive of 692 pages of catalogues, manuals and brochures takes 0.3 s of CPU at 110 dpi."""

AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
"""Pages drawn at once, each of another document."""

WAITING = 64
WAITING_A_DOCUMENT = 32
"""Most waiting pages, of all documents and of one; further callers are refused."""

PICTURES_BYTES = 64 << 20
"""Bytes of cached pictures."""

FAILURE_S = 900.0
"""How long a failure is cached: a busy machine may have caused it."""

REMEMBERED = 1024
"""Most cached failures, and documents whose cost is tracked."""

PICTURES_VERSION = "1"

DPI = 110
"""Resolution of page pictures: A4 has 910 × 1287 pixels, about the input size of page models."""

MAX_PIXELS = 4_000_000
"""Larger pictures, of drawings and posters, are scaled down."""

_NICE = 10  # queries have priority


@dataclass(frozen=True)
class Drawing:
    """A page to draw, of a stored PDF, or of one in a source.

    ``page`` counts from 1; boxes are in points, origin at the top left of the unrotated page; marks are drawn over the
    page. If there is a ``digest``, ``store_address`` and ``name`` are those of a source, whose PDF must still have that
    digest.
    """

    store_address: str
    name: str
    page: int
    dpi: int = 110
    highlight: tuple[Box, ...] = ()
    marks: tuple[OverlayBox, ...] = ()
    passwords: tuple[str, ...] = field(default=(), repr=False)
    digest: str | None = None


@dataclass(frozen=True)
class Drawn:
    """A PNG, or None if the document, of so many pages, has no such page."""

    picture: bytes | None
    pages: int


_Document = tuple[str, str]
_Page = tuple[str, str, int, str | None]
"""Store, name, page and digest."""
_Last = Done[Drawn] | Refused | ChildError


def draw_pages(drawings: Sequence[Drawing], limits: ParseOptions) -> Iterator[tuple[Drawing, bytes | InsetError]]:
    """Draw pages; yield each picture, or the error, as it is done, in no particular order."""
    with contextlib.closing(run_all(draw_in_child, drawings, limits)) as outcomes:
        for drawing, last in outcomes:
            yield drawing, _outcome(drawing, last, limits)


class _Job:
    """A drawing and its waiting callers."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.document: _Document = (drawing.store_address, drawing.name)
        self.waiters: set[Future[bytes]] = set()
        self.began = 0.0


class PageDrawer:
    """Draws pages for concurrent callers within fixed limits.

    A few pages are drawn at once, and a bounded number waits; callers of the same page share a drawing, which is cancelled
    when all of them are gone. Failures are cached, so that an expensive page is tried once; what fails at one resolution does
    so at higher ones.
    """

    def __init__(self, *, limits: ParseOptions = LIMITS, at_once: int = AT_ONCE) -> None:
        self.limits = limits
        self._at_once = at_once
        self._changed = threading.Condition()
        self._waiting: dict[Drawing, _Job] = {}
        self._running: dict[Drawing, _Job] = {}
        self._pictures: OrderedDict[Drawing, bytes] = OrderedDict()
        self._pictures_bytes = 0
        self._failures: OrderedDict[_Page, tuple[int, float, BadInputError | NotFoundError]] = OrderedDict()
        self._cost: OrderedDict[_Document, float] = OrderedDict()
        self._over_limit: OrderedDict[_Document, None] = OrderedDict()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def draw(self, drawing: Drawing) -> "Future[bytes]":
        """Return the future PNG of a page, to be cancelled when the caller leaves, or raise ``TransientError``: too many wait.

        The future raises ``NotFoundError`` if there is no such page, ``BadInputError`` if it can't be drawn within its
        limits, and ``TransientError`` if the store doesn't answer.
        """
        future: Future[bytes] = Future()
        with self._changed:
            outcome = self._cached(drawing)
            if outcome is None:
                job = self._job(drawing)
                job.waiters.add(future)
        if outcome is None:
            future.add_done_callback(lambda gone: self._remove_waiter(job, gone))
        else:
            _settle([future], outcome)
        return future

    def clear(self) -> None:
        """Drop cached pictures, since documents were deleted."""
        with self._changed:
            self._pictures.clear()
            self._pictures_bytes = 0

    def close(self) -> None:
        """End the children; waiting callers get a ``TransientError``."""
        with self._changed:
            self._closed = True
            waiting_jobs = [*self._waiting.values()]
            self._waiting.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        atexit.unregister(self.close)
        for job in waiting_jobs:
            _settle(job.waiters, _CLOSED)

    def _cached(self, drawing: Drawing) -> bytes | InsetError | None:
        if drawing in self._pictures:
            self._pictures.move_to_end(drawing)
            return self._pictures[drawing]
        dpi, until, failure = self._failures.get(_page(drawing), (0, 0.0, None))
        return failure if dpi <= drawing.dpi and time.monotonic() < until else None

    def _job(self, drawing: Drawing) -> _Job:
        job = self._running.get(drawing) or self._waiting.get(drawing)
        if job is not None:
            return job
        job = _Job(drawing)
        of_document = sum(waiting_job.document == job.document for waiting_job in self._waiting.values())
        if self._closed or len(self._waiting) >= WAITING or of_document >= WAITING_A_DOCUMENT:
            raise TransientError("too many pages are waiting to be drawn; try again in a moment")
        self._waiting[drawing] = job
        if not self._threads:
            names = [f"page-drawer-{number}" for number in range(self._at_once)]
            self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
            for thread in self._threads:
                thread.start()
            atexit.register(self.close)  # running children would keep the process alive
        self._changed.notify_all()
        return job

    def _remove_waiter(self, job: _Job, waiter: "Future[bytes]") -> None:
        with self._changed:
            job.waiters.discard(waiter)
            if not job.waiters and self._waiting.get(job.drawing) is job:
                del self._waiting[job.drawing]

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._finish(job, self._run(job))

    def _next(self) -> _Job | None:
        """Wait for the job whose turn it is; None after ``close``.

        Documents with the lowest cost come first, one page of each at a time. Documents that exceeded a limit share one child,
        so that others aren't blocked.
        """
        with self._changed:
            while not self._closed:
                busy = {job.document for job in self._running.values()}
                is_blocked = any(document in self._over_limit for document in busy)
                for job in sorted(self._waiting.values(), key=lambda job: self._cost.get(job.document, 0.0)):
                    if job.document not in busy and not (is_blocked and job.document in self._over_limit):
                        self._running[job.drawing] = self._waiting.pop(job.drawing)
                        job.began = time.monotonic()
                        return job
                self._changed.wait()
        return None

    def _run(self, job: _Job) -> _Last:
        """Draw a page in a child process, which is killed when all callers are gone."""
        try:
            child = start(draw_in_child, job.drawing, self.limits)
        except OSError as error:
            return ChildError(TransientError(f"no process can be started to draw pages: {error.strerror}"))
        while (last := poll(child)) is None:
            child.reply.poll(POLL_S)
            with self._changed:
                if is_unwanted := self._closed or not job.waiters:
                    self._stop_running(job)  # later callers start another job
            if is_unwanted:
                child.kill()
                return ChildError(_CLOSED)
        return last

    def _finish(self, job: _Job, last: _Last) -> None:
        outcome = _outcome(job.drawing, last, self.limits)
        with self._changed:
            self._stop_running(job)
            waiters = [*job.waiters]
            if isinstance(last, Refused) and last.code in {FailureCode.TIME_LIMIT, FailureCode.MEMORY_LIMIT}:
                _remember(self._over_limit, job.document, None)
            if isinstance(outcome, bytes):
                self._keep(job.drawing, outcome)
            elif isinstance(outcome, BadInputError | NotFoundError):
                _remember(self._failures, _page(job.drawing), (job.drawing.dpi, time.monotonic() + FAILURE_S, outcome))
                # The failure also answers those who wait for the page with other boxes, or at a higher resolution.
                for waiting_job in list(self._waiting.values()):
                    if self._cached(waiting_job.drawing) is not None:
                        waiters += self._waiting.pop(waiting_job.drawing).waiters
            self._changed.notify_all()
        _settle(waiters, outcome)

    def _stop_running(self, job: _Job) -> None:
        if self._running.pop(job.drawing, None) is not None:
            spent = self._cost.get(job.document, 0.0) + time.monotonic() - job.began
            _remember(self._cost, job.document, spent)

    def _keep(self, drawing: Drawing, picture: bytes) -> None:
        self._pictures_bytes += len(picture) - len(self._pictures.pop(drawing, b""))
        self._pictures[drawing] = picture
        while self._pictures_bytes > PICTURES_BYTES:
            _, dropped = self._pictures.popitem(last=False)
            self._pictures_bytes -= len(dropped)


_CLOSED = TransientError("pages are no longer drawn here")


def _settle(waiters: Iterable["Future[bytes]"], outcome: bytes | InsetError) -> None:
    for waiter in list(waiters):
        # A caller that left has cancelled its future, which must not get a result.
        if waiter.set_running_or_notify_cancel():
            if isinstance(outcome, bytes):
                waiter.set_result(outcome)
            else:
                waiter.set_exception(copy.copy(outcome))  # each raise adds to an exception's traceback


def _remember(remembered: "OrderedDict[Any, Any]", name: Any, value: Any) -> None:
    """Set an entry; the one that was set the longest ago goes if there are too many."""
    remembered[name] = value
    remembered.move_to_end(name)
    if len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def _page(drawing: Drawing) -> _Page:
    return drawing.store_address, drawing.name, drawing.page, drawing.digest


def _outcome(drawing: Drawing, last: _Last, limits: ParseOptions) -> bytes | InsetError:
    match last:
        case Done(Drawn(picture, pages)):
            return picture or NotFoundError(f"there is no page {drawing.page}; the document has {pages}")
        case ChildError(error):
            return error
        case Refused():
            return refusal(drawing, last, limits)


def refusal(drawing: Drawing, last: Refused, limits: ParseOptions) -> BadInputError:
    """Return the error of a page that can't be drawn."""
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
    """Draw a page; call it in a child process with limits."""
    with open_in_child(drawing) as pdf:
        if drawing.page > pdf.page_count:
            return Drawn(None, pdf.page_count)
        picture = draw_page(pdf, drawing.page, highlight=drawing.highlight, marks=drawing.marks, dpi=drawing.dpi)
        return Drawn(picture, pdf.page_count)


@contextlib.contextmanager
def open_in_child(drawing: Drawing) -> Iterator[Any]:
    """Open a page's document in this child process, and isolate the process. Errors name the page."""
    os.nice(_NICE)
    data = _stored(drawing) if drawing.digest is None else _in_source(drawing, drawing.digest)
    isolate()
    problem = f"page {drawing.page} can't be drawn"
    with open_pdf(data, drawing.passwords) as pdf, rejecting(problem, FailureCode.PAGE_UNREADABLE, drawing.page):
        yield pdf


def _stored(drawing: Drawing) -> bytes:
    try:
        return open_store(drawing.store_address).get(drawing.name)
    except OSError as error:
        raise TransientError(f"the store can't give {drawing.name}: {error.strerror or error}") from error


def _in_source(drawing: Drawing, digest: str) -> bytes:
    try:
        data = open_source(drawing.store_address).read(drawing.name)
    except FileNotFoundError as error:
        raise BadInputError("the document is no longer in the source", FailureCode.SOURCE_CHANGED) from error
    if sha256(data) != digest:
        raise BadInputError("the source has another file in the document's place", FailureCode.SOURCE_CHANGED)
    return data


def drawn_key() -> str:
    """Digest what a page picture depends on beside its document."""
    return key(step=PICTURES_VERSION, pymupdf=RELEASE, dpi=DPI, max_pixels=MAX_PIXELS)


def keep_pictures(
    pages: Sequence[tuple[str, str, int]], *, store_address: str, limits: ParseOptions, passwords: Sequence[str]
) -> Iterator[DrawnPage]:
    """Draw pages and store their pictures; yield each as it is done, in any order.

    A page is given by its document's id, the name of its document's PDF, and its number from 1.

    Blank pages have no picture, nor have pages that crash or exceed the limits.
    """
    tasks = {
        Drawing(store_address, pdf, page, DPI, passwords=tuple(passwords)): drawn_page_id(doc_id, page)
        for doc_id, pdf, page in pages
    }
    with contextlib.closing(run_all(_keep, [*tasks], limits)) as outcomes:
        for drawing, last in outcomes:
            if isinstance(last, Refused):
                refused = refusal(drawing, last, limits)
                yield DrawnPage(tasks[drawing], None, str(refused.code), refused.message)
            else:
                yield DrawnPage(tasks[drawing], last.result)


def _keep(drawing: Drawing, _opened: Callable[[int], None]) -> str | None:
    """Store the picture of a page, and return its figure id; None if the page is blank."""
    # The process that writes is forked before this one is isolated, which forbids it to write.
    with writing(open_store(drawing.store_address), "figures/") as put:
        with open_in_child(drawing) as pdf:
            pixels = page_pixels(pdf, drawing.page, dpi=drawing.dpi)
        if is_blank(pixels):
            return None
        figure, data = encode(scaled(pixels, MAX_PIXELS))
        put(figure_file(figure.figure_id), data)
        return figure.figure_id
