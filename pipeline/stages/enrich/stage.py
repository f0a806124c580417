"""Stage 3: recognise text in pictures, segment page scans, structure and chunk documents, describe and embed rows.

Finished work is never repeated.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from backends.models.languages import Simplemma
from backends.stores.document_files import ParsedDocumentFile, is_finished, parsed_file, structured_file
from backends.stores.objects import existing
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.collection import SpaceVectors, open_vectors, passages
from pipeline.records.descriptions import add_spent, read_spent
from pipeline.records.documents import DocumentReader, Inherited, inherit, match_corrections_by_id, parsed_documents
from pipeline.records.expected_calls import vectors_of
from pipeline.records.notes import StageNote, read_plan, write_note
from pipeline.stages.enrich.captions import describe_targets
from pipeline.stages.enrich.draw import draw
from pipeline.stages.enrich.keep import keep
from pipeline.stages.enrich.readings import keep_earlier
from ray_jobs.cluster import connected
from ray_jobs.embed import BATCHES_A_CALL, embed, is_few
from ray_jobs.enrich import (
    FEW_DOCUMENTS,
    FEW_PAGES,
    FEW_PICTURES,
    Unstructured,
    find_tables,
    recognise,
    segment,
    structure_all,
)
from ray_jobs.outcomes import Outcome, RowFailure
from schemas.base import batched
from schemas.documents import Recognised, Segmented
from schemas.errors import Failure, FailureCode, TransientError, UserError
from schemas.models import Usage
from schemas.parquet import rows_of, schema_of, table_of
from schemas.ports import Vector
from schemas.stages import Report, Stage, Step, silent
from schemas.versions import Spent
from tasks.enriching.spaces import EmbeddingInput, RowText, Space
from tasks.enriching.spending import Budget, cost_of, maximum_embedding_cost
from tasks.figures.segment import pictures_to_segment, pictures_with_tables
from tasks.reading.recognise import pictures_to_recognise
from tasks.reading.text_layers import layered_pages, pictures_to_compare, reason_to_replace_layer

ROWS_AT_ONCE = 50_000
"""Rows that are embedded together: some 100 MB of text. Loading a model once for so many is cheap."""

DOCUMENTS_AT_ONCE = 10_000
"""Documents whose pictures are read together: some 10 MB of names."""


def enrich(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Do the work of models and structure for a plan's documents; results are cached as they come.

    Ray starts only when there is work for it. Pictures over the budget stay unread, and are counted.
    """
    started = time.monotonic()
    plan = keep_earlier(workspace, read_plan(workspace.store, version))
    inherited = inherit(workspace, plan)
    doc_ids = parsed_documents(workspace, {document.doc_id for document in plan.documents} - inherited.documents)
    sources = {document.doc_id: document.source for document in reversed(plan.documents)}
    with contextlib.ExitStack() as stack:
        ray = _OnDemand(workspace, stack)
        counts, failed = _structure(workspace, doc_ids, plan.again, ray, report)
        structured = [doc_id for doc_id in doc_ids if doc_id not in failed]
        counts |= draw(workspace, structured, report)
        limits = workspace.corpus.budget
        budget = Budget(limits, limits.corpus, read_spent(workspace.store))
        captioned = describe_targets(workspace, structured, sources, plan.run_id, budget, report)
        counts["embedded"], paid = _embed(workspace, inherited, structured, sources, budget, ray, report)
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
    note = StageNote(
        seconds=time.monotonic() - started,
        failures=[*failures, *captioned.failures],
        counts=counts | captioned.counts,
        spent=captioned.spent | paid,
    )
    return write_note(workspace.store, version, Stage.ENRICH, note)


_Pictures = dict[str, list[str]]
"""Ids of pictures by document."""


class _OnDemand:
    """Starts Ray on first use, and keeps it until the stage ends."""

    def __init__(self, workspace: Workspace, stack: contextlib.ExitStack) -> None:
        self._workspace, self._stack, self._is_connected = workspace, stack, False

    def __call__(self, needs_ray: bool) -> None:
        if needs_ray and not self._is_connected:
            self._stack.enter_context(connected(self._workspace.corpus.ray))
            self._is_connected = True


