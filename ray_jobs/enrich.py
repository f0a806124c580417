"""Recognisers, segmenters and structuring as actors over batches."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, TypeVar

from backends.models.registry import DETECTORS, RECOGNISERS, TEXT_EMBEDDERS
from backends.stores.document_files import pack_structured, parsed_file, read_parsed, structured_file
from backends.stores.object_store import open_store
from ray_jobs.cluster import connected
from ray_jobs.outcomes import Outcome, attempt, errors_as_bad_input
from ray_jobs.pools import run_pool
from schemas.base import batched
from schemas.corpus import ChunkOptions
from schemas.corpus.models import CaptionOptions, EmbeddingOptions
from schemas.corpus.operations import RayOptions
from schemas.documents import (
    PageFailure,
    ParsedDocument,
    Recognised,
    RecognisedLine,
    Segment,
    Segmented,
    StructuredDocument,
)
from schemas.errors import FailureCode
from schemas.geometry import BBox
from schemas.ids import figure_file
from tasks.enriching.chunk import chunk
from tasks.figures.pixel_rules import rules_in, straightened
from tasks.figures.segment import cut, tables_in
from tasks.reading.contents import build_tree
from tasks.reading.structure import structure
from tasks.reading.text_layers import layered_pages, without_layer
from workers.garbage import infrequent_gc

PICTURES_A_BATCH = 4

FEW_PICTURES, FEW_PAGES, FEW_DOCUMENTS = 4, 16, 16
"""Up to so many are processed in this process, which is faster than starting Ray."""


class RecogniserActor:
    """Recognises text in stored figures. Input: the figure's name in the store."""

    def __init__(self, options: CaptionOptions, store_address: str) -> None:
        self._recogniser = RECOGNISERS.of(options).load(PICTURES_A_BATCH)
        self._store = open_store(store_address)

    def run(self, batch: Sequence[tuple[str, str]]) -> list[Outcome[list[RecognisedLine]]]:
        """Return the lines of each figure."""
        return attempt(batch, self._recognise)

    def _recognise(self, name: str) -> list[RecognisedLine]:
        picture = self._store.get(name)
        straight_picture = straightened(picture)
        if straight_picture is None:
            return self._recogniser.recognise(picture)
        lines = self._recogniser.recognise(straight_picture.picture)
        return [
            dataclasses.replace(line, bbox=straight_picture.as_given(line.bbox), skew=straight_picture.degrees)
            for line in lines
        ]


class _LayoutActor:
    """A layout model and the pictures that it sees."""

    def __init__(self, options: CaptionOptions, store_address: str) -> None:
        self._detector = DETECTORS.of(options).load(PICTURES_A_BATCH)
        self._store = open_store(store_address)


class SegmenterActor(_LayoutActor):
    """Cuts figures out of stored pictures of pages, and stores them; finds rules. Input: the picture's name in the store."""

    def run(self, batch: Sequence[tuple[str, str]]) -> list[Outcome[tuple[list[Segment], list[BBox]]]]:
        """Return the segments and the rules of each picture."""
        return attempt(batch, self._segment)

    def _segment(self, name: str) -> tuple[list[Segment], list[BBox]]:
        picture = self._store.get(name)
        straight_picture = straightened(picture)
        if straight_picture is None:
            regions, rules = self._detector.detect(picture), rules_in(picture)
        else:
            regions = [
                dataclasses.replace(region, bbox=straight_picture.as_given(region.bbox))
                for region in self._detector.detect(straight_picture.picture)
            ]
            rules = [straight_picture.as_given(rule) for rule in rules_in(straight_picture.picture)]
        return cut(picture, regions, lambda name, data: self._store.put(f"figures/{name}", data)), rules


class TableFinderActor(_LayoutActor):
    """Finds the tables, and their rules, in stored pictures that are no pages. Input: the picture's name in the store."""

    def run(self, batch: Sequence[tuple[str, str]]) -> list[Outcome[tuple[list[BBox], list[BBox]]]]:
        """Return the tables and the rules of each picture; no rules where it has no table."""
        return attempt(batch, self._find_tables)

    def _find_tables(self, name: str) -> tuple[list[BBox], list[BBox]]:
        picture = self._store.get(name)
        tables = tables_in(picture, self._detector.detect(picture))
        return tables, rules_in(picture) if tables else []


