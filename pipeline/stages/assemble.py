"""Stage 4: write the rows of the new version from finished work, and number its tags."""

import heapq
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from backends.stores.document_files import reported
from backends.stores.temporary_tables import KeyedTable, TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.descriptions import StructuredFiles, drawn_cache
from pipeline.records.documents import DocumentReader, Inherited, inherit, parsed_documents
from pipeline.records.ledger import (
    document_failures,
    indexed_pages,
    indexed_sources,
    read_ledger,
    write_failures,
    write_ledger,
)
from pipeline.records.notes import StageNote, read_notes, read_plan, write_note
from pipeline.records.row_parts import Facts, rows_of_documents, write_version_rows
from schemas.errors import UNREAD_PAGES, ContractError, Failure, FailureCode
from schemas.parquet import Rows
from schemas.stages import Report, Stage, Step, silent
from schemas.tags import TagTemplate
from schemas.versions import LedgerRow, Plan, Status
from tasks.versions.assemble import NUMBERED, DocumentChunks, Pictures, make_rows, number_version, with_sources


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
    although the live version has them. ``broken`` documents are quarantined for the laws that they break.

    Raises:
        ContractError: A document of the plan is neither parsed nor failed.
    """
    started = time.monotonic()
    store = workspace.store
    plan = read_plan(store, version)
    inherited = inherit(workspace, plan).without({*rebuild, *broken})
    ledger = _ledger(workspace, plan, inherited, broken)
    run_id = plan.run_id
    del plan  # frees the list of documents, which may be very long
    sources = indexed_sources(ledger)
    report("assemble", 0, len(sources))
    with TemporaryTables() as tables:
        row_counts = _write(workspace, version, sources, inherited, tables, report)
    # Written after the rows: check repairs an indexed document without rows, but not rows of a document that isn't indexed.
    write_ledger(store, version, ledger)
    failures = [
        *document_failures(ledger, run_id),
        *_kept_failures(ledger, run_id),
        *_page_failures(workspace, run_id, sources, inherited),
    ]
    notes = read_notes(store, version, [Stage.ENRICH]).values()
    caption_failures = [failure for note in notes for failure in note.failures if failure.step == Step.CAPTION]
    failures += [failure for failure in caption_failures if failure.doc_id in sources]
    failures.sort(key=lambda failure: (failure.source, failure.page or 0))
    write_failures(store, run_id, failures)
    partly = {
        failure.source for failure in failures if failure.code in UNREAD_PAGES or failure.code is FailureCode.EARLIER_KEPT
    }
    counts = {
        "sources": len(ledger),
        "documents": len(sources),
        "quarantined": len({row.doc_id or row.source for row in ledger if row.status is Status.QUARANTINED}),
        "partly_read": len({row.doc_id for row in ledger if row.status is Status.INDEXED and row.source in partly}),
        "pages": sum(indexed_pages(ledger).values()),
    } | row_counts
    return write_note(store, version, Stage.ASSEMBLE, StageNote(seconds=time.monotonic() - started, counts=counts))


def _ledger(workspace: Workspace, plan: Plan, inherited: Inherited, broken: Mapping[str, str]) -> Rows[LedgerRow]:
    """Return the status of each source: indexed, or quarantined with a reason."""
    rows = Rows.of(LedgerRow, _ledger_rows(workspace, plan, inherited, broken))
    return Rows(LedgerRow, rows.table.sort_by("source").combine_chunks())


def _ledger_rows(workspace: Workspace, plan: Plan, inherited: Inherited, broken: Mapping[str, str]) -> Iterator[LedgerRow]:
    notes = read_notes(workspace.store, plan.version, (Stage.PARSE, Stage.ENRICH))
    failed = {
        failure.doc_id: (failure.code, failure.step, failure.message)
        for note in notes.values()
        for failure in note.failures
        if failure.doc_id
    }
    pages = dict(inherited.pages)
    unstructured = {doc_id for doc_id, (_, step, _) in failed.items() if step == Step.STRUCTURE}
    failed |= {doc_id: (FailureCode.LAW_BROKEN, Stage.CHECK, message) for doc_id, message in broken.items()}
    settled = {*unstructured, *broken}
    unparsed_ids = {
        doc_id for document in plan.documents if (doc_id := document.doc_id) not in pages and doc_id not in settled
    }
    for doc_id in parsed_documents(workspace, unparsed_ids):
        pages[doc_id] = _structured(workspace, doc_id).head.pages
    yield from plan.carried
    for document in plan.documents:
        facts = asdict(document) | {"attempt": workspace.keys.attempt}
        if document.doc_id in pages:
            yield LedgerRow(**facts, status=Status.INDEXED, pages=pages[document.doc_id])
        elif document.doc_id in failed:
            code, step, message = failed[document.doc_id]
            yield LedgerRow(**(facts | {"message": message}), status=Status.QUARANTINED, code=code, step=step)
        else:
            raise ContractError(f"{document.source} was neither parsed nor failed; run the parse stage again")


def _write(
    workspace: Workspace,
    version: str,
    sources: Mapping[str, tuple[str, ...]],
    inherited: Inherited,
    tables: TemporaryTables,
    report: Report,
) -> dict[str, int]:
    """Write the version's rows, of which those of unchanged documents are named; return its counts."""
    store, corpus, digits = workspace.store, workspace.corpus, workspace.corpus.tags.digits
    new_documents = sorted(sources.keys() - inherited.documents)
    removed_documents = inherited.facts.keys() - inherited.documents
    facts = Facts(store, inherited.parts, tables)
    numbers, renumbered = number_version(
        (_pictures(workspace, doc_id) for doc_id in new_documents),
        (lambda endings: facts.sharing(endings, digits, removed_documents)) if inherited.facts else None,
        lambda doc_id: _pictures(workspace, doc_id),
        digits,
        KeyedTable(tables, "numbers", NUMBERED, "ending"),
    )
    moved_documents = _moved_documents(workspace, inherited, sources) - renumbered
    rows = make_rows(
        _documents(workspace, sorted([*new_documents, *renumbered]), sources, inherited, report),
        numbers,
        TagTemplate(corpus.tags.template),
    )
    unmoved = rows_of_documents(store, inherited.version, moved_documents) if inherited.version else ()
    amended = (
        (doc_id, with_sources(earlier, sources[doc_id], corpus.doc_type(sources[doc_id]))) for doc_id, earlier in unmoved
    )
    return write_version_rows(
        store,
        version,
        inherited.parts,
        inherited.facts,
        removed_documents | renumbered | moved_documents,
        sorted([*new_documents, *renumbered, *moved_documents]),
        heapq.merge(rows, amended, key=lambda pair: pair[0]),
        facts,
    )


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


