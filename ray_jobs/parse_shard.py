"""Parse documents, each in a process of its own that is killed when it takes too long, too much, or both.

The processes are forked from a server that has imported PyMuPDF once, so a document costs milliseconds to start. The child
writes its result into the store itself; the parent only learns that it is there, or why not.
"""

import importlib.metadata
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess

import psutil

from backends.sources import open_source
from backends.stores import open_store
from ray_jobs.documents import is_finished, parsed_folder, read_parsed, write_parsed
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, Failure, FailureCode, InsetError, TransientError
from schemas.ids import key, sha256
from tasks.parse import PARSE_VERSION, parse

STEP = "parse"
_POLL_S = 0.2
_NEAR_LIMIT = 0.3  # memory doubles between two looks
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class ParseJob:
    """A document to parse, and the source that holds its bytes."""

    doc_id: str
    source: str


@dataclass(frozen=True)
class ParseOutcome:
    """What became of a document: its pages are parsed, or ``failures`` has one without a page that says why not."""

    doc_id: str
    pages: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class _Order:
    """All that a child needs to know."""

    job: ParseJob
    source_address: str
    store_address: str
    options: ParseOptions
    passwords: tuple[str, ...]


@dataclass(frozen=True)
class _Opened:
    """The child has opened its document: a long one may take longer."""

    pages: int


@dataclass(frozen=True)
class _Done:
    """The child's last word: the document is parsed."""

    pages: int


@dataclass(frozen=True)
class _Refused:
    """The child's last word: the document can't be parsed."""

    code: FailureCode
    message: str
    page: int | None = None


@dataclass(frozen=True)
class _Hiccup:
    """The child's last word: the store or the source did not answer."""

    message: str


_LastWord = _Done | _Refused | _Hiccup


@dataclass
class _Running:
    order: _Order
    process: ForkServerProcess
    reply: Connection
    deadline: float
    most_bytes: int = 0


def parse_key(options: ParseOptions) -> str:
    """Digest what a finished parse depends on."""
    return key(
        step=PARSE_VERSION,
        pymupdf=importlib.metadata.version("pymupdf"),
        render_dpi=options.render_dpi,
        max_figure_pixels=options.max_figure_pixels,
    )


def attempt_key(options: ParseOptions) -> str:
    """Digest what a failed parse depends on: the limits too, and where passwords come from."""
    limits = {"timeout_s", "timeout_s_per_page", "memory_mb", "max_pages", "passwords_env"}
    return key(parse=parse_key(options), **options.model_dump(include=limits))


def parse_documents(
    jobs: Sequence[ParseJob],
    *,
    source_address: str,
    store_address: str,
    options: ParseOptions,
    passwords: Sequence[str],
    run_id: str | None,
) -> Iterator[ParseOutcome]:
    """Parse documents into the store and yield each as it is done, in no particular order.

    A document that breaks its process, or outlives its limits, is a failure; the others never notice.

    Args:
        jobs: Documents to parse; one whose parse is in the store already is yielded as done.
        source_address: Where the PDFs come from.
        store_address: The corpus's store.
        options: Limits, resolution, and how many processes at once.
        passwords: What to try on encrypted documents.
        run_id: Noted in failures.

    Raises:
        TransientError: The store or the source did not answer.
    """
    orders = [_Order(job, source_address, store_address, options, tuple(passwords)) for job in reversed(jobs)]
    workers = options.workers or os.cpu_count() or 1
    running: list[_Running] = []
    context = multiprocessing.get_context("forkserver")
    # pyarrow imports pandas, where it is installed, at its first table.
    context.set_forkserver_preload(["ray_jobs.parse_shard", "pymupdf", "PIL.PngImagePlugin", "pandas"])
    try:
        while orders or running:
            while orders and len(running) < workers:
                running.append(_start(context, orders.pop()))
            multiprocessing.connection.wait([item.reply for item in running], timeout=_POLL_S)
            for item in list(running):
                reply = _finished(item)
                if reply is not None:
                    running.remove(item)
                    yield _outcome(item.order, reply, run_id)
    finally:
        for item in running:
            item.process.kill()
            item.process.join()