def recognise(
    figure_ids: Iterable[str],
    options: CaptionOptions,
    store_address: str,
    ray: RayOptions | None,
    unfinished: dict[str, str] | None = None,
) -> Iterator[list[Recognised]]:
    """Yield the recognised lines of stored figures, a batch at a time.

    A model that died or ran out of memory gives no result; only a failure of the picture itself is one. ``unfinished``
    collects the figures without a result, with the reason. Without ``ray``, the model runs in this process.
    """
    for outcomes in _run(RecogniserActor, figure_ids, options, store_address, ray, few=FEW_PICTURES):
        results = _results(outcomes, unfinished)
        yield [Recognised(outcome.row_id, tuple(outcome.value or ()), _reason(outcome)) for outcome in results]


def segment(
    figure_ids: Iterable[str],
    options: CaptionOptions,
    store_address: str,
    ray: RayOptions | None,
    unfinished: dict[str, str] | None = None,
) -> Iterator[list[Segmented]]:
    """Yield the segments of stored pictures of pages, a batch at a time; arguments as for ``recognise``."""
    for outcomes in _run(SegmenterActor, figure_ids, options, store_address, ray, few=FEW_PAGES):
        results = _results(outcomes, unfinished)
        yield [_segmented(outcome) for outcome in results]


def _segmented(outcome: Outcome[tuple[list[Segment], list[BBox]]]) -> Segmented:
    segments, rules = outcome.value or ([], [])
    return Segmented(outcome.row_id, tuple(segments), _reason(outcome), tuple(rules))


def find_tables(
    figure_ids: Iterable[str],
    options: CaptionOptions,
    store_address: str,
    ray: RayOptions | None,
    unfinished: dict[str, str] | None = None,
) -> Iterator[list[Segmented]]:
    """Yield the tables of stored pictures that are no pages, a batch at a time; arguments as for ``recognise``."""
    for outcomes in _run(TableFinderActor, figure_ids, options, store_address, ray, few=FEW_PAGES):
        outcome_values = [(outcome, outcome.value or ((), ())) for outcome in _results(outcomes, unfinished)]
        yield [
            Segmented(outcome.row_id, (), _reason(outcome), tuple(rules), tuple(tables))
            for outcome, (tables, rules) in outcome_values
        ]


_OF_THE_PICTURE = frozenset({FailureCode.IMAGE_REJECTED, FailureCode.MODEL_FAILED})


def _results(outcomes: Sequence[Outcome[Any]], unfinished: dict[str, str] | None) -> list[Outcome[Any]]:
    """Return the results, and add the other outcomes to ``unfinished``."""
    results = []
    for outcome in outcomes:
        if outcome.failure is None or outcome.failure.code in _OF_THE_PICTURE:
            results.append(outcome)
        elif unfinished is not None:
            unfinished[outcome.row_id] = outcome.failure.message
    return results


def _run(
    actor: type[RecogniserActor] | type[SegmenterActor] | type[TableFinderActor],
    figure_ids: Iterable[str],
    options: CaptionOptions,
    store_address: str,
    ray: RayOptions | None,
    *,
    few: int,
) -> Iterator[list[Outcome[Any]]]:
    only_few, figure_ids = _peek(figure_ids, few)
    batches = batched(((figure_id, figure_file(figure_id)) for figure_id in figure_ids), PICTURES_A_BATCH)
    if ray is None or only_few:
        local = actor(options, store_address)
        yield from map(local.run, batches)
        return
    with connected(ray) as cpus:
        yield from run_pool(actor, (options, store_address), batches, workers=cpus)


Item = TypeVar("Item")


def _peek(inputs: Iterable[Item], few: int) -> tuple[bool, Iterator[Item]]:
    """Return whether there are at most ``few`` items, and all of them."""
    items = iter(inputs)
    first = list(islice(items, few + 1))
    return len(first) <= few, chain(first, items)


def _reason(outcome: Outcome[Any]) -> str | None:
    return outcome.failure.message if outcome.failure is not None else None


