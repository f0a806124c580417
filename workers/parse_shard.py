"""Parse documents in child processes, which write the results to the store."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backends.pdf.document import open_document
from backends.pdf.opening import RELEASE
from backends.stores.document_files import FILES_VERSION, pack_parsed, parsed_file, read_parsed
from backends.stores.object_store import open_store
from backends.stores.objects import existing
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, Failure, FailureCode
from schemas.ids import converted_file, document_file, key, original_file, sha256
from schemas.ports import DocumentSource
from schemas.stages import Stage
from tasks.figures.render import MAX_FIGURE_PIXELS, RENDER_DPI
from tasks.reading.parse import PARSE_VERSION, parse
from workers.child_processes import Done, run_all
from workers.convert import Conversion, converter_of, remove_leftovers
from workers.isolation import isolate, writing


@dataclass(frozen=True)
class ParseJob:
    """A document to parse, and its source; ``is_stored``: the store has its bytes, and the source has others."""

    doc_id: str
    source: str
    is_stored: bool = False


@dataclass(frozen=True)
class ParseOutcome:
    """The number of parsed pages, or ``failures`` with a document failure."""

    doc_id: str
    pages: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class _Task:
    job: ParseJob
    source: DocumentSource
    store_address: str
    options: ParseOptions
    passwords: tuple[str, ...]
    is_parsed: bool
    folder: Path
    """Where it may write while it converts; removed afterwards, however the child ended."""


def parse_key(options: ParseOptions) -> str:
    """Digest what a finished parse depends on."""
    return key(
        step=PARSE_VERSION,
        files=FILES_VERSION,
        pymupdf=RELEASE,
        render_dpi=RENDER_DPI,
        max_figure_pixels=MAX_FIGURE_PIXELS,
        layout=options.layout,
    )


def attempt_key(options: ParseOptions) -> str:
    """Digest what a failed parse depends on: also limits, and the source of passwords."""
    limits = {"timeout_s", "memory_mb", "max_pages", "passwords_env"}
    return key(parse=parse_key(options), **options.model_dump(include=limits))


def parse_documents(
    jobs: Sequence[ParseJob],
    *,
    source: DocumentSource,
    store_address: str,
    options: ParseOptions,
    passwords: Sequence[str],
    run_id: str | None,
) -> Iterator[ParseOutcome]:
    """Parse documents into the store, and yield each as it is done, in no particular order; stored parses are reused.

    A document that crashes its process or exceeds its limits is a failure; others aren't affected.
    """
    parse_with = parse_key(options)
    files = {job: parsed_file(job.doc_id, parse_with) for job in jobs}
    parsed = existing(open_store(store_address), "parsed", files.values())
    with tempfile.TemporaryDirectory(prefix="inset-") as folder:
        tasks = [
            _Task(job, source, store_address, options, tuple(passwords), file in parsed, Path(folder) / job.doc_id)
            for job, file in files.items()
        ]
        with contextlib.closing(run_all(_parse, tasks, options)) as outcomes:
            for task, last in outcomes:
                job = task.job
                remove_leftovers(task.folder)
                if isinstance(last, Done):
                    yield ParseOutcome(job.doc_id, last.result, ())
                else:
                    yield ParseOutcome(job.doc_id, 0, (last.failure(job.source, job.doc_id, Stage.PARSE, run_id),))


def _read(task: _Task) -> bytes:
    try:
        data = task.source.read(task.job.source)
    except FileNotFoundError as error:
        message = "it went away while the refresh ran; the next refresh takes it up, if it is back"
        raise BadInputError(message, FailureCode.SOURCE_CHANGED) from error
    if sha256(data) != task.job.doc_id:
        raise BadInputError("it changed while the refresh ran; the next refresh takes it up", FailureCode.SOURCE_CHANGED)
    return data


def _parse(task: _Task, opened: Callable[[int], None]) -> int:
    """Return the number of pages."""
    job, store = task.job, open_store(task.store_address)
    file = parsed_file(job.doc_id, parse_key(task.options))
    if task.is_parsed:
        return len(read_parsed(store, file).pages)
    converter = converter_of(job.source)
    original = document_file(job.doc_id) if converter is None else original_file(job.doc_id)
    converted = None if converter is None else converted_file(job.doc_id, converter)
    # The process that writes is forked before a source starts threads, and before this one is isolated and may not write.
    with writing(store, "figures/", original, *([converted] if converted else []), file) as put:
        pdf = data = store.get(original) if job.is_stored else _read(task)
        if converted is not None:
            if store.exists(converted):
                pdf = store.get(converted)
                isolate()
            else:
                pdf = _converted(task, data)
                put(converted, pdf)
        else:
            isolate()
        document = parse(
            open_document(pdf, task.passwords),
            job.doc_id,
            task.options,
            keep_figure=lambda name, picture: put(f"figures/{name}", picture),
            opened=opened,
        )
        # The parsed file comes last: if it exists, so do the original, its PDF and the figures.
        put(original, data)
        put(file, pack_parsed(replace(document, pdf=converted)))
    return len(document.pages)


def _converted(task: _Task, data: bytes) -> bytes:
    """Return the PDF of a document in another format, and leave this process isolated."""
    conversion = Conversion(data, task.job.source, task.passwords)
    task.folder.mkdir()
    conversion.prepare(task.source.read, task.options, task.folder)
    isolate()
    return conversion.finish()
