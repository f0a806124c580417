"""Stage 5: is the data of the new version what it says it is?"""

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from backends.expectations import expect_evidence
from backends.minilm import open_token_counter
from pipeline.build import vectors_of
from pipeline.enrich import text_vectors
from pipeline.evidence import read_evidence, read_placements, search_texts
from pipeline.inherit import inherit
from pipeline.ledger import indexed_pages, read_ledger
from pipeline.publication import read_manifest
from pipeline.stages import StageNote, read_notes, read_plan, version_file, write_note
from pipeline.workspace import Report, Workspace, silent
from ray_jobs.documents import parsed_folder, read_failures, read_marginal_pages, read_pages, structured_folder
from schemas.tags import TagTemplate
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
    parent = read_manifest(store, plan.parent) if plan.parent else None
    verified = _verified_before(workspace, plan.parent)
    ledger, inherited = read_ledger(store, version), inherit(workspace, plan)
    indexed, before = indexed_pages(ledger), parent.counts if parent else None
    pages = sum(indexed.values())
    gates += [
        documents_conserved(plan, ledger),
        *content_conserved(_documents_in(workspace, indexed.keys() - inherited.documents), evidence, placements),
        taken_over(inherited.evidence, inherited.placements, evidence, placements),
        tags_are_placements(evidence, placements, template),
        tags_resolve(evidence, placements, template),
        one_figure_a_number(placements),
        figures_are_their_names(placements, lambda figure_id: store.get(f"figures/{figure_id}.png"), verified=verified),
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
        )


def _verified_before(workspace: Workspace, parent: str | None) -> frozenset[str]:
    """Return the figures whose pixels the parent's check has looked at; objects are immutable."""
    if parent is None:
        return frozenset()
    figures = read_placements(workspace.store, parent).column("figure_id").to_pylist()
    return frozenset(figure for figure in figures if figure is not None)


def refused(workspace: Workspace, version: str) -> list[str]:
    """Return why the gates that were looked at so far refuse a version; [] where they hold."""
    notes = read_notes(workspace.store, version)
    return [gate.message for note in notes.values() for gate in note.gates if not gate.passed]