def _structure(
    workspace: Workspace, doc_ids: list[str], retried: Collection[str], ray: _OnDemand, report: Report
) -> tuple[dict[str, int], dict[str, RowFailure]]:
    """Structure new and retried documents; return counts, and failures by document."""
    store, keys, corpus = workspace.store, workspace.keys, workspace.corpus
    files = {doc_id: structured_file(doc_id, keys.structured) for doc_id in doc_ids}
    stored = existing(store, "structured", files.values())
    todo = [
        doc_id for doc_id, file in files.items() if doc_id in retried or file not in stored or not is_finished(store, file)
    ]
    recognised = RecordCache(store, f"recognised/{keys.recognised}", schema_of(Recognised))
    segmented = RecordCache(store, f"recognised/{keys.segmented}", schema_of(Segmented))
    searched = RecordCache(store, f"recognised/{keys.searched_for_tables}", schema_of(Segmented))
    counts = Counter(recognised=0, over_budget=0, segmented=0, structured=0)
    failed: dict[str, RowFailure] = {}
    for start in range(0, len(todo), DOCUMENTS_AT_ONCE):
        batch = todo[start : start + DOCUMENTS_AT_ONCE]
        to_recognise, to_segment, to_search, to_compare = _pictures_of(workspace, batch)
        unfinished: dict[str, tuple[FailureCode, str]] = {}
        _recognise(workspace, recognised, chain.from_iterable(to_recognise.values()), counts, unfinished, ray, report)
        faults, scans = _faulty_layers(workspace, to_compare, recognised)
        if faults:
            _recognise(workspace, recognised, chain.from_iterable(scans.values()), counts, unfinished, ray, report)
            to_recognise |= {doc_id: to_recognise[doc_id] + pictures for doc_id, pictures in scans.items()}
            counts.update(layers_replaced=len(faults))
        for cache, pictures, find in ((segmented, to_segment, segment), (searched, to_search, find_tables)):
            _segment(workspace, cache, chain.from_iterable(pictures.values()), find, counts, unfinished, ray, report)
        unstructured = (
            Unstructured(
                doc_id,
                rows_of(Recognised, recognised.read(to_recognise[doc_id])),
                rows_of(Segmented, segmented.read(to_segment[doc_id]))
                + rows_of(Segmented, searched.read(to_search[doc_id])),
                {
                    name: unfinished[name]
                    for pictures in (to_recognise, to_segment, to_search)
                    for name in pictures[doc_id]
                    if name in unfinished
                },
                faults.get(doc_id),
            )
            for doc_id in batch
        )
        ray(len(batch) > FEW_DOCUMENTS)
        finished = structure_all(
            unstructured,
            store_address=store.root,
            embeddings=corpus.embeddings,
            chunks=corpus.chunks,
            parse_key=keys.parse,
            structured_key=keys.structured,
            ray=corpus.ray,
        )
        for structured_count, outcomes in enumerate(finished, start + 1):
            failed |= {outcome.row_id: outcome.failure for outcome in outcomes if outcome.failure is not None}
            report(Step.STRUCTURE, structured_count, len(todo))
        for doc_id in batch:
            store.forget(files[doc_id])
    counts["structured"] = len(todo) - len(failed)
    return dict(counts), failed


def _pictures_of(workspace: Workspace, doc_ids: Sequence[str]) -> tuple[_Pictures, _Pictures, _Pictures, _Pictures]:
    """Return for each document the pictures to recognise text in, those to segment, and those to search for tables.

    The last are those among the first with which a text layer is compared, of the documents that have one.
    """
    to_recognise: _Pictures = {}
    to_segment: _Pictures = {}
    to_search: _Pictures = {}
    to_compare: _Pictures = {}
    lexicon = Simplemma()
    for doc_id in doc_ids:
        parsed = ParsedDocumentFile(workspace.store, parsed_file(doc_id, workspace.keys.parse))
        to_recognise[doc_id], to_segment[doc_id], to_search[doc_id] = [], [], []
        if workspace.recogniser is not None:
            to_recognise[doc_id] = pictures_to_recognise(parsed.placements, parsed.labelled)
            if pages := layered_pages(parsed.placements):
                to_compare[doc_id] = pictures_to_compare(pages, parsed.lines, lexicon)
                to_recognise[doc_id] += to_compare[doc_id]
        if workspace.detector is not None:
            to_segment[doc_id] = pictures_to_segment(parsed.placements)
            if workspace.recogniser is not None:
                to_search[doc_id] = pictures_with_tables(parsed.placements)
    return to_recognise, to_segment, to_search, to_compare


