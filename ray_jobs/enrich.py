"""Recognisers and structuring as actors over batches."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from backends.models.rapidocr_recogniser import RapidOcr
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.document_files import ParsedDocumentFile, pack_structured, parsed_file, read_parsed
from backends.stores.object_store import open_store
from ray_jobs.cluster import connected
from ray_jobs.pools import Actor, Outcome, attempt, errors_as_bad_input, run_pool
from ray_jobs.scans import with_scans_read
from schemas.base import batched
from schemas.corpus import ChunkOptions
from schemas.corpus.models import EmbeddingModels
from schemas.corpus.operations import RayOptions
from schemas.corrections import StoredCorrection
from schemas.documents import PageFailure, ParsedDocument, Recognised, StructuredDocument
from schemas.errors import FailureCode
from schemas.ids import figure_file
from schemas.ports import Lexicon, ObjectStore
from tasks.enriching.chunk import chunk
from tasks.figures.pixel_rules import straightened
from tasks.reading.contents import build_tree
from tasks.reading.correct import correct
from tasks.reading.recognise import as_scanned, pictures_to_recognise
from tasks.reading.structure import structure
from tasks.reading.text_layers import layered_pages, pictures_to_compare, without_layer
from workers.garbage import infrequent_gc

PICTURES_A_BATCH = 4

FEW_PICTURES, FEW_DOCUMENTS, FEW_SCANS = 4, 16, 16
"""Up to so many are processed in this process, which is faster than starting Ray: pictures by OCR, documents, scanned pages."""


class LookedAt(NamedTuple):
    """The pictures of a document in which OCR recognises text; with those ``compared`` it compares a text layer."""

    recognised: list[str]
    compared: list[str]


def looked_at(parsed: ParsedDocumentFile, lexicon: Lexicon) -> LookedAt:
    """Return the pictures of a document for a recogniser."""
    pages = layered_pages(parsed.placements)
    compared = pictures_to_compare(pages, parsed.lines, lexicon) if pages else []
    return LookedAt([*pictures_to_recognise(parsed.placements, parsed.labelled), *compared], compared)


class _RecogniserActor:
    """Recognises text in stored pictures."""

    def __init__(self, store_address: str) -> None:
        self._store = open_store(store_address)
        self._recogniser = RapidOcr()

    def run(self, batch: Sequence[tuple[str, str]]) -> list[Outcome[Recognised]]:
        """Return the record of each figure, by its id."""
        return attempt(batch, self._recognise)

    def _recognise(self, figure_id: str) -> Recognised:
        picture = self._store.get(figure_file(figure_id))
        straight_picture = straightened(picture)
        if straight_picture is None:
            return Recognised(figure_id, tuple(self._recogniser.recognise(picture)))
        lines = self._recogniser.recognise(straight_picture.picture)
        as_given, degrees = straight_picture.as_given, straight_picture.degrees
        return Recognised(
            figure_id, tuple(dataclasses.replace(line, bbox=as_given(line.bbox), skew=degrees) for line in lines)
        )


_OF_THE_PICTURE = frozenset({FailureCode.IMAGE_REJECTED, FailureCode.MODEL_FAILED})


def recognise(
    figure_ids: Iterable[str],
    store_address: str,
    ray: RayOptions | None = None,
    unfinished: dict[str, str] | None = None,
) -> Iterator[list[Recognised]]:
    """Yield what is recognised in stored figures, a batch at a time; without ``ray``, the model runs in this process.

    A model that died or ran out of memory gives no record; only a failure of the picture itself is one. ``unfinished``
    collects the figures without a record, with the reason.
    """
    rows = ((figure_id, figure_id) for figure_id in figure_ids)
    for outcomes in run_actor(_RecogniserActor, (store_address,), rows, PICTURES_A_BATCH, FEW_PICTURES, ray):
        records: list[Recognised] = []
        for outcome in outcomes:
            failure = outcome.failure
            if outcome.value is not None:
                records.append(outcome.value)
            elif failure is not None and failure.code in _OF_THE_PICTURE:
                records.append(Recognised(outcome.row_id, (), failure.message))
            elif failure is not None and unfinished is not None:
                unfinished[outcome.row_id] = failure.message
        yield records


def run_actor(
    actor: Callable[..., Actor],
    arguments: Sequence[Any],
    rows: Iterable[tuple[str, Any]],
    rows_a_batch: int,
    few: int,
    ray: RayOptions | None,
) -> Iterator[list[Outcome[Any]]]:
    """Run an actor in this process for at most ``few`` rows, or without ``ray``; else a pool of them."""
    remaining_rows = iter(rows)
    # One row more than few shows that Ray is worth its start, without holding all rows.
    first_rows = list(islice(remaining_rows, few + 1))
    batches = batched(chain(first_rows, remaining_rows), rows_a_batch)
    if ray is None or len(first_rows) <= few:
        yield from map(actor(*arguments).run, batches)
        return
    with connected(ray) as cpus:
        yield from run_pool(actor, arguments, batches, workers=cpus)


@dataclass(frozen=True)
class Unstructured:
    """A document to structure, with what was recognised in its pictures."""

    doc_id: str
    recognised: tuple[Recognised, ...]
    unfinished: Mapping[str, tuple[FailureCode, str]] = field(default_factory=dict)
    """Pictures without a result, and why."""
    fault_of_layer: str | None = None
    """Why OCR replaces its text layer."""
    file: str = ""
    """Where it is stored."""
    corrections: tuple[StoredCorrection, ...] = ()


class StructureActor:
    """Structures and chunks parsed documents, and stores the result."""

    def __init__(self, store_address: str, embeddings: EmbeddingModels, chunks: ChunkOptions, parse_key: str) -> None:
        self._store = open_store(store_address)
        self._count_tokens = TEXT_EMBEDDERS.find(embeddings.text_model).token_counter()
        self._chunks = chunks
        self._parse_key = parse_key

    def run(self, batch: Sequence[tuple[str, Unstructured]]) -> list[Outcome[bool]]:
        """Store the structure of each document."""
        return attempt(batch, self._structure)

    def _structure(self, unstructured: Unstructured) -> bool:
        parsed = read_parsed(self._store, parsed_file(unstructured.doc_id, self._parse_key))
        with errors_as_bad_input("structuring it"), infrequent_gc():
            document = structure_with(
                parsed,
                unstructured.recognised,
                self._store,
                unstructured.unfinished,
                unstructured.fault_of_layer,
                unstructured.corrections,
            )
            chunks = chunk(document, self._count_tokens, max_tokens=self._chunks.tokens, by=self._chunks.by)
            data = pack_structured(document, build_tree(document), chunks)
        # Replaced, since an earlier result may lack model results, or be damaged.
        self._store.replace(unstructured.file, data)
        return True


def structure_with(
    parsed: ParsedDocument,
    recognised: Sequence[Recognised],
    store: ObjectStore,
    unfinished: Mapping[str, tuple[FailureCode, str]] = MappingProxyType({}),
    fault_of_layer: str | None = None,
    corrections: Sequence[StoredCorrection] = (),
) -> StructuredDocument:
    """Structure a document with what was recognised in its pictures; pictures without a result are among its failures.

    With a ``fault_of_layer``, what was recognised replaces its text layer; else what was recognised behind one is dropped.
    """
    failed = {
        recognition.id: (FailureCode.MODEL_FAILED, f"words of a figure were not read: {recognition.failure}")
        for recognition in recognised
        if recognition.failure
    } | {**unfinished}
    failures = [
        PageFailure(placement.page, *failed[placement.figure_id])
        for placement in parsed.placements
        if placement.figure_id in failed
    ]
    if fault_of_layer is not None:
        parsed = without_layer(parsed, (recognition.id for recognition in recognised if recognition.lines), fault_of_layer)
    # The layers that ``without_layer`` left: what was recognised behind them is dropped.
    layered = {page.figure_id for page in layered_pages(parsed.placements).values()}
    lines = {recognition.id: recognition.lines for recognition in recognised if recognition.id not in layered}
    read, skews = with_scans_read(parsed, lines, store)
    document = as_scanned(structure(read, lines, corrections), skews, parsed)
    unread = {failure.page for failure in failures}
    document_failures = [
        failure for failure in document.failures if failure.code != FailureCode.NEEDS_OCR or failure.page not in unread
    ]
    return correct(dataclasses.replace(document, failures=(*document_failures, *failures)), corrections)
