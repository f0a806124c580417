"""Stage 3: look at pictures, structure and chunk documents, describe and embed rows; finished work is never repeated."""

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from backends.models.languages import Simplemma
from backends.stores.document_files import ParsedDocumentFile, is_finished, parsed_file
from backends.stores.objects import existing
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import Record, RecordCache
from pipeline.records.collection import documents_of, passages
from pipeline.records.descriptions import drawn_cache
from pipeline.records.documents import DocumentReader, Inherited, inherit, parsed_documents
from pipeline.records.ledger import readable_ledger
from pipeline.records.notes import StageNote, read_notes, read_plan, write_note
from pipeline.records.readings import (
    changes_of,
    earlier_readings,
    faults_of_parse,
    faults_of_structure,
    keep_earlier,
    no_document,
)
from pipeline.stages.enrich.batches import check_ended, waiting
from pipeline.stages.enrich.captions import describe_targets
from pipeline.stages.enrich.embedding import Embedding
from ray_jobs.cluster import connected
from ray_jobs.enrich import (
    FEW_DOCUMENTS,
    FEW_PICTURES,
    FEW_SCANS,
    LookedAt,
    StructureActor,
    Unstructured,
    looked_at,
    recognise,
    run_actor,
)
from ray_jobs.pools import Outcome, RowFailure
from schemas.base import batched
from schemas.documents import Recognised, drawn_page_id
from schemas.errors import Failure, FailureCode
from schemas.stages import Report, Stage, Step, silent
from schemas.versions import Plan, Spent, Status
from tasks.enriching.spaces import RowText
from tasks.enriching.spending import Budget
from tasks.reading.text_layers import layered_pages, reason_to_replace_layer
from workers.draw_pages import LIMITS, keep_pictures

DOCUMENTS_AT_ONCE = 10_000
"""Documents whose pictures are read together: some 10 MB of names."""

DRAWN_AT_ONCE = 64
"""Documents whose pages are looked up together."""

_SHARD_RECORDS, _SHARD_SECONDS = 256, 20.0