def _pictures(workspace: Workspace, doc_id: str) -> Pictures:
    document = _structured(workspace, doc_id)
    return document.all_figures, document.placements


def _structured(workspace: Workspace, doc_id: str) -> StructuredFiles:
    return StructuredFiles(workspace, doc_id, None)


def _documents(
    workspace: Workspace,
    doc_ids: Sequence[str],
    sources: Mapping[str, tuple[str, ...]],
    inherited: Inherited,
    report: Report,
) -> Iterator[DocumentChunks]:
    reader = DocumentReader(workspace, doc_ids, inherited)
    for read_count, doc_id in enumerate(doc_ids, 1):
        yield _read_document(reader, doc_id, sources[doc_id], workspace.corpus.doc_type(sources[doc_id]))
        report("assemble", read_count, len(doc_ids))


def _read_document(reader: DocumentReader, doc_id: str, sources: tuple[str, ...], doc_type: str | None) -> DocumentChunks:
    parts = reader.read(doc_id, sources[0])
    return DocumentChunks(
        doc_id=doc_id,
        title=parts.title,
        date=parts.date,
        sources=sources,
        chunks=parts.chunks,
        figures=parts.figures,
        placements=parts.placements,
        captions={figure.placement.order: figure.caption for figure in parts.placed},
        wordings=parts.wordings,
        language=parts.language,
        labels=parts.labels,
        doc_type=doc_type,
        tree=parts.tree,
    )


def _kept_failures(ledger: Iterable[LedgerRow], run_id: str) -> Iterator[Failure]:
    """Yield a failure for each source whose earlier document is kept."""
    for row in ledger:
        if row.newer is not None:
            yield Failure(
                source=row.source,
                doc_id=row.newer,
                page=None,
                step=Stage.PARSE,
                code=FailureCode.EARLIER_KEPT,
                message=row.message or "",
                run_id=run_id,
            )


def _page_failures(
    workspace: Workspace, run_id: str, sources: Mapping[str, tuple[str, ...]], inherited: Inherited
) -> Iterator[Failure]:
    """Yield the page failures of indexed documents, those found by earlier refreshes included."""
    for failure in inherited.failures:
        if failure.doc_id is not None and failure.doc_id in sources:
            yield failure.model_copy(update={"source": sources[failure.doc_id][0], "run_id": run_id})
    drawn = drawn_cache(workspace)
    for doc_id in sorted(sources.keys() - inherited.documents):
        files = StructuredFiles(workspace, doc_id, drawn)
        for page_failure in files.failures:
            yield reported(page_failure, sources[doc_id][0], doc_id, run_id)
        # Pages that can't be drawn have no row.
        for page in files.drawn:
            if page.code is not None:
                yield Failure(
                    source=sources[doc_id][0],
                    doc_id=doc_id,
                    page=page.page,
                    step=Step.DRAW,
                    code=FailureCode(page.code),
                    message=page.message or "",
                    run_id=run_id,
                )
