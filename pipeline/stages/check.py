"""Stage 6: check the new version's rows against their contract and the laws of conservation."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.expectations import judge
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.objects import attempt
from backends.stores.temporary_tables import KEYED, TemporaryTables, keyed
from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import SpaceVectors, documents_of, open_vectors, passages
from pipeline.records.descriptions import StructuredFiles, drawn_cache
from pipeline.records.documents import Inherited, inherit
from pipeline.records.ledger import (
    document_failures,
    first_sources,
    indexed_pages,
    indexed_sources,
    read_ledger,
    readable_ledger,
    replace_failures,
)
from pipeline.records.manifests import readable_manifest
from pipeline.records.notes import StageNote, counts_of, read_notes, read_plan, write_note
from pipeline.records.row_parts import (
    DIGITS_OF_WORDS,
    Facts,
    keyed_by_words,
    read_documents,
    read_parts,
    rows_of_documents,
)
from pipeline.records.tagged_copies import list_copies
from ray_jobs.pools import Batch, Outcome, Run, ordered_pool, outcomes_of_batch
from schemas.base import batched
from schemas.errors import DamagedError, MissingError
from schemas.evidence import VersionRows
from schemas.gates import (
    COUNTED,
    DUPLICATES,
    LONG_TEXTS,
    Gate,
    GateResult,
    GateVerdict,
    Violation,
    descriptions_by_document,
)
from schemas.ids import figure_file, version_file
from schemas.ports import ObjectStore
from schemas.stages import Report, Stage, Step, silent
from schemas.tags import TagTemplate
from schemas.versions import LedgerRow, Plan, Status
from tasks.enriching.spaces import SPACES
from tasks.versions.check import (
    FIGURES,
    PAGES,
    PLACED,
    PLACED_TAGS,
    RESOLVED_TAGS,
    DocumentContent,
    Tally,
    documents_conserved,
    documents_gone,
    figures_are_their_names,
    one_figure_a_number,
    pictured_pages,
    placed_figures,
    rows_reused,
)
from tasks.versions.row_rules import (
    REPEATED,
    UNIQUE,
    BrokenRows,
    broken_rows,
    length_of,
    long_texts,
    row_counts,
    row_verdict,
    rows_off,
)


@dataclass(frozen=True)
class _Findings:
    """Gates of a version, broken laws by document, and the number of ``long`` texts."""

    gates: list[GateResult]
    broken: dict[str, str]
    long: int


def check(workspace: Workspace, version: str, report: Report = silent, *, assemble: Callable[..., StageNote]) -> StageNote:
    """Check a version's rows against their contract and the laws of conservation. Data Docs go to its ``quality/``.

    A document that breaks a law is made again from finished work if it was taken over from the live version; otherwise, or
    if it still breaks the law, it is quarantined. The stage ``assemble`` then writes the version again, which is checked.
    Tagged copies are listed last.
    """
    started = time.monotonic()
    store = workspace.store
    rebuild: set[str] = set()
    broken: dict[str, str] = {}
    while True:
        plan, ledger = read_plan(store, version), read_ledger(store, version)
        inherited = inherit(workspace, plan).without(
            {row.doc_id for row in ledger if row.status is Status.QUARANTINED} | rebuild
        )
        with tempfile.TemporaryDirectory(prefix="inset-") as folder, TemporaryTables() as tables:
            docs = Path(folder)
            findings = _run_checks(workspace, plan, ledger, inherited, tables, docs, report)
            if not findings.broken:
                _keep_docs(store, version, docs)
                break
        # Each round adds a document to ``rebuild`` or ``broken`` that wasn't in it before, so the loop ends.
        rebuild |= findings.broken.keys() & inherited.documents
        broken |= {doc_id: laws for doc_id, laws in findings.broken.items() if doc_id not in inherited.documents}
        assemble(workspace, version, report, rebuild=rebuild, broken=broken)
    if workspace.corpus.tags.pdf:
        source_by_document = {doc_id: first for doc_id, (first, *_) in indexed_sources(ledger).items()}
        replace_failures(store, plan.run_id, Step.TAG, list_copies(workspace, version, source_by_document, plan.run_id))
    carried = {row.source for row in plan.carried}  # reported by an earlier refresh
    failures = [
        failure
        for failure in document_failures(ledger, plan.run_id)
        if failure.step == Stage.CHECK and failure.source not in carried
    ]
    note = StageNote(
        seconds=time.monotonic() - started, failures=failures, gates=findings.gates, counts={_LONG: findings.long}
    )
    return write_note(store, version, Stage.CHECK, note)


def _run_checks(
    workspace: Workspace,
    plan: Plan,
    ledger: Sequence[LedgerRow],
    inherited: Inherited,
    tables: TemporaryTables,
    docs: Path,
    report: Report,
) -> _Findings:
    """Check a version's rows, some documents at a time; ``tables`` hold what is compared across all of them."""
    store, corpus, version = workspace.store, workspace.corpus, plan.version
    report("check", 0, 3)
    data = _VersionData(workspace, version, ledger, inherited, tables)
    with ordered_pool(CheckActor, (workspace, version), corpus.ray, documents=len(data.to_examine())) as run:
        data.examine(run)
        report("check", 1, 3)
        pixels = _figures(run, store, tables, data.names, set(chain.from_iterable(plan.shards)))
    report("check", 2, 3)
    laws = [*data.judge_rows(docs), documents_conserved(plan, ledger), *data.verdicts(), pixels]
    parent = readable_manifest(store, plan.parent)
    parent_counts = parent.counts if parent else None
    compare = f"inset diff {corpus.name} {plan.parent} {version}"
    counts = counts_of(read_notes(store, version, (Stage.ASSEMBLE,))[Stage.ASSEMBLE].counts)
    gates = [
        *(law.gate for law in laws),
        documents_gone(ledger, readable_ledger(store, plan.parent), corpus.gates),
        *(gate.judge_counts(counts, parent_counts, corpus.gates, compare, corpus.name) for gate in COUNTED),
    ]
    report("check", 3, 3)
    return _Findings(gates, descriptions_by_document(laws, data.indexed), data.long)


