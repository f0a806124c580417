"""Tagged copies of PDFs, for a version or a single file."""

import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from backends.pdf.inscribe import Inscription
from backends.stores.object_store import open_store
from backends.stores.objects import read_names
from pipeline.corpus.workspace import Workspace
from pipeline.records.converted import pdf_of, read_converted
from pipeline.records.evidence import placement_parts
from pipeline.records.notes import read_notes
from schemas.base import batched
from schemas.corpus import ParseOptions
from schemas.errors import Failure, UserError
from schemas.geometry import BBox
from schemas.ids import sha256, version_file
from schemas.ports import ObjectStore
from schemas.reports import InspectedDocument
from schemas.stages import Stage
from workers.tag_shard import TagJob, TagOutcome, tag_documents

_JOBS_AT_ONCE = 1_000
"""Documents whose tags are held in memory."""


def shard_of(doc_id: str, shards: int) -> int:
    """Return the shard of a document, which depends on its id alone."""
    return zlib.crc32(doc_id.encode()) % shards


def missing_copies(store: ObjectStore, version: str, sources: Mapping[str, str]) -> Iterator[TagJob]:
    """Yield what is to be written for an assembled version: the copies that aren't stored yet, by document id."""
    stored = set(store.names("tagged"))
    return (job for job in _jobs(store, version, sources) if job.name not in stored)


def write_copies(workspace: Workspace, jobs: Iterable[TagJob], run_id: str) -> Iterator[TagOutcome]:
    """Write copies, and yield each outcome. Stored copies are reused."""
    passwords = workspace.passwords()
    for batch in batched(jobs, _JOBS_AT_ONCE):
        yield from tag_documents(
            batch, store_address=workspace.store.root, limits=workspace.corpus.parse, passwords=passwords, run_id=run_id
        )


def list_copies(workspace: Workspace, version: str, sources: Mapping[str, str], run_id: str) -> list[Failure]:
    """Write ``tagged.json``, the copies of a version, and make those that no shard was asked for.

    Returns the failures, those of the shards included; their documents are indexed all the same.
    """
    store = workspace.store
    failed = {
        failure.doc_id: failure
        for note in read_notes(store, version, [Stage.TAG]).values()
        for failure in note.failures
        if failure.doc_id in sources
    }
    # A document without tags is its own copy.
    converted = read_converted(store, version)
    copy_by_document = {doc_id: pdf_of(doc_id, converted) for doc_id in sources}
    failures: list[Failure] = []
    stored = set(store.names("tagged"))

    def todo() -> Iterator[TagJob]:
        for job in _jobs(store, version, sources):
            if job.name in stored:
                copy_by_document[job.doc_id] = job.name
            # A shard of this run failed at it, so it isn't tried again here.
            elif job.doc_id in failed:
                failures.append(failed[job.doc_id])
            else:
                yield job

    for outcome in write_copies(workspace, todo(), run_id):
        if outcome.failure is None:
            copy_by_document[outcome.job.doc_id] = outcome.job.name
        else:
            failures.append(outcome.failure)
    for failure in failures:
        del copy_by_document[failure.doc_id or ""]
    store.replace(version_file(version, "tagged.json"), json.dumps(copy_by_document, sort_keys=True).encode())
    return sorted(failures, key=lambda failure: failure.source)


def tagged_copies(store: ObjectStore, version: str) -> dict[str, str] | None:
    """Return the names of a version's tagged copies, by document id; None if it has none."""
    try:
        return read_names(store, version_file(version, "tagged.json"))
    except FileNotFoundError:
        return None


def write_tagged(path: Path, document: InspectedDocument, file: Path, options: ParseOptions | None = None) -> None:
    """Write the tagged copy of a single PDF; raises ``UserError`` if it can't be made or written."""
    inscriptions = tuple(
        Inscription(page.page, BBox(*figure.bbox), figure.tag)
        for page in document.pages
        for figure in page.figures
        if figure.tag is not None
    )
    pdf = path.read_bytes()
    job = TagJob(sha256(pdf), document.source, inscriptions)
    with tempfile.TemporaryDirectory(prefix="inset-") as folder:
        store = open_store(folder)
        store.put(job.pdf, pdf)
        limits = options or ParseOptions()
        (outcome,) = tag_documents([job], store_address=store.root, limits=limits, passwords=[], run_id=None)
        if outcome.failure is not None:
            raise UserError(f"{path}: {outcome.failure.message} ({outcome.failure.code})")
        try:
            file.write_bytes(store.get(job.name))
        except OSError as error:
            raise UserError(f"can't write {file}: {error.strerror}") from error


def _jobs(store: ObjectStore, version: str, sources: Mapping[str, str]) -> Iterator[TagJob]:
    converted = read_converted(store, version)
    rows = (row for part in placement_parts(store, version) for row in _tagged_rows(part).to_pylist())
    for doc_id, document_rows in groupby(rows, key=lambda row: str(row["doc_id"])):
        inscriptions = tuple(Inscription(row["page"], BBox(*row["bbox"]), row["tag"]) for row in document_rows)
        yield TagJob(doc_id, sources[doc_id], inscriptions, converted.get(doc_id))


def _tagged_rows(placements: pa.Table) -> pa.Table:
    rows = placements.select(["doc_id", "page", "bbox", "tag"])
    return rows.filter(pc.is_valid(rows.column("tag")))