def _faulty_layers(
    workspace: Workspace, to_compare: _Pictures, recognised: RecordCache
) -> tuple[dict[str, str], _Pictures]:
    """Return why OCR replaces the text layers of documents, and the pictures that are to be read for that."""
    faults: dict[str, str] = {}
    scans: _Pictures = {}
    lexicon = Simplemma()
    for doc_id, pictures in to_compare.items():
        lines_by_picture = {
            recognised_picture.id: recognised_picture.lines
            for recognised_picture in rows_of(Recognised, recognised.read(pictures))
        }
        if lines_by_picture:
            parsed = ParsedDocumentFile(workspace.store, parsed_file(doc_id, workspace.keys.parse))
            pages = layered_pages(parsed.placements)
            fault = reason_to_replace_layer(pages, parsed.lines, lines_by_picture, lexicon)
            if fault is not None:
                faults[doc_id] = fault
                scans[doc_id] = sorted(
                    {placement.figure_id or "" for placement in pages.values()} - lines_by_picture.keys()
                )
    return faults, scans


def _recognise(
    workspace: Workspace,
    cache: RecordCache,
    figure_ids: Iterable[str],
    counts: Counter[str],
    unfinished: dict[str, tuple[FailureCode, str]],
    ray: _OnDemand,
    report: Report,
) -> None:
    """Recognise text in new pictures, within the budget; add to ``counts``, and pictures without a result to ``unfinished``."""
    corpus, before = workspace.corpus, counts["recognised"]
    missing = cache.missing(figure_ids)
    max_items = corpus.budget.ocr_items
    affordable = missing if max_items is None else missing[: max_items - before]
    over_budget = missing[len(affordable) :]
    crash_messages: dict[str, str] = {}
    if affordable:
        ray(len(affordable) > FEW_PICTURES)
        recognised_batches = recognise(affordable, corpus.captions, workspace.store.root, corpus.ray, crash_messages)
        tables = (table_of(Recognised, batch) for batch in recognised_batches)
        keep(cache, tables, Step.RECOGNISE, len(affordable), report, before)
    unfinished |= dict.fromkeys(over_budget, (FailureCode.OVER_BUDGET, _OVER_BUDGET))
    unfinished |= _crash_reasons(crash_messages, "words of a figure were not read")
    counts.update(recognised=len(affordable) - len(crash_messages), over_budget=len(over_budget))


_OVER_BUDGET = "words of a figure are not read yet: budget.ocr_items was spent; the next refresh continues"


def _crash_reasons(crash_messages: Mapping[str, str], consequence: str) -> dict[str, tuple[FailureCode, str]]:
    return {name: (FailureCode.MODEL_CRASHED, f"{consequence}: {message}") for name, message in crash_messages.items()}


def _segment(
    workspace: Workspace,
    cache: RecordCache,
    figure_ids: Iterable[str],
    find: Callable[..., Iterator[list[Segmented]]],
    counts: Counter[str],
    unfinished: dict[str, tuple[FailureCode, str]],
    ray: _OnDemand,
    report: Report,
) -> None:
    """Segment new pictures of pages, or find tables in others; as ``_recognise``, without a budget."""
    corpus, before = workspace.corpus, counts["segmented"]
    missing = cache.missing(figure_ids)
    crash_messages: dict[str, str] = {}
    if missing:
        ray(len(missing) > FEW_PAGES)
        cuts = find(missing, corpus.captions, workspace.store.root, corpus.ray, crash_messages)
        keep(cache, (table_of(Segmented, batch) for batch in cuts), Step.SEGMENT, len(missing), report, before)
    unfinished |= _crash_reasons(crash_messages, "a picture was not segmented")
    counts.update(segmented=len(missing) - len(crash_messages))


