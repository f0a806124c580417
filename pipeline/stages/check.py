"""Stage 6: check the new version's rows against their contract and the laws of conservation."""

import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.expectations import RowBatch, expect_evidence
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.temporary_tables import KeyedTable, TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.caption_targets import StructuredFiles, drawn_cache
from pipeline.records.evidence import evidence_parts, version_rows
from pipeline.records.inherit import Inherited, inherit
from pipeline.records.languages import known_languages
from pipeline.records.ledger import first_sources, indexed_pages, indexed_sources, read_ledger, readable_ledger
from pipeline.records.notes import StageNote, counts_of, read_notes, read_plan, write_note
from pipeline.records.publication import readable_manifest
from pipeline.records.quarantine import document_failures, replace_failures
from pipeline.records.tagged_copies import list_copies
from pipeline.records.vectors import VectorJoin, open_vectors, passages
from schemas.errors import DamagedError, MissingError
from schemas.evidence import VersionRows
from schemas.gates import COUNTED
from schemas.ids import figure_file, version_file
from schemas.ports import ObjectStore
from schemas.progress import Report, silent
from schemas.stages import Stage, Step
from schemas.tags import TagTemplate
from schemas.versions import GateResult, LedgerRow, Plan, Status
from schemas.violations import GateVerdict, by_document
from tasks.reading.neighbours import pictures_by_their_text, read_with_neighbours
from tasks.versions.check import (
    PLACED,
    ContentConserved,
    DocumentContent,
    ReusedRows,
    TagsArePlacements,
    TagsResolve,
    documents_conserved,
    documents_gone,
    figures_are_their_names,
    one_figure_a_number,
    pictured_pages,
    placed_figures,
)
from tasks.versions.repeat import KEYED, keyed, keyed_by_words


@dataclass(frozen=True)
class _Findings:
    """Gates of a version, the documents that break laws with those laws, and documents whose figures are verified."""

    gates: list[GateResult]
    broken: dict[str, str]
    verified: Set[str]


class Assemble(Protocol):
    """Writes the rows of a version; makes those of some documents again, and quarantines others."""

    def __call__(  # noqa: D102
        self, workspace: Workspace, version: str, report: Report, /, *, rebuild: Collection[str], broken: Mapping[str, str]
    ) -> StageNote: ...


def check(workspace: Workspace, version: str, report: Report = silent, *, assemble: Assemble) -> StageNote:
    """Check a version's rows against their contract and the laws of conservation. Data Docs go to its ``quality/``.

    A document that breaks a law is made again from finished work if it was taken over from the live version; otherwise, or if it
    still breaks the law, it is quarantined. The version is then assembled and checked again. Tagged copies are listed last.
    """
    started = time.monotonic()
    store = workspace.store
    plan = read_plan(store, version)
    inherited = inherit(workspace, plan)
    rebuild: set[str] = set()
    broken: dict[str, str] = {}
    verified = inherited.documents
    while True:
        ledger = read_ledger(store, version)
        inherited = inherited.without({row.doc_id for row in ledger if row.status is Status.QUARANTINED} | rebuild)
        with tempfile.TemporaryDirectory(prefix="inset-") as folder, TemporaryTables() as tables:
            docs = Path(folder)
            found = _run_checks(workspace, plan, ledger, inherited, verified, tables, docs, report)
            if not found.broken:
                _keep_docs(store, version, docs)
                break
        rebuild |= found.broken.keys() & inherited.documents
        broken |= {doc_id: laws for doc_id, laws in found.broken.items() if doc_id not in inherited.documents}
        verified = found.verified - rebuild
        assemble(workspace, version, report, rebuild=rebuild, broken=broken)
    if workspace.corpus.tags.pdf:
        named = {doc_id: first for doc_id, (first, *_) in indexed_sources(ledger).items()}
        replace_failures(store, plan.run_id, Step.TAG, list_copies(workspace, version, named, plan.run_id))
    carried = {row.source for row in plan.carried}  # reported by an earlier refresh
    failures = [
        failure
        for failure in document_failures(ledger, plan.run_id)
        if failure.step == Stage.CHECK and failure.source not in carried
    ]
    note = StageNote(seconds=time.monotonic() - started, failures=failures, gates=found.gates)
    return write_note(store, version, Stage.CHECK, note)


