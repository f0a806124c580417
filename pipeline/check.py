"""Stage 5: is the data of the new version what it says it is?"""

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from backends.expectations import expect_evidence
from backends.minilm import open_token_counter
from pipeline.build import vectors_of
from pipeline.enrich import text_vectors
from pipeline.evidence import figures_of, read_evidence, read_placements, search_texts
from pipeline.inherit import Inherited, inherit
from pipeline.ledger import indexed_pages, read_ledger
from pipeline.publication import readable_manifest
from pipeline.repair import note_damage
from pipeline.stages import StageNote, read_notes, read_plan, version_file, write_note
from pipeline.workspace import Report, Workspace, silent
from ray_jobs.documents import (
    parsed_folder,
    read_failures,
    read_marginal_pages,
    read_neighbours,
    read_pages,
    structured_folder,
)
from schemas.errors import DamagedError
from schemas.ports import ObjectStore
from schemas.tags import TagTemplate
from schemas.versions import GateResult
from tasks.check import (
    DocumentIn,
    content_conserved,
    documents_conserved,
    figures_are_their_names,
    one_figure_a_number,
    rows_a_page,
    rows_not_lost,
    tags_are_placements,
    tags_resolve,
    taken_over,
)
from tasks.neighbours import pictures_by_their_text


def check(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Hold the version's rows to their contract, and to the laws of conservation. Data Docs go to its ``quality/``."""
    started = time.monotonic()
    store, corpus = workspace.store, workspace.corpus
    plan = read_plan(store, version)
    evidence = read_evidence(workspace.store, version)
    placements = read_placements(workspace.store, version)
    template = TagTemplate(corpus.tags.template)
    texts = search_texts(evidence)
    report("check", 0, 3)
    with tempfile.TemporaryDirectory() as folder:
        gates = expect_evidence(
            evidence,
            n_tokens=open_token_counter(corpus.embeddings)([str(text) for text in evidence.column("text").to_pylist()]),
            norms=np.linalg.norm(vectors_of(text_vectors(workspace), texts), axis=1),
            max_tokens=corpus.index.chunk_tokens,
            gates=corpus.gates,
            docs=Path(folder),
        )
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                store.replace(version_file(version, f"quality/{path.relative_to(folder).as_posix()}"), path.read_bytes())
    report("check", 1, 3)
    parent = readable_manifest(store, plan.parent)
    ledger, inherited = read_ledger(store, version), inherit(workspace, plan)
    indexed, before = indexed_pages(ledger), parent.counts if parent else None
    pages = sum(indexed.values())
    by_text: list[Mapping[int, bool]] = []

    def fresh() -> Iterator[DocumentIn]:
        for document in _documents_in(workspace, indexed.keys() - inherited.documents):
            by_text.append(document.by_text)
            yield document

    gates += [
        documents_conserved(plan, ledger),
        *content_conserved(fresh(), evidence, placements),
        pictures_by_their_text(by_text, corpus.gates.min_pictures_by_text),
        taken_over(inherited.evidence, inherited.placements, evidence, placements),
        tags_are_placements(evidence, placements, template),
        tags_resolve(evidence, placements, template),
        one_figure_a_number(placements),
        _figures(store, placements, inherited),
        rows_not_lost(evidence.num_rows, before.rows if before else None, corpus.gates.max_row_loss),
        rows_a_page(evidence.num_rows, pages, (before.rows, before.pages) if before else None, corpus.gates.max_row_drift),
    ]
    report("check", 3, 3)
    return write_note(store, version, "check", StageNote(seconds=time.monotonic() - started, gates=gates))


def _documents_in(workspace: Workspace, doc_ids: Iterable[str]) -> Iterator[DocumentIn]:
    """Yield what the parse found in documents that the live version hasn't got; those that it has were looked at then."""
    store, keys = workspace.store, workspace.keys
    for doc_id in sorted(doc_ids):
        parsed, structured = parsed_folder(doc_id, keys.parse), structured_folder(doc_id, keys.structured)
        pages, placements = read_pages(store, parsed)
        yield DocumentIn(
            doc_id=doc_id,
            pages=pages,
            placements=placements,
            failed=frozenset(failure.page for failure in read_failures(store, structured) if failure.page is not None),
            marginal=read_marginal_pages(store, structured),
            by_text=read_neighbours(store, structured, pages),
        )


def _figures(store: ObjectStore, placements: pa.Table, inherited: Inherited) -> GateResult:
    """Look at the pixels of all figures but those of documents that are taken over: the parent's check looked at them.

    Raises:
        DamagedError: One is damaged or missing. That says nothing about the version: it is made again, and so is the version.
    """
    damaged: dict[str, DamagedError] = {}

    def load(figure: str) -> bytes:
        try:
            return store.get(f"figures/{figure}.png")
        except DamagedError as error:
            damaged[figure] = error
            return b""

    gate = figures_are_their_names(placements, load, verified=figures_of(inherited.placements))
    for error in damaged.values():
        rows = placements.select(["doc_id", "figure_id"]).to_pylist()
        documents = {row["doc_id"] for row in rows if row["figure_id"] in damaged}
        note_damage(store, [f"figures/{figure}.png" for figure in damaged], documents)
        raise DamagedError(error.message, error.name) from error
    return gate


def refused(workspace: Workspace, version: str) -> list[str]:
    """Return why the gates that were looked at so far refuse a version; [] where they hold."""
    notes = read_notes(workspace.store, version)
    return [gate.message for note in notes.values() for gate in note.gates if not gate.passed]