_LONG = "long_texts"
"""Count of the note: rows of the version whose text is too long."""


@dataclass(frozen=True)
class _Examined:
    """Facts of the rows of some documents; indices of rows count from the first of them."""

    laws: Tally
    evidence_ids: list[str]
    keys: pa.Table
    figures: tuple[pa.Table, pa.Table]
    """The pages and the placements with a figure, as rows of ``PLACED``."""
    pages: pa.Table
    """``doc_id`` and ``page`` of each row."""
    broken: BrokenRows


class CheckActor:
    """Examines documents of a version, validates their rows, and decodes figures."""

    def __init__(self, workspace: Workspace, version: str) -> None:
        self._workspace, self._version = workspace, version
        self._store, self._drawn = workspace.store, drawn_cache(workspace)
        self._spaces = open_vectors(workspace.store, workspace.spaces)
        self._count_tokens = TEXT_EMBEDDERS.find(workspace.corpus.embedding_models.text_model).token_counter()

    def run(self, batch: Batch) -> list[Outcome[Any]]:
        """Return what is wrong with figures, whose input is None, or with the rows of documents, and what they are.

        A document's input is whether its rows were made for this version.
        """
        if batch[0][1] is None:
            return [Outcome(figure, self._decode(figure)) for figure, _ in batch]
        return outcomes_of_batch(batch, self._examine(dict(batch)))

    def _examine(self, documents: Mapping[str, bool]) -> _Examined:
        laws = Tally()
        rows_by_document = dict(rows_of_documents(self._store, self._version, documents.keys()))
        rows = VersionRows.joined(rows_by_document.values())
        for doc_id, is_new in documents.items():
            if is_new:
                laws.look_at_content(self._content_of(doc_id), rows_by_document.get(doc_id, VersionRows.joined(())))
        laws.look_at_tags(rows, TagTemplate(self._workspace.corpus.tags.template))
        row_texts = passages(rows.evidence)
        vectors_off = {length_of(vectors.space.name): _vectors_off(vectors, rows.evidence) for vectors in self._spaces}
        n_tokens = np.array(self._count_tokens([str(row.text) for row in row_texts]), np.int32)
        return _Examined(
            laws,
            [str(evidence_id) for evidence_id in rows.evidence.column("evidence_id").to_pylist()],
            keyed_by_words(rows.evidence, 0),
            (pictured_pages(rows.evidence), placed_figures(rows.placements)),
            rows.evidence.select(_PAGES.names).cast(_PAGES),
            broken_rows(rows.evidence, n_tokens, self._workspace.corpus.chunks.tokens) | vectors_off,
        )

    def _content_of(self, doc_id: str) -> DocumentContent:
        """Return the parse result of a document that isn't taken over from the live version, which checked those."""
        files = StructuredFiles(self._workspace, doc_id, self._drawn)
        return DocumentContent(
            doc_id=doc_id,
            pages=files.pages,
            placements=files.parsed.placements,
            failed=frozenset(failure.page for failure in files.failures if failure.page is not None),
            marginal=files.marginal_pages,
            pictured=files.pictures.keys(),
        )

    def _decode(self, figure: str) -> tuple[str, str | None, DamagedError | None]:
        """Return a figure with its fault, and the error of reading it: the store compares its pixels with its name."""
        error = attempt(lambda: self._store.get(figure_file(figure)))[1]
        fault = None if error is None else "is not stored" if isinstance(error, MissingError) else "can't be decoded"
        return figure, fault, error