def _embed(
    workspace: Workspace,
    inherited: Inherited,
    doc_ids: list[str],
    sources: Mapping[str, str],
    budget: Budget,
    ray: _OnDemand,
    report: Report,
) -> tuple[int, dict[str, Spent]]:
    """Embed what has no vector yet, some rows at a time, space by space.

    Returns the number of vectors, and the cost of those that endpoints made, by ``expected_embeddings``' names. Raises
    ``UserError`` where the budget doesn't hold the calls of an endpoint; what it held is kept.
    """
    spaces = open_vectors(workspace.store, workspace.spaces)
    rows = _passages(workspace, inherited, doc_ids, sources)
    vector_count, paid = 0, dict[str, Spent]()
    for group in batched(rows, ROWS_AT_ONCE):
        for vectors in spaces:
            count, spent = _embed_in(workspace, vectors, group, vector_count, budget, ray, report)
            vector_count += count
            if spent.calls:
                name = vectors_of(vectors.space)
                paid[name] = paid.get(name, Spent()) + spent
    return vector_count, paid


def _passages(
    workspace: Workspace, inherited: Inherited, doc_ids: Iterable[str], sources: Mapping[str, str]
) -> Iterator[RowText]:
    reader = DocumentReader(workspace, match_corrections_by_id(workspace, doc_ids, inherited))
    for doc_id in doc_ids:
        yield from reader.passages(doc_id, sources[doc_id])
    for earlier in () if inherited.embedded else inherited.rows(workspace.store):
        yield from passages(earlier.evidence)


def _embed_in(
    workspace: Workspace,
    vectors: SpaceVectors,
    rows: Sequence[RowText],
    before: int,
    budget: Budget,
    ray: _OnDemand,
    report: Report,
) -> tuple[int, Spent]:
    """Embed the rows that lack a vector in a space; return their number and cost. ``before`` were embedded earlier."""
    corpus, space = workspace.corpus, vectors.space
    contents, cache = vectors.contents(rows), vectors.cache
    missing = cache.missing(contents)
    paid: list[Spent] = []
    if missing:
        ray(not is_few(space, len(missing), corpus.embeddings, corpus.ray))
        batches = _vectors(workspace, space, missing, contents, budget, paid)
        row_failures: list[RowFailure] = []
        tables = (_records(outcomes, vectors, row_failures) for outcomes in batches)
        keep(cache, tables, Step.EMBED, len(missing), report, before)
        if row_failures:
            raise TransientError(
                f"{len(row_failures)} rows have no vector {space.name} ({row_failures[0].message}); "
                "refresh again: the others are kept"
            )
    return len(missing), sum(paid, Spent())


def _vectors(
    workspace: Workspace,
    space: Space,
    missing: Sequence[str],
    contents: Mapping[str, EmbeddingInput],
    budget: Budget,
    paid: list[Spent],
) -> Iterator[list[Outcome[Vector]]]:
    """Yield vectors as ``embed`` does; calls of an endpoint are held to the budget, and their cost is added to ``paid``."""
    store, corpus = workspace.store, workspace.corpus
    endpoint = space.endpoint(corpus.embeddings)
    if endpoint is None:
        yield from embed(missing, contents, space, corpus.embeddings, store.root, corpus.ray, Usage())
        return
    add_spent(store, Spent())  # a count that is new begins with the cost of stored replies, and of nothing else
    batch, embedded_count = space.pool(corpus.embeddings).batch, 0
    for batch_names in batched(missing, batch * BATCHES_A_CALL):
        characters = sum(len(contents[name].text or "") for name in batch_names)
        maximum_cost = maximum_embedding_cost(endpoint.price, characters, endpoint.calls(len(batch_names), batch))
        if not budget.reserve(maximum_cost):
            raise UserError(
                f"budget: it doesn't hold the calls of {space.option}: {len(missing) - embedded_count} rows have no vector "
                f"{space.name} yet; raise it and refresh again: the others are kept"
            )
        usage = Usage()
        try:
            yield from embed(batch_names, contents, space, corpus.embeddings, store.root, corpus.ray, usage)
        finally:
            spent = cost_of(endpoint.price, usage)
            budget.settle(maximum_cost, spent)
            paid.append(spent)
            add_spent(store, spent)
        embedded_count += len(batch_names)


def _records(outcomes: Sequence[Outcome[Vector]], vectors: SpaceVectors, row_failures: list[RowFailure]) -> pa.Table:
    """Return vectors as records; failures are added to ``row_failures``."""
    row_failures += [outcome.failure for outcome in outcomes if outcome.failure is not None]
    return vectors.records({outcome.row_id: outcome.value for outcome in outcomes if outcome.value is not None})
