"""Recognisers, segmenters and structuring as actors over batches."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from backends.models.rapid_layout_detector import RapidLayout
from backends.models.rapidocr_recogniser import RapidOcr
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.document_files import ParsedDocumentFile, pack_structured, parsed_file, read_parsed
from backends.stores.object_store import open_store
from ray_jobs.cluster import connected
from ray_jobs.pools import Actor, Outcome, attempt, errors_as_bad_input, run_pool
from schemas.base import batched
from schemas.corpus import ChunkOptions
from schemas.corpus.models import EmbeddingModels
from schemas.corpus.operations import RayOptions
from schemas.corrections import StoredCorrection
from schemas.documents import PageFailure, ParsedDocument, Recognised, Segmented, StructuredDocument
from schemas.errors import FailureCode
from schemas.ids import figure_file
from schemas.ports import Lexicon
from tasks.enriching.chunk import chunk
from tasks.figures.pixel_rules import rules_in, straightened
from tasks.figures.segment import cut, pictures_to_segment, pictures_with_tables, tables_in
from tasks.reading.contents import build_tree
from tasks.reading.correct import correct
from tasks.reading.recognise import pictures_to_recognise
from tasks.reading.structure import structure
from tasks.reading.text_layers import layered_pages, pictures_to_compare, without_layer
from workers.garbage import infrequent_gc

PICTURES_A_BATCH = 4

FEW_PICTURES, FEW_PAGES, FEW_DOCUMENTS = 4, 16, 16
"""Up to so many are processed in this process, which is faster than starting Ray."""


class LookedAt(NamedTuple):
    """The pictures of a document that models look at: to recognise text in, to segment, and to search for tables.

    ``compared`` are those among the first with which a text layer is compared.
    """

    recognised: list[str]
    segmented: list[str]
    searched: list[str]
    compared: list[str]


def looked_at(parsed: ParsedDocumentFile, lexicon: Lexicon, *, reads: bool, segments: bool) -> LookedAt:
    """Return the pictures of a document for a recogniser, if it ``reads``, and a detector, if it ``segments``."""
    pages = layered_pages(parsed.placements) if reads else {}
    compared = pictures_to_compare(pages, parsed.lines, lexicon) if pages else []
    return LookedAt(
        [*pictures_to_recognise(parsed.placements, parsed.labelled), *compared] if reads else [],
        pictures_to_segment(parsed.placements) if segments else [],
        pictures_with_tables(parsed.placements) if reads and segments else [],
        compared,
    )


class _PictureActor(ABC):
    """A model that looks at stored pictures, and makes a record of each."""

    record: type[Recognised] | type[Segmented]

    def __init__(self, store_address: str) -> None:
        self._store = open_store(store_address)
        self._load()

    def run(self, batch: Sequence[tuple[str, str]]) -> list[Outcome[Recognised | Segmented]]:
        """Return the record of each figure, by its id."""
        return attempt(batch, lambda figure_id: self._look(figure_id, self._store.get(figure_file(figure_id))))

    @abstractmethod
    def _load(self) -> None:
        """Load the model."""

    @abstractmethod
    def _look(self, figure_id: str, picture: bytes) -> Recognised | Segmented:
        """Return the record of a picture."""


class _RecogniserActor(_PictureActor):
    """Recognises text in figures."""

    record = Recognised

    def _load(self) -> None:
        self._recogniser = RapidOcr()

    def _look(self, figure_id: str, picture: bytes) -> Recognised:
        straight_picture = straightened(picture)
        if straight_picture is None:
            return Recognised(figure_id, tuple(self._recogniser.recognise(picture)))
        lines = self._recogniser.recognise(straight_picture.picture)
        as_given, degrees = straight_picture.as_given, straight_picture.degrees
        return Recognised(
            figure_id, tuple(dataclasses.replace(line, bbox=as_given(line.bbox), skew=degrees) for line in lines)
        )


class _SegmenterActor(_PictureActor):
    """Cuts figures out of pictures of pages, and stores them; finds rules."""

    record = Segmented

    def _load(self) -> None:
        self._detector = RapidLayout()

    def _look(self, figure_id: str, picture: bytes) -> Segmented:
        # Models look at a skewed scan after it was straightened; what they find is turned back to the picture as it is
        # stored.
        straight_picture = straightened(picture)
        if straight_picture is None:
            regions, rules = self._detector.detect(picture), rules_in(picture)
        else:
            regions = [
                dataclasses.replace(region, bbox=straight_picture.as_given(region.bbox))
                for region in self._detector.detect(straight_picture.picture)
            ]
            rules = [straight_picture.as_given(rule) for rule in rules_in(straight_picture.picture)]
        segments = cut(picture, regions, lambda name, data: self._store.put(f"figures/{name}", data))
        return Segmented(figure_id, tuple(segments), rules=tuple(rules))


class _TableFinderActor(_SegmenterActor):
    """Finds the tables, and their rules, in pictures that aren't pages."""

    def _look(self, figure_id: str, picture: bytes) -> Segmented:
        tables = tables_in(picture, self._detector.detect(picture))
        return Segmented(figure_id, (), rules=tuple(rules_in(picture) if tables else ()), tables=tuple(tables))