def _vectors_off(vectors: SpaceVectors, evidence: pa.Table) -> NDArray[np.int64]:
    """Return the rows that have a vector whose length isn't 1, one document in memory at a time."""
    indices, stop = [np.empty(0, np.int64)], 0
    for doc_id, rows in documents_of(evidence):
        start, stop = stop, stop + rows.num_rows
        indices.append(start + rows_off(vectors.of(doc_id, passages(rows))))
    return np.concatenate(indices)


class _VersionData:
    """Facts about the rows of a version that changed since its parent, collected in one pass, and about what they share."""

    def __init__(
        self,
        workspace: Workspace,
        version: str,
        ledger: Sequence[LedgerRow],
        inherited: Inherited,
        tables: TemporaryTables,
    ) -> None:
        store = workspace.store
        self._workspace, self._version, self._inherited = workspace, version, inherited
        self.indexed, self.names = indexed_pages(ledger), first_sources(ledger)
        self._tables = tables
        self._parts, self._documents = read_parts(store, version), read_documents(store, version)
        self._facts = Facts(store, self._parts, tables)
        before = inherited.facts
        # A document that was taken over counts as changed if its rows differ, such as by the number of a figure.
        self._changed = {
            doc_id
            for doc_id, document_facts in self._documents.items()
            if doc_id not in before or before[doc_id].digest != document_facts.digest
        } | (self._documents.keys() - inherited.documents)
        for name, schema in (("placed", PLACED), ("ids", KEYED), ("keys", KEYED)):
            tables.create(name, schema)
        self._laws = Tally()
        self._pages, self._broken, self._n_rows = [_PAGES.empty_table()], dict[str, list[NDArray[np.int64]]](), 0

    def to_examine(self) -> Set[str]:
        """Return the documents to examine."""
        return self._changed | (self.indexed.keys() - self._inherited.documents)

    def examine(self, run: Run) -> None:
        """Examine the changed documents, and what they share with others."""
        batches = (
            [(doc_id, doc_id not in self._inherited.documents) for doc_id in doc_ids]
            for doc_ids in self._parts.shards(self.to_examine())
        )
        for examined in run(batches):
            self._add(examined)
        # A number that a changed document has may contradict an unchanged one, whose figures are in no examined row.
        if len(self._changed) < len(self._documents):
            for table in self._facts.sharing_figures(self._changed):
                self._tables.add("placed", table)
        self._broken[UNIQUE] = self._rows_where("SELECT row FROM ids QUALIFY count(*) OVER (PARTITION BY key) > 1")
        # Of rows with the same words, all repeat one of an unchanged document, or all but the first the first.
        self._broken[REPEATED] = self._rows_where(
            f"WITH mine AS (SELECT row, key[:{DIGITS_OF_WORDS}] AS key FROM keys), "
            "shared AS (SELECT key, sum(n) AS n FROM words WHERE key IN (SELECT key FROM mine) GROUP BY key) "
            "SELECT row FROM mine JOIN shared USING (key) "
            "QUALIFY row_number() OVER (PARTITION BY key ORDER BY row) > 1 OR n > count(*) OVER (PARTITION BY key)"
        )

    def _add(self, examined: _Examined) -> None:
        first, count = self._n_rows, examined.pages.num_rows
        self._n_rows += count
        self._pages.append(examined.pages)
        for rule, rows_of_rule in examined.broken.items():
            self._broken.setdefault(rule, []).append(rows_of_rule + first)
        self._laws.merge(examined.laws)
        self._tables.add("ids", keyed(range(first, first + count), examined.evidence_ids))
        rows = examined.keys.column("row").to_numpy() + first
        self._tables.add("keys", keyed(rows, examined.keys.column("key").to_pylist()))
        for placed in examined.figures:
            self._tables.add("placed", placed)

    def judge_rows(self, docs: Path) -> list[GateVerdict]:
        """Judge the rules on rows, and write the Data Docs."""
        corpus = self._workspace.corpus
        broken = {rule: np.concatenate(rows) for rule, rows in self._broken.items() if rows}
        long_rule, spaces = long_texts(corpus.chunks.tokens), [name for name in self._workspace.spaces if name in SPACES]
        unchanged = self._count_unchanged(corpus.chunks.tokens, len(broken.get(REPEATED, ())))
        self.long = unchanged[LONG_TEXTS] + len(broken.get(long_rule, ()))
        n_rows = sum(facts.rows for doc_id, facts in self._documents.items() if doc_id not in self._changed) + self._n_rows
        pages = pa.concat_tables(self._pages)

        def violations(rows: NDArray[np.int64]) -> list[Violation]:
            return [Violation(row["doc_id"], row["page"], "a row breaks it") for row in pages.take(rows).to_pylist()]

        def page_names(rows: NDArray[np.int64]) -> list[str]:
            return [f"{self.names.get(str(row.doc_id), row.doc_id)} page {row.page}" for row in violations(rows)]

        counts = row_counts(
            broken, n_rows, unchanged, page_names, spaces, max_tokens=corpus.chunks.tokens, gates=corpus.gates
        )
        refused = judge(counts, docs)
        return [
            row_verdict(
                count,
                violations(broken[count.rule]) if count.rule in refused and count.rule in broken else [],
                corpus.chunks.tokens,
                self.names,
                passed=count.rule not in refused,
            )
            for count in counts
        ]

    def _count_unchanged(self, limit: int, repeated: int) -> dict[Gate, int]:
        """Count the rows of unchanged documents that are too long or repeat others, by what the parent counted."""
        store, parent = self._workspace.store, self._inherited.version
        if parent is None:
            return {LONG_TEXTS: 0}
        note = read_notes(store, parent, [Stage.CHECK]).get(Stage.CHECK)
        # Unchanged rows aren't read: the long ones among them are the parent's, less those of documents that changed or
        # left.
        replaced_documents = {
            doc_id for doc_id in self._inherited.facts if doc_id in self._changed or doc_id not in self._documents
        }
        count_tokens = TEXT_EMBEDDERS.find(self._workspace.corpus.embedding_models.text_model).token_counter()
        removed_long = 0
        for _, rows in rows_of_documents(store, parent, replaced_documents):
            texts = list(map(str, rows.evidence.column("text").to_pylist()))
            removed_long += sum(n_tokens > limit for n_tokens in count_tokens(texts))
        long = max(0, (note.counts.get(_LONG, 0) if note else 0) - removed_long)
        return {LONG_TEXTS: long, DUPLICATES: max(0, self._facts.repeated() - repeated)}

    def _rows_where(self, query: str) -> list[NDArray[np.int64]]:
        rows = [part.column("row").to_numpy() for part in self._tables.query(query)]
        return [np.sort(np.concatenate([np.empty(0, np.int64), *rows]))]

    def verdicts(self) -> list[GateVerdict]:
        """Return the verdicts on the laws of conservation and of tags."""
        before, now = (
            {doc_id: (facts.rows, facts.placements) for doc_id, facts in documents.items()}
            for documents in (self._inherited.facts, self._documents)
        )
        rows_in_parts = sum(part.rows for part in self._parts.parts)
        return [
            *(self._laws.verdict(law, self.names) for law in (PAGES, FIGURES)),
            rows_reused(before, now, self._inherited.documents, rows_in_parts, self.names),
            *(self._laws.verdict(law, self.names) for law in (PLACED_TAGS, RESOLVED_TAGS)),
            one_figure_a_number(
                *self._contradictory("number", "figure_id"), *self._contradictory("figure_id", "number"), self.names
            ),
        ]

    def _contradictory(self, key: str, counted: str) -> tuple[int, Iterator[dict[str, Any]]]:
        """Return how many values ``key`` has, and the rows of those with several values of ``counted``."""
        repeated = f"SELECT {key} {_NUMBERED} GROUP BY {key} HAVING count(DISTINCT {counted}) > 1"
        rows = self._tables.query(f"SELECT * {_NUMBERED} AND {key} IN ({repeated}) ORDER BY rowid")
        return next(self._tables.values(f"SELECT count(DISTINCT {key}) {_NUMBERED}")), _dicts(rows)