@dataclass(frozen=True)
class Unstructured:
    """A document to structure, with the model results for its pictures."""

    doc_id: str
    recognised: tuple[Recognised, ...]
    segmented: tuple[Segmented, ...]
    unfinished: Mapping[str, tuple[FailureCode, str]] = field(default_factory=dict)
    """Pictures without a result, and why."""
    fault_of_layer: str | None = None
    """Why OCR replaces its text layer."""


class StructureActor:
    """Structures and chunks parsed documents, and stores the result."""

    def __init__(
        self, store_address: str, embeddings: EmbeddingOptions, chunks: ChunkOptions, parse_key: str, structured_key: str
    ) -> None:
        self._store = open_store(store_address)
        self._count_tokens = TEXT_EMBEDDERS.find(embeddings.text_model).token_counter()
        self._chunks = chunks
        self._keys = parse_key, structured_key

    def run(self, batch: Sequence[tuple[str, Unstructured]]) -> list[Outcome[bool]]:
        """Store the structure of each document."""
        return attempt(batch, self._structure)

    def _structure(self, unstructured: Unstructured) -> bool:
        parse_key, structured_key = self._keys
        parsed = read_parsed(self._store, parsed_file(unstructured.doc_id, parse_key))
        with errors_as_bad_input("structuring it"), infrequent_gc():
            document = structure_with(
                parsed,
                unstructured.recognised,
                unstructured.segmented,
                unstructured.unfinished,
                unstructured.fault_of_layer,
            )
            chunks = chunk(document, self._count_tokens, max_tokens=self._chunks.tokens, by=self._chunks.by)
            data = pack_structured(document, build_tree(document), chunks)
        # Replaced, since an earlier result may lack model results, or be damaged.
        self._store.replace(structured_file(unstructured.doc_id, structured_key), data)
        return True


def structure_with(
    parsed: ParsedDocument,
    recognised: Sequence[Recognised],
    segmented: Sequence[Segmented],
    unfinished: Mapping[str, tuple[FailureCode, str]] = MappingProxyType({}),
    fault_of_layer: str | None = None,
) -> StructuredDocument:
    """Structure a document with model results; pictures without one are among its failures.

    With a ``fault_of_layer``, what was recognised replaces its text layer; else what was recognised behind one is dropped.
    """
    code = FailureCode.MODEL_FAILED
    failed = {
        recognition.id: (code, f"words of a figure were not read: {recognition.failure}")
        for recognition in recognised
        if recognition.failure
    }
    failed |= {page.id: (code, f"a picture was not segmented: {page.failure}") for page in segmented if page.failure}
    failed |= unfinished
    failures = [
        PageFailure(placement.page, *failed[placement.figure_id])
        for placement in parsed.placements
        if placement.figure_id in failed
    ]
    if fault_of_layer is not None:
        parsed = without_layer(parsed, (recognition.id for recognition in recognised if recognition.lines), fault_of_layer)
    layered = {page.figure_id for page in layered_pages(parsed.placements).values()}
    document = structure(
        parsed,
        {recognition.id: recognition.lines for recognition in recognised if recognition.id not in layered},
        {page.id: page.segments for page in segmented},
        {page.id: page.rules for page in segmented},
        {picture.id: picture.tables for picture in segmented if picture.tables},
    )
    return dataclasses.replace(document, failures=(*parsed.failures, *failures))


def structure_all(
    documents: Iterable[Unstructured],
    *,
    store_address: str,
    embeddings: EmbeddingOptions,
    chunks: ChunkOptions,
    parse_key: str,
    structured_key: str,
    ray: RayOptions,
) -> Iterator[list[Outcome[bool]]]:
    """Structure documents and store each under its key; yield the outcomes."""
    arguments = (store_address, embeddings, chunks, parse_key, structured_key)
    only_few, documents = _peek(documents, FEW_DOCUMENTS)
    batches = batched(((item.doc_id, item) for item in documents), 1)
    if only_few:
        yield from map(StructureActor(*arguments).run, batches)
        return
    with connected(ray) as cpus:
        yield from run_pool(StructureActor, arguments, batches, workers=cpus)
