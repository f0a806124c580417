"""Draw pages of stored PDFs in child processes with limits on time and memory, for callers or to be stored like figures."""

import contextlib
import copy
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from backends.pdf.opening import RELEASE, open_pdf, rejecting
from backends.pdf.pixels import draw_page, page_pixels
from backends.stores.object_store import open_store
from backends.stores.sources import open_source
from schemas.corpus import ParseOptions
from schemas.documents import DrawnPage, drawn_page_id
from schemas.errors import BadInputError, FailureCode, InsetError, NotFoundError, TransientError
from schemas.geometry import Box
from schemas.ids import figure_file, key, sha256
from tasks.figures.render import encode, is_blank, scaled
from workers.child_processes import POLL_S, Done, Refused, poll, run_all, start
from workers.isolation import isolate, writing

LIMITS = ParseOptions(timeout_s=10, memory_mb=1024)
"""Limits of one page. The most expensive of 692 pages of catalogues, manuals and brochures takes 0.3 s of CPU at 110 dpi."""

AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
"""Pages drawn at once, each of another document."""

TURN_S = 30.0
"""Longest wait for a place among them."""

PICTURES_BYTES = 64 << 20
"""Bytes of cached pictures."""

FAILURE_S = 900.0
"""How long a failure is cached: a busy machine may have caused it."""

REMEMBERED = 1024
"""Most cached failures."""

PICTURES_VERSION = "1"

DPI = 110
"""Resolution of page pictures: A4 has 910 × 1287 pixels, about the input size of page models."""

MAX_PIXELS = 4_000_000
"""Larger pictures, of drawings and posters, are scaled down."""

_NICE = 10  # queries have priority


@dataclass(frozen=True)
class Drawing:
    """A page to draw, of a stored PDF, or of one in a source.

    ``page`` counts from 1; boxes are in points, origin at the top left of the unrotated page. If there is a ``digest``,
    ``store_address`` and ``name`` are those of a source, whose PDF must still have that digest.
    """

    store_address: str
    name: str
    page: int
    dpi: int = 110
    highlight: tuple[Box, ...] = ()
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
_Last = Done[Drawn] | Refused | InsetError


class PageDrawer:
    """Draws pages for concurrent callers: a few at once, each of another document. Thread-safe.

    Documents that exceeded a limit share one child, so that others aren't blocked.
    Pictures and failures are kept, so that an expensive page is tried once; what fails at one resolution does so at higher ones.
    """

    def __init__(self, *, limits: ParseOptions = LIMITS, at_once: int = AT_ONCE) -> None:
        self.limits = limits
        self._at_once = at_once
        self._changed = threading.Condition()
        self._busy: set[_Document] = set()
        self._over_limit: set[_Document] = set()
        self._pictures: OrderedDict[Drawing, bytes] = OrderedDict()
        self._failures: OrderedDict[_Page, tuple[int, float, BadInputError | NotFoundError]] = OrderedDict()
        self._closed = False

    def draw(self, drawing: Drawing, stopped: Callable[[], bool] = lambda: False) -> bytes:
        """Return the PNG of a page; the drawing ends once ``stopped`` returns true.

        Raises ``NotFoundError`` if there is no such page, ``BadInputError`` if it can't be drawn within its limits, and
        ``TransientError`` if the store doesn't answer, or its turn doesn't come in ``TURN_S``.
        """
        document, until = (drawing.store_address, drawing.name), time.monotonic() + TURN_S
        with self._changed:
            # Whoever waits for the same page finds it here once it is drawn.
            while (outcome := self._cached(drawing)) is None and not self._has_room(document):
                if self._closed or stopped() or time.monotonic() > until:
                    raise TransientError("too many pages are waiting to be drawn; try again in a moment")
                self._changed.wait(POLL_S)
            if outcome is None:
                self._busy.add(document)
        if outcome is None:
            try:
                last = self._run(drawing, stopped)
                outcome = _outcome(drawing, last, self.limits)
                if isinstance(last, Refused) and last.code in {FailureCode.TIME_LIMIT, FailureCode.MEMORY_LIMIT}:
                    self._over_limit.add(document)
                self._keep(drawing, outcome)
            finally:
                with self._changed:
                    self._busy.discard(document)
                    self._changed.notify_all()
        if isinstance(outcome, bytes):
            return outcome
        raise copy.copy(outcome)  # each raise adds to an exception's traceback

    def clear(self) -> None:
        """Drop cached pictures, since documents were deleted."""
        with self._changed:
            self._pictures.clear()

    def close(self) -> None:
        """End the children; callers get a ``TransientError``."""
        self._closed = True

    def _has_room(self, document: _Document) -> bool:
        alone = self._over_limit if document in self._over_limit else {document}
        return len(self._busy) < self._at_once and alone.isdisjoint(self._busy)

    def _cached(self, drawing: Drawing) -> bytes | InsetError | None:
        if drawing in self._pictures:
            self._pictures.move_to_end(drawing)
            return self._pictures[drawing]
        dpi, until, failure = self._failures.get(_page(drawing), (0, 0.0, None))
        return failure if dpi <= drawing.dpi and time.monotonic() < until else None

    def _run(self, drawing: Drawing, stopped: Callable[[], bool]) -> _Last:
        try:
            child = start(draw_in_child, drawing, self.limits)
        except OSError as error:
            return TransientError(f"no process can be started to draw pages: {error.strerror}")
        while (last := poll(child)) is None:
            if self._closed or stopped():
                child.kill()
                return TransientError("pages are no longer drawn here")
            child.reply.poll(POLL_S)
        return last

    def _keep(self, drawing: Drawing, outcome: bytes | InsetError) -> None:
        with self._changed:
            if isinstance(outcome, bytes):
                self._pictures[drawing] = outcome
                while sum(map(len, self._pictures.values())) > PICTURES_BYTES:
                    self._pictures.popitem(last=False)
            elif isinstance(outcome, BadInputError | NotFoundError):
                self._failures[_page(drawing)] = drawing.dpi, time.monotonic() + FAILURE_S, outcome
                while len(self._failures) > REMEMBERED:
                    self._failures.popitem(last=False)


def _page(drawing: Drawing) -> _Page:
    return drawing.store_address, drawing.name, drawing.page, drawing.digest


def _outcome(drawing: Drawing, last: _Last, limits: ParseOptions) -> bytes | InsetError:
    match last:
        case Done(Drawn(picture, pages)):
            return picture or NotFoundError(f"there is no page {drawing.page}; the document has {pages}")
        case Refused():
            return refusal(drawing, last, limits)
        case _:
            return last


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
        picture = draw_page(pdf, drawing.page, highlight=drawing.highlight, dpi=drawing.dpi)
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
