"""Tagged copies of a version's PDFs."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby

import pyarrow.compute as pc

from backends.pdf.inscribe import Inscription
from backends.stores.objects import read_names
from pipeline.corpus.workspace import Workspace
from pipeline.records.converted import pdf_of, read_converted
from pipeline.records.evidence import placement_parts
from schemas.base import batched
from schemas.errors import Failure
from schemas.geometry import BBox
from schemas.ids import version_file
from schemas.ports import ObjectStore
from workers.tag_shard import TagJob, tag_documents

_JOBS_AT_ONCE = 1_000
"""Documents whose tags are held in memory."""


def list_copies(workspace: Workspace, version: str, sources: Mapping[str, str], run_id: str) -> list[Failure]:
    """Make the copies of a version that aren't stored yet, and write ``tagged.json``, which names all.

    Returns the failures; their documents are indexed all the same.
    """
    store, passwords = workspace.store, workspace.passwords()
    # A document without tags is its own copy.
    converted = read_converted(store, version)
    copy_by_document = {doc_id: pdf_of(doc_id, converted) for doc_id in sources}
    failures: list[Failure] = []
    stored = set(store.names("tagged"))

    def missing() -> Iterator[TagJob]:
        for job in _jobs(store, version, sources):
            copy_by_document[job.doc_id] = job.name
            if job.name not in stored:
                yield job

    for jobs in batched(missing(), _JOBS_AT_ONCE):
        failures += tag_documents(
            jobs, store_address=store.root, limits=workspace.corpus.parse, passwords=passwords, run_id=run_id
        )
    failed = {failure.doc_id for failure in failures}
    write_copies(store, version, {doc_id: name for doc_id, name in copy_by_document.items() if doc_id not in failed})
    return sorted(failures, key=lambda failure: failure.source)


def write_copies(store: ObjectStore, version: str, copies: Mapping[str, str]) -> None:
    """Write the names of a version's tagged copies, by document id."""
    store.replace(version_file(version, "tagged.json"), json.dumps(copies, sort_keys=True).encode())


def tagged_copies(store: ObjectStore, version: str) -> dict[str, str] | None:
    """Return the names of a version's tagged copies, by document id; None if it has none."""
    try:
        return read_names(store, version_file(version, "tagged.json"))
    except FileNotFoundError:
        return None


def _jobs(store: ObjectStore, version: str, sources: Mapping[str, str]) -> Iterator[TagJob]:
    converted = read_converted(store, version)
    placements = (part.select(["doc_id", "page", "bbox", "tag"]) for part in placement_parts(store, version))
    rows = (row for part in placements for row in part.filter(pc.is_valid(part.column("tag"))).to_pylist())
    for doc_id, document_rows in groupby(rows, key=lambda row: str(row["doc_id"])):
        inscriptions = tuple(Inscription(row["page"], BBox(*row["bbox"]), row["tag"]) for row in document_rows)
        yield TagJob(doc_id, sources[doc_id], inscriptions, converted.get(doc_id))