def enrich(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Do the work of models and structure for a plan's documents; results are cached as they come.

    Ray starts only when there is work for it. Raises ``WaitingError`` while a server works on batches of requests: then the
    stage has to be run again.
    """
    started = time.monotonic()
    check_ended(workspace, report)
    before = read_notes(workspace.store, version, [Stage.ENRICH]).get(Stage.ENRICH, StageNote(seconds=0.0)).spent
    with contextlib.ExitStack() as stack:
        ray = _OnDemand(workspace, stack)
        structuring = _Structuring(workspace, ray, report)
        plan, inherited, doc_ids = _structure(workspace, read_plan(workspace.store, version), structuring)
        # Of several sources of a document the first counts: in reversed order it is written last.
        sources = {document.doc_id: document.source for document in reversed(plan.documents)}
        counts = dict(structuring.counts)
        failed = {doc_id: failure for doc_id, failure in structuring.failed.items() if doc_id in sources}
        structured = [doc_id for doc_id in doc_ids if doc_id not in failed]
        counts |= draw(workspace, structured, report)
        budget = Budget(workspace.corpus.budget)
        budget.settle(Spent(), sum(before.values(), Spent()))
        # Before vectors are made, since descriptions are embedded with their rows.
        captioned = describe_targets(workspace, structured, sources, plan.run_id, budget, report)
        embedding = Embedding(workspace, _documents_before(workspace, plan, sources), budget, ray, report)
        if not captioned.sent:
            embedding.embed(_passages(workspace, inherited, structured, sources))
    failures = [
        Failure(
            source=sources[doc_id],
            doc_id=doc_id,
            page=None,
            step=Step.STRUCTURE,
            code=failure.code,
            message=failure.message,
            run_id=plan.run_id,
        )
        for doc_id, failure in sorted(failed.items())
    ]
    spent = captioned.spent | embedding.paid
    note = StageNote(
        seconds=time.monotonic() - started,
        failures=[*failures, *captioned.failures],
        counts=counts | {"embedded": embedding.count} | captioned.counts,
        spent={name: before.get(name, Spent()) + spent.get(name, Spent()) for name in before | spent},
    )
    write_note(workspace.store, version, Stage.ENRICH, note)
    if captioned.sent:
        raise waiting(report, 0, captioned.sent)
    return note


def _structure(workspace: Workspace, plan: Plan, structuring: "_Structuring") -> tuple[Plan, Inherited, list[str]]:
    """Structure the documents of a plan that the parent doesn't have; return them, and the plan with what is kept of before."""
    changes = changes_of(workspace, plan)
    earlier_ids = earlier_readings(workspace, plan, changes)
    plan = keep_earlier(workspace, plan, changes, faults_of_parse(workspace, plan, changes, earlier_ids), earlier_ids)

    def structure(more: Collection[str] = ()) -> tuple[Inherited, list[str]]:
        inherited = inherit(workspace, plan)
        doc_ids = parsed_documents(workspace, {document.doc_id for document in plan.documents} - inherited.documents)
        structuring.structure([*doc_ids, *sorted({*more}.difference(doc_ids))], plan.again)
        return inherited, doc_ids

    # What a person accepts isn't compared, nor what is kept already.
    changes = [change for change in changes_of(workspace, plan) if change.before.doc_id in earlier_ids]
    inherited, doc_ids = structure({change.before.doc_id for change in changes})
    failures = structuring.failed
    lost = {doc_id: no_document(failure.code, failure.message) for doc_id, failure in failures.items()}
    complete_changes = [
        change for change in changes if failures.keys().isdisjoint((change.now.doc_id, change.before.doc_id))
    ]
    kept_ids = {change.before.doc_id for change in changes} - failures.keys()
    plan_before = plan
    plan = keep_earlier(workspace, plan, changes, {**lost, **faults_of_structure(workspace, complete_changes)}, kept_ids)
    return (plan, inherited, doc_ids) if plan is plan_before else (plan, *structure())


class _OnDemand:
    """Starts Ray on first use, and keeps it until the stage ends."""

    def __init__(self, workspace: Workspace, stack: contextlib.ExitStack) -> None:
        self._workspace, self._stack, self._is_connected = workspace, stack, False

    def __call__(self, needs_ray: bool) -> None:
        if needs_ray and not self._is_connected:
            self._stack.enter_context(connected(self._workspace.corpus.ray))
            self._is_connected = True


class _Structuring:
    """Structures documents, once models have looked at their pictures; with counts, and failures by document."""

    def __init__(self, workspace: Workspace, ray: _OnDemand, report: Report) -> None:
        self._workspace, self._ray, self._report = workspace, ray, report
        store, keys = workspace.store, workspace.keys
        self._recognised = RecordCache(store, f"recognised/{keys.recognised}", Recognised)
        self._lexicon = Simplemma()
        self._unfinished: dict[str, tuple[FailureCode, str]] = {}
        self.counts = Counter(recognised=0, structured=0)
        self.failed: dict[str, RowFailure] = {}

    def structure(self, doc_ids: Sequence[str], retried: Collection[str]) -> None:
        """Structure new and retried documents."""
        store = self._workspace.store
        files = {doc_id: self._workspace.structured_file(doc_id) for doc_id in doc_ids}
        stored = existing(store, "structured", files.values())
        todo = [
            doc_id
            for doc_id, file in files.items()
            if doc_id in retried or file not in stored or not is_finished(store, file)
        ]
        structured_count = 0
        for batch in batched(todo, DOCUMENTS_AT_ONCE):
            for outcomes in self._structured(batch):
                structured_count += 1
                self.failed |= {outcome.row_id: outcome.failure for outcome in outcomes if outcome.failure is not None}
                self._report(Step.STRUCTURE, structured_count, len(todo))
            # Workers wrote them through stores of their own, so what this one remembers may be out of date.
            for doc_id in batch:
                store.forget(files[doc_id])
        self.counts["structured"] += len(todo) - len(self.failed.keys() & {*todo})

    def _structured(self, doc_ids: Sequence[str]) -> Iterator[list[Outcome[bool]]]:
        """Structure some documents, and yield the outcomes."""
        workspace, corpus, keys = self._workspace, self._workspace.corpus, self._workspace.keys
        reads = workspace.recogniser is not None
        pictures = {
            doc_id: looked_at(self._parsed(doc_id), self._lexicon) if reads else LookedAt([], []) for doc_id in doc_ids
        }
        self._unfinished = {}
        # Of a text layer, OCR reads a sample of pages for comparison; it reads the others only if the layer is at fault.
        self._recognise(name for of_document in pictures.values() for name in of_document.recognised)
        faults, scans = self._faulty_layers({doc_id: names for doc_id in doc_ids if (names := pictures[doc_id].compared)})
        if faults:
            self._recognise(chain.from_iterable(scans.values()))
            self.counts.update(layers_replaced=len(faults))

        def unstructured(doc_id: str) -> Unstructured:
            recognised = [*pictures[doc_id].recognised, *scans.get(doc_id, ())]
            return Unstructured(
                doc_id,
                self._recognised.read(recognised),
                {name: self._unfinished[name] for name in recognised if name in self._unfinished},
                faults.get(doc_id),
                workspace.structured_file(doc_id),
                tuple(workspace.by_hand.get(doc_id, ())),
            )

        # A picture may be a scanned page, which takes 0.4 CPU-seconds, as long as a hundred other pages.
        picture_count = sum(len(pictures[doc_id].recognised) + len(scans.get(doc_id, ())) for doc_id in doc_ids)
        needs_ray = len(doc_ids) > FEW_DOCUMENTS or picture_count > FEW_SCANS
        self._ray(needs_ray)
        arguments = (workspace.store.root, corpus.embedding_models, corpus.chunks, keys.parse)
        rows = ((doc_id, unstructured(doc_id)) for doc_id in doc_ids)
        return run_actor(StructureActor, arguments, rows, 1, 1, corpus.ray if needs_ray else None)

    def _parsed(self, doc_id: str) -> ParsedDocumentFile:
        return ParsedDocumentFile(self._workspace.store, parsed_file(doc_id, self._workspace.keys.parse))

    def _faulty_layers(self, to_compare: Mapping[str, list[str]]) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return why OCR replaces the text layers of documents, and the pictures that are to be read for that."""
        faults: dict[str, str] = {}
        scans: dict[str, list[str]] = {}
        for doc_id, pictures in to_compare.items():
            lines_by_picture = {picture.id: picture.lines for picture in self._recognised.read(pictures)}
            if not lines_by_picture:
                continue
            parsed = self._parsed(doc_id)
            pages = layered_pages(parsed.placements)
            fault = reason_to_replace_layer(pages, parsed.lines, lines_by_picture, self._lexicon)
            if fault is not None:
                faults[doc_id] = fault
                scans[doc_id] = sorted({page.figure_id or "" for page in pages.values()} - lines_by_picture.keys())
        return faults, scans

    def _recognise(self, figure_ids: Iterable[str]) -> None:
        """Recognise text in new pictures, and keep the records; pictures without one are unfinished, with the reason."""
        missing, crash_messages = self._recognised.missing(figure_ids), dict[str, str]()
        if missing:
            self._ray(len(missing) > FEW_PICTURES)
            batches = recognise(missing, self._workspace.store.root, self._workspace.corpus.ray, crash_messages)
            keep(self._recognised, batches, Step.RECOGNISE, len(missing), self._report, self.counts["recognised"])
        self._unfinished |= {
            name: (FailureCode.MODEL_CRASHED, f"words of a figure were not read: {message}")
            for name, message in crash_messages.items()
        }
        self.counts["recognised"] += len(missing) - len(crash_messages)


def draw(workspace: Workspace, documents: Sequence[str], report: Report) -> dict[str, int]:
    """Draw the missing pages of structured documents on this machine, where pages have rows; return counts.

    A page that can't be drawn has no row; that is recorded and not tried again.
    """
    store, parse_key = workspace.store, workspace.keys.parse
    cache = drawn_cache(workspace)
    if cache is None:
        return {}
    limits = LIMITS.model_copy(update={"workers": workspace.corpus.parse.workers})
    drawn_count = 0
    for group in batched(documents, DRAWN_AT_ONCE):
        pages = {
            drawn_page_id(doc_id, page.page): (doc_id, parsed.pdf, page.page)
            for doc_id in group
            for parsed in [ParsedDocumentFile(store, parsed_file(doc_id, parse_key))]
            for page in parsed.pages
        }
        if missing := [pages[name] for name in cache.missing(pages)]:
            drawn = keep_pictures(missing, store_address=store.root, limits=limits, passwords=workspace.passwords())
            keep(cache, ([page] for page in drawn), Step.DRAW, len(missing), report, drawn_count)
            drawn_count += len(missing)
    return {"drawn": drawn_count}


def _documents_before(workspace: Workspace, plan: Plan, sources: Mapping[str, str]) -> dict[str, str]:
    """Return the live version's document of each document's source, where that is another one."""
    ledger = readable_ledger(workspace.store, plan.parent)
    before = {row.source: row.doc_id for row in ledger if row.status is Status.INDEXED}
    return {doc_id: before[source] for doc_id, source in sources.items() if before.get(source, doc_id) != doc_id}


def _passages(
    workspace: Workspace, inherited: Inherited, doc_ids: Iterable[str], sources: Mapping[str, str]
) -> Iterator[tuple[str, Sequence[RowText]]]:
    reader = DocumentReader(workspace)
    for doc_id in doc_ids:
        yield doc_id, reader.passages(doc_id, sources[doc_id])
    # Rows that are taken over have vectors, unless a space is new or has another model.
    for earlier in () if inherited.embedded else inherited.rows(workspace.store):
        yield from ((doc_id, passages(rows)) for doc_id, rows in documents_of(earlier.evidence))


def keep(
    cache: RecordCache[Record], batches: Iterable[Sequence[Record]], step: str, total: int, report: Report, before: int = 0
) -> None:
    """Write records as shards while they come, so that a killed job loses only seconds of work, then join small shards."""
    report(step, before, before + total)
    pending, record_count, since = list[Record](), 0, time.monotonic()
    try:
        for records in batches:
            pending += records
            record_count += len(records)
            report(step, before + record_count, before + total)
            if len(pending) >= _SHARD_RECORDS or time.monotonic() - since > _SHARD_SECONDS:
                cache.append(pending)
                pending, since = [], time.monotonic()
    finally:
        # Also on an error, since the models' work on these records is done.
        cache.append(pending)
    cache.compact()
