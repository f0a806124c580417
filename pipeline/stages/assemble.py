"""Stage 4: write the rows of the new version from finished work, by shards of documents, and number its tags."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from backends.stores.document_files import reported
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.converted import write_converted
from pipeline.records.descriptions import StructuredFiles, drawn_cache
from pipeline.records.documents import DocumentReader, Inherited, inherit, parsed_documents
from pipeline.records.ledger import (
    document_counts,
    document_failures,
    indexed_sources,
    read_ledger,
    write_failures,
    write_ledger,
)
from pipeline.records.notes import StageNote, read_notes, read_plan, write_note
from pipeline.records.readings import changes_of, keep_earlier
from pipeline.records.row_parts import Facts, new_rows, rows_of_documents, write_version_rows
from ray_jobs.pools import Batch, Outcome, ordered_pool, outcomes_of_batch
from schemas.base import batched
from schemas.documents import PageFailure
from schemas.errors import ContractError, Failure, FailureCode
from schemas.evidence import VersionRows
from schemas.parquet import Rows
from schemas.stages import Report, Stage, Step, silent
from schemas.tags import TagTemplate
from schemas.versions import LedgerRow, Plan, Status
from tasks.versions.assemble import (
    NUMBERED,
    Pictures,
    TagNumbers,
    make_rows,
    number_version,
    numbered_figures,
    with_sources,
)

DOCUMENTS_A_SHARD = 50


def assemble(
    workspace: Workspace,
    version: str,
    report: Report = silent,
    *,
    rebuild: Collection[str] = (),
    broken: Mapping[str, str] = MappingProxyType({}),
) -> StageNote:
    """Write evidence, placements, ledger and quarantine of a version.

    The same finished work gives the same bytes, however many workers made it. Rows of ``rebuild`` documents are made
    although the live version has them. ``broken`` documents are quarantined for the laws that they break. Raises
    ``ContractError`` where a document of the plan is neither parsed nor failed.
    """
    started = time.monotonic()
    store, corpus = workspace.store, workspace.corpus
    plan = read_plan(store, version)
    if broken:
        plan = _without_broken(workspace, plan, broken)
    run_id, inherited = plan.run_id, inherit(workspace, plan).without({*rebuild, *broken})
    failed = _failed_documents(workspace, version, broken)
    # These are parsed, but have no structure or break a law; documents that failed in ``parse`` have no file.
    settled_ids = {doc_id for doc_id, (_, step, _) in failed.items() if step in (Step.STRUCTURE, Stage.CHECK)}
    planned_ids = {document.doc_id for document in plan.documents}
    new_ids = parsed_documents(workspace, planned_ids - inherited.documents - settled_ids)
    with ordered_pool(RowsActor, (workspace,), corpus.ray, documents=len(new_ids)) as run, TemporaryTables() as tables:
        facts, pages, page_failures = Facts(store, inherited.parts, tables), dict(inherited.pages), [*inherited.failures]
        converted = inherited.converted(store)

        def figures() -> Iterator[pa.Table]:
            # The first of two passes: a figure's number depends on the figures of all documents, so no row is made before.
            for survey in run(batched(((doc_id, None) for doc_id in new_ids), DOCUMENTS_A_SHARD)):
                pages.update(survey.pages)
                page_failures.extend(survey.failures)
                converted.update(survey.converted)
                yield survey.figures

        numbers, renumbered = _number(workspace, figures(), inherited, facts, tables)
        ledger = _ledger(plan, pages, failed, workspace.keys.attempt)
        del plan  # frees the list of documents, which may be very long
        sources = indexed_sources(ledger)
        moved = _moved_documents(workspace, inherited, sources) - renumbered
        doc_ids = sorted([*new_ids, *renumbered, *moved])
        orders = (
            (doc_id, _Order(sources[doc_id], inherited.version if doc_id in moved else None, numbers)) for doc_id in doc_ids
        )
        batches = _reported(batched(orders, DOCUMENTS_A_SHARD), len(doc_ids), report)
        # Renumbered and moved documents leave the parent's parts too, and come back with their new rows.
        dropped = (inherited.facts.keys() - inherited.documents) | renumbered | moved
        row_counts = write_version_rows(store, version, inherited.parts, inherited.facts, dropped, run(batches), facts)
    # Written after the rows: check repairs an indexed document without rows, but not rows of a document that isn't indexed.
    write_ledger(store, version, ledger)
    write_converted(store, version, converted)
    failures = _failures(workspace, version, run_id, ledger, page_failures)
    write_failures(store, run_id, failures)
    counts = document_counts(ledger, failures) | row_counts
    return write_note(store, version, Stage.ASSEMBLE, StageNote(seconds=time.monotonic() - started, counts=counts))


def _without_broken(workspace: Workspace, plan: Plan, broken: Mapping[str, str]) -> Plan:
    """Return the plan with the earlier document of each changed source whose document breaks a law, if it is taken over."""
    changes = changes_of(workspace, plan)
    earlier = {change.now.source: replace(change.now, doc_id=change.before.doc_id) for change in changes}
    documents = [earlier.get(document.source, document) for document in plan.documents]
    taken_over = inherit(workspace, plan.model_copy(update={"documents": documents})).documents - broken.keys()
    faults = {doc_id: (FailureCode.LAW_BROKEN, f"it breaks a law ({laws})") for doc_id, laws in broken.items()}
    return keep_earlier(workspace, plan, changes, faults, taken_over)


class RowsActor:
    """Reads structured documents, and makes their rows.

    A batch without inputs is surveyed, as ``_DocumentSurvey``; else its rows are returned as ``NewRows``.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._drawn, self._template = drawn_cache(workspace), TagTemplate(workspace.corpus.tags.template)

    @cached_property
    def _reader(self) -> DocumentReader:
        return DocumentReader(self._workspace)

    def run(self, batch: Batch) -> list[Outcome[Any]]:
        """Return the survey or the rows of the documents with the first outcome."""
        is_survey = batch[0][1] is None
        documents = self._survey([doc_id for doc_id, _ in batch]) if is_survey else new_rows(self._rows(batch))
        return outcomes_of_batch(batch, documents)

    def _survey(self, doc_ids: Sequence[str]) -> "_DocumentSurvey":
        pages: dict[str, int] = {}
        converted: dict[str, str] = {}
        failures: list[Failure] = []
        pictures: list[Pictures] = []
        for doc_id in doc_ids:
            files = StructuredFiles(self._workspace, doc_id, self._drawn)
            pages[doc_id] = files.head.pages
            converted |= {doc_id: files.head.pdf} if files.head.pdf else {}
            pictures.append((files.all_figures, files.placements))
            # ``_failures`` fills in source and run, once the ledger says which documents are indexed.
            failures += [reported(failure, "", doc_id, None) for failure in files.failures]
            # Pages that can't be drawn have no row.
            failures += [
                reported(PageFailure(page.page, FailureCode(page.code), page.message or ""), "", doc_id, None).model_copy(
                    update={"step": Step.DRAW}
                )
                for page in files.drawn
                if page.code is not None
            ]
        return _DocumentSurvey(pages, converted, failures, numbered_figures(pictures))

    def _rows(self, batch: Batch) -> Iterator[tuple[str, VersionRows]]:
        earlier_version = next((order.taken_from for _, order in batch if order.taken_from), None)
        moved = {doc_id for doc_id, order in batch if order.taken_from}
        earlier = dict(rows_of_documents(self._workspace.store, earlier_version, moved)) if earlier_version else {}
        for doc_id, order in batch:
            if doc_id in earlier:
                doc_type = self._workspace.corpus.doc_type(order.sources)
                yield doc_id, with_sources(earlier[doc_id], order.sources, doc_type)
            else:
                yield doc_id, make_rows(self._reader.read(doc_id, order.sources), order.numbers, self._template)