def _run_checks(
    workspace: Workspace,
    plan: Plan,
    ledger: Sequence[LedgerRow],
    inherited: Inherited,
    verified: Set[str],
    tables: TemporaryTables,
    docs: Path,
    report: Report,
) -> _Findings:
    """Check a version's rows, some documents at a time; ``tables`` hold what is compared across all of them."""
    store, corpus, version = workspace.store, workspace.corpus, plan.version
    report("check", 0, 3)
    data = _VersionData(workspace, ledger, inherited, verified, tables)
    data.read_rows(version_rows(store, version))
    report("check", 1, 3)
    suite = expect_evidence(
        data.batches(lambda: evidence_parts(store, version)),
        data.names,
        max_tokens=corpus.chunks.tokens,
        gates=corpus.gates,
        by_text=data.by_text,
        unknown=data.unknown,
        docs=docs,
    )
    report("check", 2, 3)
    pixels = _figures(store, data.by_figure.tables(), data.names, set(chain.from_iterable(plan.shards)))
    laws = [*suite, documents_conserved(plan, ledger), *data.verdicts(), pixels]
    parent = readable_manifest(store, plan.parent)
    had = parent.counts if parent else None
    compare = f"inset diff {corpus.name} {plan.parent} {version}"
    counts = counts_of(read_notes(store, version, (Stage.ASSEMBLE,))[Stage.ASSEMBLE])
    gates = [
        *(law.gate for law in laws),
        documents_gone(ledger, readable_ledger(store, plan.parent) if plan.parent else [], corpus.gates),
        pictures_by_their_text(data.by_text, corpus.gates),
        *(gate.judge_counts(counts, had, corpus.gates, compare, corpus.name) for gate in COUNTED),
    ]
    report("check", 3, 3)
    return _Findings(gates, by_document(laws, data.indexed), data.indexed.keys() if pixels.gate.passed else verified)


class _VersionData:
    """Facts about all rows of a version, collected in one pass."""

    def __init__(
        self,
        workspace: Workspace,
        ledger: Sequence[LedgerRow],
        inherited: Inherited,
        verified: Set[str],
        tables: TemporaryTables,
    ) -> None:
        self.indexed, self.names = indexed_pages(ledger), first_sources(ledger)
        self.by_text: list[tuple[str, Mapping[int, bool]]] = []
        self.unknown: list[str] = []
        self._known = known_languages(workspace)
        self.by_figure = KeyedTable(tables, "figures", PLACED, "figure_id")
        self._by_number = KeyedTable(tables, "numbers", PLACED, "number")
        self._tables = tables
        for name in ("ids", "words"):
            tables.create(name, KEYED)
        spaces = open_vectors(workspace.store, workspace.spaces)
        self._joins = [VectorJoin(tables, one) for one in spaces]
        self._count_tokens = TEXT_EMBEDDERS.find(workspace.corpus.embeddings.text_model).token_counter()
        template = TagTemplate(workspace.corpus.tags.template)
        self._content, self._conserved = ContentConserved(), ReusedRows()
        self._placed, self._resolved = TagsArePlacements(template), TagsResolve(template)
        documents = _documents_in(workspace, self.indexed.keys() - inherited.documents)
        self._fresh = _Cursor(documents, lambda document: document.doc_id)
        self._earlier = _Cursor(inherited.rows(workspace.store), lambda rows: rows.first)
        self._verified = verified
        self._rows = 0

    def read_rows(self, parts: Iterable[VersionRows]) -> None:
        """Read all rows of the version, and the documents they were made of."""
        for rows in parts:
            self._expect(rows.last)
            self._content.look(self._inputs(rows.last), rows)
            for law in (self._conserved, self._placed, self._resolved):
                law.look(rows)
            self.unknown += self._unknown(rows)
            for join in self._joins:
                join.expect(passages(rows.evidence))
            span = range(self._rows, self._rows + rows.evidence.num_rows)
            self._tables.add("ids", keyed(span, rows.evidence.column("evidence_id").to_pylist()))
            self._tables.add("words", keyed_by_words(rows.evidence, self._rows))
            figures = placed_figures(rows.placements, self._verified)
            self.by_figure.add(figures)
            self.by_figure.add(pictured_pages(rows.evidence, self._verified))
            self._by_number.add(figures.filter(pc.is_valid(figures.column("number"))))
            self._rows = span.stop
        self._expect(None)
        self._content.look(self._inputs(None))

    def _expect(self, last: str | None) -> None:
        for earlier in self._earlier.until(last):
            self._conserved.expect(earlier)

    def _unknown(self, rows: VersionRows) -> Iterator[str]:
        """Yield "" for each document, or its source and language where the text model doesn't know the language."""
        documents = rows.evidence.select(["doc_id", "language"]).group_by(["doc_id", "language"], use_threads=False)
        for row in documents.aggregate([]).to_pylist():
            language = row["language"]
            known = self._known is None or language is None or language in self._known
            yield "" if known else f"{self.names.get(row['doc_id'], row['doc_id'])} ({language})"

    def _inputs(self, last: str | None) -> Iterator[DocumentContent]:
        for document in self._fresh.until(last):
            if document.by_text:
                self.by_text.append((self.names[document.doc_id], document.by_text))
            yield document

    def batches(self, evidence: Callable[[], Iterable[pa.Table]]) -> Callable[[], Iterator[RowBatch]]:
        """Return a function that yields the rows with the facts about each; it may be called more than once.

        Raises:
            DamagedError: A row lacks a vector.
        """
        shares_id = self._rows_where("ids", "count(*) OVER (PARTITION BY key) > 1")
        repeated = self._rows_where("words", "row_number() OVER (PARTITION BY key ORDER BY row) > 1")
        norms = {join.name: join.norms() for join in self._joins}

        def joined() -> Iterator[RowBatch]:
            stop = 0
            for part in evidence():
                start, stop = stop, stop + part.num_rows
                span = slice(start, stop)
                lengths = {space: values[span] for space, values in norms.items()}
                n_tokens = self._count_tokens([str(text) for text in part.column("text").to_pylist()])
                yield RowBatch(part, n_tokens, lengths, shares_id[span], repeated[span])

        return joined

    def _rows_where(self, table: str, condition: str) -> NDArray[np.bool_]:
        found = np.zeros(self._rows, bool)
        for rows in self._tables.query(f"SELECT row FROM {table} QUALIFY {condition}"):
            found[rows.column("row").to_numpy()] = True
        return found

    def verdicts(self) -> list[GateVerdict]:
        """Return the verdicts on the laws of conservation and of tags."""
        return [
            *self._content.verdicts(self.names),
            *(law.verdict(self.names) for law in (self._conserved, self._placed, self._resolved)),
            one_figure_a_number(self._by_number.tables(), self.by_figure.tables(), self.names),
        ]


