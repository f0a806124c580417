"""Stage 5: is the data of the new version what it says it is?"""

import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from backends.expectations import expect_evidence
from backends.models.minilm import open_token_counter
from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.damage import note_damage, remade
from pipeline.records.evidence import figures_of, read_evidence, read_placements, search_texts
from pipeline.records.inherit import Inherited, inherit
from pipeline.records.ledger import indexed_pages, read_ledger
from pipeline.records.notes import StageNote, read_plan, write_note
from pipeline.records.publication import readable_manifest
from pipeline.records.quarantine import CHECK, document_failures
from pipeline.records.vectors import text_vectors, vectors_of
from ray_jobs.documents import (
    parsed_folder,
    read_failures,
    read_marginal_pages,
    read_neighbours,
    read_pages,
    structured_folder,
)
from schemas.errors import DamagedError, MissingError
from schemas.ids import figure_file, version_file
from schemas.laws import Verdict, by_document
from schemas.ports import ObjectStore
from schemas.stages import Stage
from schemas.tags import TagTemplate
from schemas.versions import GateResult, LedgerRow, Plan, Status
from tasks.reading.neighbours import pictures_by_their_text
from tasks.versions.check import (
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


@dataclass(frozen=True)
class _Findings:
    """What a look at a version finds: what it is held to, and the documents that break it, with what they break."""

    gates: list[GateResult]
    broken: dict[str, str]
    looked_at: frozenset[str]
    """Figures whose pixels are what their names say."""


class Assemble(Protocol):
    """Writes the rows of a version, some documents made anew, some put in quarantine."""

    def __call__(  # noqa: D102
        self, workspace: Workspace, version: str, report: Report, /, *, anew: Collection[str], broken: Mapping[str, str]
    ) -> StageNote: ...


def check(workspace: Workspace, version: str, report: Report = silent, *, assemble: Assemble) -> StageNote:
    """Hold the version's rows to their contract, and to the laws of conservation. Data Docs go to its ``quality/``.

    A document that breaks a law is made of finished work anew where it was taken over from the live version; else, and where
    that doesn't help, it goes to quarantine. The version is assembled again without it, and looked at again.
    """
    started = time.monotonic()
    store = workspace.store
    plan = read_plan(store, version)
    inherited = inherit(workspace, plan)
    anew: set[str] = set()
    broken: dict[str, str] = {}
    looked_at = figures_of(inherited.placements)
    while True:
        ledger = read_ledger(store, version)
        inherited = inherited.without({row.doc_id for row in ledger if row.status is Status.QUARANTINED} | anew)
        with tempfile.TemporaryDirectory() as folder:
            found = _look(workspace, plan, ledger, inherited, looked_at, Path(folder), report)
            if not found.broken:
                _keep_docs(store, version, Path(folder))
                break
        anew |= found.broken.keys() & inherited.documents
        broken |= {doc_id: laws for doc_id, laws in found.broken.items() if doc_id not in inherited.documents}
        looked_at = found.looked_at
        assemble(workspace, version, report, anew=anew, broken=broken)
    here = {document.source for document in plan.documents}
    failures = [
        failure
        for failure in document_failures(ledger, plan.run_id)
        if failure.step == CHECK and failure.source in here  # what is carried over is no news
    ]
    note = StageNote(seconds=time.monotonic() - started, failures=failures, gates=found.gates)
    return write_note(store, version, Stage.CHECK, note)


def _look(
    workspace: Workspace,
    plan: Plan,
    ledger: Sequence[LedgerRow],
    inherited: Inherited,
    looked_at: frozenset[str],
    docs: Path,
    report: Report,
) -> _Findings:
    store, corpus, version = workspace.store, workspace.corpus, plan.version
    evidence, placements = read_evidence(store, version), read_placements(store, version)
    template = TagTemplate(corpus.tags.template)
    texts = search_texts(evidence)
    indexed = indexed_pages(ledger)
    names = {row.doc_id: row.source for row in reversed(ledger)}
    report("check", 0, 3)
    by_text: list[tuple[str, Mapping[int, bool]]] = []

    def fresh() -> Iterator[DocumentIn]:
        for document in _documents_in(workspace, indexed.keys() - inherited.documents):
            by_text.append((names[document.doc_id], document.by_text))
            yield document

    content = content_conserved(fresh(), evidence, placements, names)
    rows = expect_evidence(
        evidence,
        names,
        n_tokens=open_token_counter(corpus.embeddings)([str(text) for text in evidence.column("text").to_pylist()]),
        norms=np.linalg.norm(vectors_of(text_vectors(workspace), texts), axis=1),
        max_tokens=corpus.index.chunk_tokens,
        gates=corpus.gates,
        by_text=by_text,
        docs=docs,
    )
    report("check", 1, 3)
    figures = _figures(store, placements, names, looked_at)
    laws = [
        *rows,
        documents_conserved(plan, ledger),
        *content,
        taken_over(inherited.evidence, inherited.placements, evidence, placements, names),
        tags_are_placements(evidence, placements, template, names),
        tags_resolve(evidence, placements, template, names),
        one_figure_a_number(placements, names),
        figures,
    ]
    parent = readable_manifest(store, plan.parent)
    before = parent.counts if parent else None
    compare = f"inset diff {corpus.name} {plan.parent} {version}"
    pages = sum(indexed.values())
    gates = [
        *(law.gate for law in laws),
        pictures_by_their_text(by_text, corpus.gates.min_pictures_by_text),
        rows_not_lost(evidence.num_rows, before.rows if before else None, corpus.gates.max_row_loss, compare),
        rows_a_page(
            evidence.num_rows,
            pages,
            (before.rows, before.pages) if before else None,
            corpus.gates.max_row_drift,
            compare,
        ),
    ]
    report("check", 3, 3)
    seen = looked_at | figures_of(placements) if figures.gate.passed else looked_at
    return _Findings(gates, by_document(laws, indexed), seen)


def _keep_docs(store: ObjectStore, version: str, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.replace(version_file(version, f"quality/{path.relative_to(folder).as_posix()}"), path.read_bytes())


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


def _figures(store: ObjectStore, placements: pa.Table, names: Mapping[str, str], looked_at: frozenset[str]) -> Verdict:
    """Look at the pixels of figures that nobody looked at yet: the parent's check did at those that are taken over.

    Raises:
        DamagedError: One is damaged or missing. That says nothing about the version: it is made again, and so is the version.
            Only where it was made again just now, it is the documents' offence.
    """
    damaged: dict[str, DamagedError] = {}

    def load(figure: str) -> bytes:
        try:
            return store.get(figure_file(figure))
        except MissingError as error:
            damaged[figure] = error
            raise
        except DamagedError as error:
            damaged[figure] = error
            return b""

    verdict = figures_are_their_names(placements, load, names, verified=looked_at)
    documents = {offence.doc_id for offence in verdict.offences if offence.doc_id is not None}
    if damaged and not documents <= remade(store):
        note_damage(store, [figure_file(figure) for figure in damaged], documents)
        error = next(iter(damaged.values()))
        raise DamagedError(error.message, error.name) from error
    return verdict