_NUMBERED = "FROM placed WHERE number IS NOT NULL"


_PAGES = pa.schema([("doc_id", pa.dictionary(pa.int32(), pa.string())), ("page", pa.int32())])
_FIGURES_A_BATCH = 50


def _keep_docs(store: ObjectStore, version: str, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css"):  # fonts and logos are decoration
            store.replace(version_file(version, f"quality/{path.relative_to(folder).as_posix()}"), path.read_bytes())


def _figures(
    run: Run, store: ObjectStore, tables: TemporaryTables, names: Mapping[str, str], parsed_now: Set[str]
) -> GateVerdict:
    """Compare the pixels of figures with their names; those of the parent were compared by its check.

    Raises ``DamagedError`` where figures can't be read, unless those of documents ``parsed_now``, which are at fault
    themselves.
    """
    damaged: list[Exception] = []
    figures = tables.values("SELECT DISTINCT figure_id FROM placed ORDER BY figure_id")
    total, faults = 0, dict[str, str]()
    for figure, fault, error in run(batched(((figure, None) for figure in figures), _FIGURES_A_BATCH)):
        total += 1
        if fault is not None:
            faults[figure] = fault
        if error is not None:
            damaged.append(error)
    tables.create("faults", _FAULTS)
    tables.add("faults", pa.table([[*faults], [*faults.values()]], schema=_FAULTS))
    faulty = tables.query(
        "SELECT doc_id, min(page) AS page, figure_id, fault FROM placed JOIN faults USING (figure_id) "
        "GROUP BY ALL ORDER BY figure_id, doc_id"
    )
    verdict = figures_are_their_names(total, _dicts(faulty), names)
    documents = {violation.doc_id for violation in verdict.violations if violation.doc_id is not None}
    if damaged and not documents <= parsed_now:
        raise damaged[0]
    for doc_id in sorted(documents if damaged else ()):  # a replay parses it again
        for name in store.names(f"parsed/{doc_id}"):
            store.delete(name)
    return verdict


_FAULTS = pa.schema([("figure_id", pa.string()), ("fault", pa.string())])


def _dicts(parts: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    return (row for part in parts for row in part.to_pylist())