def _start(context: ForkServerContext, order: _Order) -> _Running:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_parse_in_child, args=(order, theirs), daemon=False)
    process.start()
    theirs.close()
    return _Running(order, process, ours, time.monotonic() + order.options.timeout_s)


def _finished(item: _Running) -> _LastWord | None:
    """Return the child's last word; None while it works. One that is out of time is killed."""
    options = item.order.options
    try:
        while item.reply.poll():
            message: _Opened | _LastWord = item.reply.recv()
            if isinstance(message, _Opened):
                item.deadline += options.timeout_s_per_page * message.pages
            else:
                item.process.join()
                return message
    except EOFError:
        item.process.join()
        return _died(item)
    item.most_bytes = max(item.most_bytes, _held(item.process.pid))
    if time.monotonic() > item.deadline:
        item.process.kill()
        item.process.join()
        return _Refused(FailureCode.TIME_LIMIT, "it took longer than parse.timeout_s allows, and was stopped")
    return None


def _died(item: _Running) -> _Refused:
    """Say why a child ended without a last word; out of memory, MuPDF may crash instead of saying so."""
    exitcode, limit = item.process.exitcode, item.order.options.memory_mb
    held = item.most_bytes // _MEBIBYTE
    if exitcode == -signal.SIGKILL:
        return _Refused(FailureCode.MEMORY_LIMIT, f"its process was killed at {held} MiB, most likely for want of memory")
    if held >= limit * _NEAR_LIMIT:
        message = f"it crashed the PDF library at {held} MiB or more; parse.memory_mb is {limit}"
        return _Refused(FailureCode.MEMORY_LIMIT, message)
    return _Refused(FailureCode.CRASHED, f"it crashed the PDF library (exit {exitcode})")


def _held(pid: int | None) -> int:
    """Return the bytes that a process holds in memory; 0 where it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _outcome(order: _Order, last: _LastWord, run_id: str | None) -> ParseOutcome:
    job = order.job
    match last:
        case _Done(pages):
            return ParseOutcome(job.doc_id, pages, ())
        case _Hiccup(message):
            raise TransientError(message)
        case _Refused(code, message, page):
            failure = Failure(
                source=job.source, doc_id=job.doc_id, page=page, step=STEP, code=code, message=message, run_id=run_id
            )
            return ParseOutcome(job.doc_id, 0, (failure,))


def _parse_in_child(order: _Order, reply: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends its children
    try:
        _limit_memory(order.options.memory_mb)
        last: _LastWord = _Done(_parse(order, lambda pages: reply.send(_Opened(pages))))
    except BadInputError as error:
        last = _Refused(error.code, error.message, error.page)
    except MemoryError:
        last = _Refused(FailureCode.MEMORY_LIMIT, f"it needs more than parse.memory_mb ({order.options.memory_mb})")
    except InsetError as error:
        last = _Hiccup(error.message)
    except Exception as error:  # noqa: BLE001  what nobody foresaw is this document's failure, not the refresh's
        last = _Refused(FailureCode.CRASHED, f"reading it failed: {type(error).__name__}: {error}"[:300])
    reply.send(last)


def _limit_memory(mebibytes: int) -> None:
    """Bound what this process may allocate beyond what it was born with."""
    born_with = psutil.Process().memory_info().vms
    limit = born_with + mebibytes * _MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _parse(order: _Order, opened: Callable[[int], None]) -> int:
    job, store = order.job, open_store(order.store_address)
    folder = parsed_folder(job.doc_id, parse_key(order.options))
    if is_finished(store, folder):
        return len(read_parsed(store, folder).pages)
    try:
        data = open_source(order.source_address).read(job.source)
    except FileNotFoundError as error:
        raise BadInputError("it went away while the refresh ran", FailureCode.SOURCE_CHANGED) from error
    if sha256(data) != job.doc_id:
        raise BadInputError("it changed while the refresh ran; the next refresh takes it up", FailureCode.SOURCE_CHANGED)
    document = parse(
        data,
        job.doc_id,
        order.options,
        passwords=order.passwords,
        keep_figure=lambda name, picture: store.put(f"figures/{name}", picture),
        opened=opened,
    )
    store.put(f"documents/{job.doc_id}.pdf", data)
    write_parsed(store, folder, document)
    return len(document.pages)