Item = TypeVar("Item")


class _Cursor(Generic[Item]):
    """A cursor over items that are sorted by document id."""

    def __init__(self, items: Iterable[Item], name: Callable[[Item], str | None]) -> None:
        self._items, self._name = iter(items), name
        self._held = next(self._items, None)

    def until(self, doc_id: str | None) -> Iterator[Item]:
        """Yield the remaining items up to a document, itself included; all where None."""
        while self._held is not None and (doc_id is None or (self._name(self._held) or "") <= doc_id):
            yield self._held
            self._held = next(self._items, None)


def _keep_docs(store: ObjectStore, version: str, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.replace(version_file(version, f"quality/{path.relative_to(folder).as_posix()}"), path.read_bytes())


def _documents_in(workspace: Workspace, doc_ids: Iterable[str]) -> Iterator[DocumentContent]:
    """Yield the parse results of documents that are not taken over from the live version, which checked those."""
    drawn = drawn_cache(workspace)
    for doc_id in sorted(doc_ids):
        files = StructuredFiles(workspace, doc_id, drawn)
        yield DocumentContent(
            doc_id=doc_id,
            pages=files.pages,
            placements=files.parsed.placements,
            failed=frozenset(failure.page for failure in files.failures if failure.page is not None),
            marginal=files.marginal_pages,
            by_text=read_with_neighbours(files.pages, files.blocks, files.figures),
            pictured=files.pictures.keys(),
        )


def _figures(
    store: ObjectStore, by_figure: Iterable[pa.Table], names: Mapping[str, str], parsed_now: Set[str]
) -> GateVerdict:
    """Compare the pixels of figures with their names; those of the parent were compared by its check.

    Raises:
        DamagedError: A figure is damaged or missing: its documents are parsed again. Those of ``parsed_now`` are at fault
            themselves.
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

    verdict = figures_are_their_names(by_figure, load, names)
    documents = {violation.doc_id for violation in verdict.violations if violation.doc_id is not None}
    if damaged and not documents <= parsed_now:
        raise next(iter(damaged.values()))
    for doc_id in sorted(documents if damaged else ()):  # a replay parses it again
        for name in store.names(f"parsed/{doc_id}"):
            store.delete(name)
    return verdict