@dataclass(frozen=True)
class _Order:
    """What to make of a document: its rows, with the numbers of figures, or those of an earlier version with new sources."""

    sources: tuple[str, ...]
    taken_from: str | None
    numbers: TagNumbers


@dataclass(frozen=True)
class _DocumentSurvey:
    """Pages and converted PDFs of some documents, the failures of pages, and the tagged figures as rows of ``NUMBERED``."""

    pages: dict[str, int]
    converted: dict[str, str]
    failures: list[Failure]
    figures: pa.Table


_FailedDocuments = dict[str, tuple[FailureCode, str, str]]
"""Code, step and message of each document that failed."""


def _failed_documents(workspace: Workspace, version: str, broken: Mapping[str, str]) -> _FailedDocuments:
    """Return why documents failed, by document."""
    notes = read_notes(workspace.store, version, (Stage.PARSE, Stage.ENRICH))
    failed: _FailedDocuments = {
        failure.doc_id: (failure.code, failure.step, failure.message)
        for note in notes.values()
        for failure in note.failures
        if failure.doc_id
    }
    return failed | {doc_id: (FailureCode.LAW_BROKEN, Stage.CHECK, message) for doc_id, message in broken.items()}


def _ledger(plan: Plan, pages: Mapping[str, int], failed: _FailedDocuments, attempt: str) -> Rows[LedgerRow]:
    """Return the status of each source: indexed, or quarantined with a reason."""

    def rows() -> Iterator[LedgerRow]:
        yield from plan.carried
        for document in plan.documents:
            facts = asdict(document) | {"attempt": attempt}
            if document.doc_id in pages:
                yield LedgerRow(**facts, status=Status.INDEXED, pages=pages[document.doc_id])
            elif document.doc_id in failed:
                code, step, message = failed[document.doc_id]
                yield LedgerRow(**(facts | {"message": message, "code": code}), status=Status.QUARANTINED, step=step)
            else:
                raise ContractError(f"{document.source} was neither parsed nor failed; run the parse stage again")

    return Rows(LedgerRow, Rows.of(LedgerRow, rows()).table.sort_by("source").combine_chunks())


