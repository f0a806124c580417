"""Tagged copies of PDFs: made beside a version where its corpus file asks for them, or for a single file."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from backends.pdf.inscribe import Inscription
from backends.stores.object_store import open_store
from backends.stores.objects import read_names
from pipeline.corpus.workspace import Report, Workspace
from ray_jobs.tag_shard import TagJob, tag_documents
from schemas.corpus import ParseOptions
from schemas.errors import Failure, UserError
from schemas.geometry import BBox
from schemas.ids import document_file, version_file
from schemas.inspection import InspectedDocument
from schemas.ports import ObjectStore
from schemas.stages import Step


def make_tagged(
    workspace: Workspace,
    version: str,
    placements: Iterable[pa.Table],
    sources: Mapping[str, str],
    run_id: str,
    report: Report,
) -> list[Failure]:
    """Make the tagged copies of a version's documents, as far as they aren't in the store, and note where they are.

    Args:
        workspace: The corpus.
        version: The version that the tags belong to.
        placements: All its placements, in parts.
        sources: A source of each indexed document, by document id.
        run_id: Noted in failures.
        report: Called with each copy.

    Returns:
        Why copies are missing. Their documents are indexed all the same.
    """
    jobs = [job for job in _jobs(placements, sources) if job.inscriptions]
    report(Step.TAG, 0, len(jobs))
    # A document without tags is its own copy.
    made = {doc_id: document_file(doc_id) for doc_id in sources.keys() - {job.doc_id for job in jobs}}
    failures: list[Failure] = []
    outcomes = tag_documents(
        jobs,
        store_address=workspace.store.root,
        limits=workspace.corpus.parse,
        passwords=workspace.passwords(),
        run_id=run_id,
    )
    for done, outcome in enumerate(outcomes, 1):
        if outcome.failure is None:
            made[outcome.job.doc_id] = outcome.job.name
        else:
            failures.append(outcome.failure)
        report(Step.TAG, done, len(jobs))
    workspace.store.replace(version_file(version, "tagged.json"), json.dumps(made, sort_keys=True).encode())
    return sorted(failures, key=lambda failure: failure.source)


def tagged_copies(store: ObjectStore, version: str) -> dict[str, str] | None:
    """Return the objects that hold a version's tagged copies, by document id; None where none were asked for."""
    try:
        return read_names(store, version_file(version, "tagged.json"))
    except FileNotFoundError:
        return None


def write_tagged(path: Path, document: InspectedDocument, file: Path, options: ParseOptions | None = None) -> None:
    """Write the tagged copy of a single PDF.

    Args:
        path: The PDF.
        document: What Inset made of it.
        file: Where the copy goes.
        options: Limits.

    Raises:
        UserError: The copy can't be made, or not written there.
    """
    inscriptions = tuple(
        Inscription(page.page, BBox(*figure.bbox), figure.tag)
        for page in document.pages
        for figure in page.figures
        if figure.tag is not None
    )
    job = TagJob(document.doc_id, document.source, inscriptions)
    with tempfile.TemporaryDirectory(prefix="inset-") as folder:
        store = open_store(folder)
        store.put(document_file(document.doc_id), path.read_bytes())
        limits = options or ParseOptions()
        (outcome,) = tag_documents([job], store_address=store.root, limits=limits, passwords=[], run_id=None)
        if outcome.failure is not None:
            raise UserError(f"{path}: {outcome.failure.message} ({outcome.failure.code})")
        try:
            file.write_bytes(store.get(job.name))
        except OSError as error:
            raise UserError(f"can't write {file}: {error.strerror}") from error


def _jobs(placements: Iterable[pa.Table], sources: Mapping[str, str]) -> Iterator[TagJob]:
    inscriptions: dict[str, list[Inscription]] = {doc_id: [] for doc_id in sources}
    for row in (row for part in placements for row in part.select(["doc_id", "page", "bbox", "tag"]).to_pylist()):
        if row["tag"] is not None:
            inscriptions[row["doc_id"]].append(Inscription(row["page"], BBox(*row["bbox"]), row["tag"]))
    for doc_id, items in sorted(inscriptions.items()):
        yield TagJob(doc_id, sources[doc_id], tuple(items))