_OF_THE_PICTURE = frozenset({FailureCode.IMAGE_REJECTED, FailureCode.MODEL_FAILED})


def _look_at(
    actor: type[_PictureActor],
    few: int,
    figure_ids: Iterable[str],
    store_address: str,
    ray: RayOptions | None = None,
    unfinished: dict[str, str] | None = None,
) -> Iterator[list[Any]]:
    """Yield the records of stored figures, a batch at a time; without ``ray``, the model runs in this process.

    A model that died or ran out of memory gives no record; only a failure of the picture itself is one. ``unfinished``
    collects the figures without a record, with the reason.
    """
    rows = ((figure_id, figure_id) for figure_id in figure_ids)
    for outcomes in _run(actor, (store_address,), rows, PICTURES_A_BATCH, few, ray):
        records = []
        for outcome in outcomes:
            if outcome.failure is None:
                records.append(outcome.value)
            elif outcome.failure.code in _OF_THE_PICTURE:
                records.append(actor.record(outcome.row_id, (), outcome.failure.message))
            elif unfinished is not None:
                unfinished[outcome.row_id] = outcome.failure.message
        yield records


recognise = partial(_look_at, _RecogniserActor, FEW_PICTURES)
"""Recognises text in figures."""
segment = partial(_look_at, _SegmenterActor, FEW_PAGES)
"""Cuts figures out of pictures of pages, and stores them."""
find_tables = partial(_look_at, _TableFinderActor, FEW_PAGES)
"""Finds tables in pictures that aren't pages."""


def _run(
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
    """A document to structure, with the model results for its pictures."""

    doc_id: str
    recognised: tuple[Recognised, ...]
    segmented: tuple[Segmented, ...]
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
                unstructured.segmented,
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
    segmented: Sequence[Segmented],
    unfinished: Mapping[str, tuple[FailureCode, str]] = MappingProxyType({}),
    fault_of_layer: str | None = None,
    corrections: Sequence[StoredCorrection] = (),
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
    # The layers that ``without_layer`` left: what was recognised behind them is dropped.
    layered = {page.figure_id for page in layered_pages(parsed.placements).values()}
    document = structure(
        parsed,
        {recognition.id: recognition.lines for recognition in recognised if recognition.id not in layered},
        {page.id: page.segments for page in segmented},
        {page.id: page.rules for page in segmented},
        {picture.id: picture.tables for picture in segmented if picture.tables},
        corrections,
    )
    unread = {failure.page for failure in failures}
    document_failures = [
        failure for failure in document.failures if failure.code != FailureCode.NEEDS_OCR or failure.page not in unread
    ]
    return correct(dataclasses.replace(document, failures=(*document_failures, *failures)), corrections)


def structure_all(
    documents: Iterable[Unstructured],
    *,
    store_address: str,
    embeddings: EmbeddingModels,
    chunks: ChunkOptions,
    parse_key: str,
    ray: RayOptions,
) -> Iterator[list[Outcome[bool]]]:
    """Structure documents and store each in its file; yield the outcomes."""
    arguments = (store_address, embeddings, chunks, parse_key)
    rows = ((document.doc_id, document) for document in documents)
    return _run(StructureActor, arguments, rows, 1, FEW_DOCUMENTS, ray)