def _number(
    workspace: Workspace, figures: Iterable[pa.Table], inherited: Inherited, facts: Facts, tables: TemporaryTables
) -> tuple[TagNumbers, Set[str]]:
    """Return the numbers of the version's figures, and the documents taken over in which one has another number now."""
    digits = workspace.corpus.tags.digits
    removed_documents = inherited.facts.keys() - inherited.documents

    def pictures(doc_id: str) -> Pictures:
        files = StructuredFiles(workspace, doc_id, None)
        return files.all_figures, files.placements

    return number_all(
        tables,
        figures,
        lambda: facts.sharing("numbers", digits, removed_documents) if inherited.facts else (),
        pictures,
        digits,
    )


def number_all(
    tables: TemporaryTables,
    new_figures: Iterable[pa.Table],
    earlier: Callable[[], Iterable[pa.Table]],
    load: Callable[[str], Pictures],
    digits: int,
) -> tuple[TagNumbers, Set[str]]:
    """Return what ``number_version`` returns; a table ``numbers`` has the new figures before ``earlier`` is called."""
    tables.create("numbers", NUMBERED)
    for table in new_figures:
        tables.add("numbers", table)
    earlier_figures = [*earlier()]
    for table in earlier_figures:
        tables.add("numbers", table.select(NUMBERED.names))
    ending = f"right(number, {digits})"
    # Of a document read now, all digits are known.
    shared_figures = tables.query(
        f"SELECT figure_id, arg_max(number, length(number)) AS number FROM numbers WHERE {ending} IN "
        f"(SELECT {ending} FROM numbers GROUP BY ALL HAVING count(DISTINCT figure_id) > 1) GROUP BY figure_id"
    )
    shared = {row["figure_id"]: row["number"] for part in shared_figures for row in part.to_pylist()}
    return number_version(shared, earlier_figures, load, digits)


def _reported(batches: Iterable[Batch], total: int, report: Report) -> Iterator[Batch]:
    """Yield batches, and report how many documents are in work."""
    count = 0
    report("assemble", 0, total)
    for batch in batches:
        yield batch
        count += len(batch)
        report("assemble", count, total)


def _moved_documents(workspace: Workspace, inherited: Inherited, sources: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the documents that are taken over whose sources or type changed."""
    if inherited.version is None:
        return set()
    before = indexed_sources(read_ledger(workspace.store, inherited.version))
    return {
        doc_id
        for doc_id in inherited.facts.keys() & inherited.documents & sources.keys()
        if before.get(doc_id) != sources[doc_id]
        or inherited.facts[doc_id].doc_type != workspace.corpus.doc_type(sources[doc_id])
    }


def _failures(
    workspace: Workspace, version: str, run_id: str, ledger: Rows[LedgerRow], page_failures: Iterable[Failure]
) -> list[Failure]:
    """Return what of the version's sources couldn't be read or captioned, sorted."""
    sources = indexed_sources(ledger)
    failures = [*document_failures(ledger, run_id), *_kept_failures(ledger, run_id)]
    failures += [
        failure.model_copy(update={"source": sources[failure.doc_id][0], "run_id": run_id})
        for failure in page_failures
        if failure.doc_id in sources
    ]
    failures += [
        failure
        for note in read_notes(workspace.store, version, [Stage.ENRICH]).values()
        for failure in note.failures
        if failure.step == Step.CAPTION and failure.doc_id in sources
    ]
    return sorted(failures, key=lambda failure: (failure.source, failure.page or 0))


def _kept_failures(ledger: Iterable[LedgerRow], run_id: str) -> Iterator[Failure]:
    """Yield a failure for each source whose earlier document is kept."""
    for row in ledger:
        if row.newer is not None:
            yield Failure(
                source=row.source,
                doc_id=row.newer or None,
                page=None,
                step=Stage.PARSE,
                code=FailureCode.EARLIER_KEPT,
                message=row.message or "",
                run_id=run_id,
            )
