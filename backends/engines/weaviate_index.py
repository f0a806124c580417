"""The server engine: a Weaviate collection a version, under its physical name, its schema spelled out.

The server is never left to guess a type: what a row holds is derived from the Arrow schema, and only what filters and BM25
look at is indexed. Rows keep their evidence ids as object ids, so that writing one again replaces it.
"""

import contextlib
import functools
import math
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from backends.engines.analyser import query_terms
from backends.engines.index_rows import (
    FIGURES,
    NAMES,
    PAGES,
    SECTIONS,
    Ranked,
    added_columns,
    check_columns,
    check_filters,
    encodable,
    first,
    is_late,
    is_terms,
    kept_columns,
    terms_column,
)
from backends.engines.weaviate_server import WeaviateServer
from schemas.errors import ContractError, DamagedError, TransientError
from schemas.evidence import EVIDENCE, NO_FILTERS, Filters
from schemas.ports import WHOLE_TEXT, SearchIndex, Vector
from schemas.words import folded

ROWS_A_REQUEST = 200
REQUESTS_AT_ONCE = 2
TRIES = 4
SEARCHED = 256
"""Candidates that a walk of the HNSW graph keeps: the same for all who want fewer, so that a short answer begins a longer one.

The server's own choice is eight times the rows asked for, 100 to 500. Of 23,000 real vectors, recall at 10 is .907 with 100, .924
with 128, .949 with 200, .961 with 256, .976 with 500 (decision 12).
"""

MOST = 10_000
"""Rows a server gives for one question: its ``QUERY_MAXIMUM_RESULTS``. A longer ranking ends there."""

_FILTERABLE = (NAMES, PAGES, SECTIONS, FIGURES, "modality", "doc_id", "page", "date", "language")
_IDS_A_QUERY = 500
_TRUSTED_S = 1.0
"""How long a server that has answered is taken to be there: asking its port costs a tenth of a search."""

_NO_ROW = str(uuid.UUID(int=0))
_POLL_S = 0.2
_READY_IN_A_ROW = 3
_STALLED_S = 300.0


class WeaviateIndex:
    """A ``SearchIndex`` in a collection of a Weaviate server. Nothing is touched until a method is called.

    Args:
        server: Where.
        collection: The physical name; never an alias.
        exact: Compare with every vector (a flat index) instead of walking an HNSW graph.
        replicas: Nodes that each row is kept on.
        languages: Those of the version's documents, which questions are stemmed by.
    """

    def __init__(
        self,
        server: WeaviateServer,
        collection: str,
        *,
        exact: bool = False,
        replicas: int = 1,
        languages: Collection[str] = (),
    ) -> None:
        self._server = server
        self.collection = collection
        self._exact = exact
        self._replicas = replicas
        self._languages = tuple(languages)
        self._known: frozenset[str] | None = None
        self._answered = -math.inf

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Make the collection, empty; what an earlier, unfinished build left of it is dropped.

        Raises:
            ContractError: The schema lacks a text that BM25 reads, or a vector column of the length given.
        """
        check_columns(schema, dimensions, fields)
        self.drop()
        columns = [column for column in kept_columns(schema, fields) if not column.name.startswith("vector_")]
        made = {
            "class": self.collection,
            "properties": [_property(column) for column in columns],
            "vectorConfig": {space: self._vector_index(late=is_late(schema, space)) for space in dimensions},
            "invertedIndexConfig": {"bm25": {"k1": 1.2, "b": 0.75}, "stopwords": {"preset": "none"}},
            "replicationConfig": {"factor": self._replicas},
        }
        with self._server.translated_errors():
            self._server.client().collections.create_from_dict(made)

    def derive(self, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Return False: a server of that name can't make a collection out of another one."""
        return False

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows, several requests at once, and return how many; an error of ``batches`` comes through as it is.

        Raises:
            ContractError: The server refuses a row however often it is sent.
        """
        written, known = 0, self._columns()
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as senders:
            for batch in batches:
                parts = (batch.slice(start, ROWS_A_REQUEST) for start in range(0, batch.num_rows, ROWS_A_REQUEST))
                written += sum(senders.map(lambda part: self._send(part, known), parts))
        return written

    def finish(self) -> None:
        """Return when every vector is indexed: the queue is empty and all shards are ready, and stay so.

        Raises:
            TransientError: The queue doesn't get shorter any more.
        """
        ready, left, patience = 0, -1, time.monotonic() + _STALLED_S
        while ready < _READY_IN_A_ROW:
            with self._server.translated_errors():
                shards = self._collection().config.get_shards()
            waiting = sum(shard.vector_queue_size for shard in shards)
            # A shard can say READY before its queue was counted.
            ready = ready + 1 if not waiting and all(shard.status == "READY" for shard in shards) else 0
            if waiting != left:
                left, patience = waiting, time.monotonic() + _STALLED_S
            if time.monotonic() > patience:
                raise TransientError(
                    f"Weaviate stopped indexing {self.collection}, {waiting} vectors to go; look at its log"
                )
            time.sleep(_POLL_S)

    def count(self) -> int:
        """Return how many rows the collection holds.

        Raises:
            DamagedError: There is no such collection.
        """
        with self._asking():
            return int(self._collection().aggregate.over_all(total_count=True).total_count)

    def drop(self) -> None:
        """Remove the collection; nothing happens where there is none."""
        self._known = None
        with self._server.translated_errors():
            self._server.client().collections.delete(self.collection)

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> Ranked:
        """Return ``(evidence_id, BM25F score)``; any term may match, and no character of a query has a meaning.

        Raises:
            ContractError: The collection was made without one of the fields.
        """
        from weaviate.classes.query import BM25Operator

        where, operator = self._narrowed(filters), BM25Operator.and_() if every else None
        # A collection of an earlier release splits words itself.
        analysed = terms_column(next(iter(weights))) in self._columns()
        words = " ".join(query_terms(encodable(query), () if every else self._languages)) if analysed else encodable(query)
        fields = [f"{terms_column(field) if analysed else field}^{weight}" for field, weight in weights.items()]

        def search(limit: int) -> Ranked:
            found = self._collection().query.bm25(
                words,
                query_properties=fields,
                limit=min(limit, MOST),
                filters=where,
                operator=operator,
                **_only("score"),
            )
            return [(str(row.uuid), float(row.metadata.score)) for row in found.objects]

        with self._asking():
            return first(search, k) if any(character.isalnum() for character in words) else []

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, cosine similarity)``, approximate unless the collection is ``exact``.

        Raises:
            ContractError: The collection has no such space, or its vectors have another length.
        """
        return [(name, max(-1.0, min(1.0, 1 - away))) for name, away in self._nearest(vector, k, filters, space)]

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, MaxSim)``.

        Raises:
            ContractError: The collection has no such space, or its vectors have another length.
        """
        return [(name, -away) for name, away in self._nearest(_unit(vectors), k, filters, space)]

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order; unknown ids are left out."""
        wanted = _returned(self._columns())
        found = {str(row.uuid): _row(row.properties) for row in self._read(evidence_ids, return_properties=wanted)}
        return [found[evidence_id] for evidence_id in evidence_ids if evidence_id in found]

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id; rows that are unknown or have none are left out."""
        found = self._read(evidence_ids, include_vector=[space], return_properties=False)
        return {str(row.uuid): np.asarray(row.vector[space], np.float32) for row in found if row.vector.get(space)}

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Talk to the server, and find out whether a question was refused because the collection is gone."""
        try:
            if time.monotonic() - self._answered > _TRUSTED_S:
                self._server.check_reachable()
            with self._server.translated_errors():
                yield
            self._answered = time.monotonic()
        except ContractError as error:
            with self._server.translated_errors():
                there = self._server.client().collections.exists(self.collection)
            if there:
                raise
            corpus = self.collection.rsplit("_", 2)[0].lower()
            raise DamagedError(
                f"Weaviate at {self._server.url} has no collection {self.collection}; to build it again: inset refresh {corpus}",
                self.collection,
            ) from error

    def _narrowed(self, filters: Filters) -> Any:
        """Return filters in the server's language; None where there are none."""
        if filters == NO_FILTERS:
            return None
        check_filters(filters, self._columns())
        return _predicate(filters)

    def _columns(self) -> frozenset[str]:
        if self._known is None:
            with self._asking():
                self._known = frozenset(one.name for one in self._collection().config.get().properties)
        return self._known

    def _collection(self) -> Any:
        return _used(self._server.client(), self.collection)

    def _vector_index(self, *, late: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"distance": "cosine", "skipDefaultQuantization": True}
        if late:
            options["multivector"] = {"enabled": True}
        kind = "flat" if self._exact and not late else "hnsw"  # a flat index holds one vector a row only
        if kind == "hnsw":
            options["ef"] = SEARCHED
        return {"vectorizer": {"none": {}}, "vectorIndexType": kind, "vectorIndexConfig": options}

    def _send(self, batch: pa.RecordBatch, known: Collection[str]) -> int:
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        waiting = list(_objects(batch, known))
        said = ""
        for again in range(TRIES):
            time.sleep(again and 0.2 * 2**again)
            try:
                with self._server.translated_errors():
                    errors = self._collection().data.insert_many(waiting).errors
            except ContractError as error:
                if not isinstance(error.__cause__, WeaviateInsertManyAllFailedError):
                    raise
                said = error.__cause__.message
                continue
            if not errors:
                return batch.num_rows
            said = next(iter(errors.values())).message
            waiting = [waiting[place] for place in sorted(errors)]
        raise ContractError(
            f"Weaviate refuses {len(waiting)} rows of {self.collection}, {TRIES} times over; the first: {said}"
        )

    def _nearest(self, query: Vector, k: int, filters: Filters, space: str) -> Ranked:
        where = self._narrowed(filters)

        def search(limit: int) -> Ranked:
            found = self._collection().query.near_vector(
                query.tolist(), target_vector=space, limit=min(limit, MOST), filters=where, **_only("distance")
            )
            pairs = ((str(row.uuid), -float(row.metadata.distance)) for row in found.objects)
            return [pair for pair in pairs if math.isfinite(pair[1])]  # under a filter, rows without a vector come too

        try:
            with self._asking():
                return [(name, -score) for name, score in first(search, k)]
        except ContractError as error:
            raise ContractError(
                f"{self.collection} has no vectors '{space}' of length {query.shape[-1]}; refresh after changing models "
                f"({error.message})"
            ) from error

    def _read(self, evidence_ids: Sequence[str], **returned: Any) -> Iterator[Any]:
        known = [name for name in dict.fromkeys(evidence_ids) if _is_uuid(name)]
        for start in range(0, len(known), _IDS_A_QUERY):
            wanted = known[start : start + _IDS_A_QUERY]
            with self._asking():
                found = self._collection().query.fetch_objects_by_ids(wanted, limit=len(wanted), **returned).objects
            yield from found


@functools.lru_cache(maxsize=16)
def _used(client: Any, collection: str) -> Any:
    """Return what the client asks a collection by; to make it takes a twentieth of a search."""
    return client.collections.use(collection)


def _property(column: "pa.Field[Any]") -> dict[str, Any]:
    """Spell a column as the server does: terms where BM25 reads it, whole values where a filter compares them."""
    kind = _spelled(column.type)
    inner = kind.value_type if isinstance(kind, pa.ListType | pa.FixedSizeListType) else kind
    spelled: dict[str, Any] = {"name": column.name, "dataType": [_data_type(inner) + ("[]" if inner is not kind else "")]}
    if isinstance(inner, pa.StructType):
        spelled["nestedProperties"] = [_property(inner.field(place)) for place in range(inner.num_fields)]
    if inner == pa.string():
        searched = is_terms(column.name)
        spelled |= {"tokenization": "whitespace" if searched else "field", "indexSearchable": searched}
    return spelled | {"indexFilterable": column.name in _FILTERABLE}


_CELLS = "cells"
"""The server knows no lists of lists: a row of a table is an object that has its cells."""


def _is_table(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.ListType) and isinstance(kind.value_type, pa.ListType)


def _spelled(kind: Any) -> Any:
    """Return the type that the server keeps instead of a list of lists."""
    return pa.list_(pa.struct([(_CELLS, kind.value_type)])) if _is_table(kind) else kind


def _data_type(kind: pa.DataType) -> str:
    if isinstance(kind, pa.StructType):
        return "object"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "text" if kind == pa.string() else "int" if pa.types.is_integer(kind) else "number"


def _objects(batch: pa.RecordBatch, known: Collection[str]) -> Iterator[Any]:
    from weaviate.classes.data import DataObject

    spaces = [name.removeprefix("vector_") for name in batch.schema.names if name.startswith("vector_")]
    vectors = {space: batch.column(f"vector_{space}").to_pylist() for space in spaces}
    rows = batch.select([name for name in batch.schema.names if name in known]).to_pylist()
    added = added_columns(batch, [field for field in batch.schema.names if terms_column(field) in known])
    tables = [field.name for field in batch.schema if field.name in known and _is_table(field.type)]
    for place, row in enumerate(rows):
        own = {name: values[place] for name, values in added.items()}
        own |= {name: [{_CELLS: cells} for cells in row[name]] for name in tables if row[name] is not None}
        yield DataObject(
            properties={name: value for name, value in (row | own).items() if value is not None},
            uuid=row["evidence_id"],
            vector={space: column[place] for space, column in vectors.items() if column[place] is not None},
        )


@functools.cache
def _only(score: str) -> dict[str, Any]:
    from weaviate.classes.query import MetadataQuery

    return {"return_metadata": MetadataQuery(**{score: True}), "return_properties": False}


def _returned(there: Collection[str]) -> list[Any]:
    """Return what to ask for: the columns that a collection has, since one of an earlier release may lack some."""
    from weaviate.classes.query import QueryNested

    kinds = {column.name: _spelled(column.type) for column in EVIDENCE if column.name in there}
    return [
        QueryNested(name=name, properties=[inner.name for inner in kind.value_type])
        if isinstance(kind, pa.ListType) and isinstance(kind.value_type, pa.StructType)
        else name
        for name, kind in kinds.items()
    ]


def _row(properties: Mapping[str, Any]) -> dict[str, object]:
    """Return a row as it was written: the server keeps no difference between an empty list and none."""
    row: dict[str, Any] = {
        column.name: properties.get(column.name) if column.nullable else properties.get(column.name) or _empty(column.type)
        for column in EVIDENCE
    }
    tables = {column.name: row[column.name] for column in EVIDENCE if _is_table(column.type) and row[column.name]}
    return row | {name: [line[_CELLS] for line in lines] for name, lines in tables.items()}


def _empty(kind: pa.DataType) -> object:
    return "" if kind == pa.string() else 0 if pa.types.is_integer(kind) else []


def _predicate(filters: Filters) -> Any:
    from weaviate.classes.query import Filter

    wanted: list[tuple[str, Sequence[Any]]] = [
        (NAMES, [encodable(name) for name in filters.documents]),
        (PAGES, filters.pages),
        ("modality", [modality.value for modality in filters.modalities]),
        ("language", [encodable(language) for language in filters.languages]),
        (SECTIONS, [folded(encodable(name)) for name in filters.sections]),
    ]
    parts = [Filter.by_property(name).contains_any(values) for name, values in wanted if values]
    if filters.has_figure is not None:
        parts.append(Filter.by_property(FIGURES).equal(filters.has_figure))
    if filters.since is not None:
        parts.append(Filter.by_property("date").greater_or_equal(str(filters.since)))
    if filters.until is not None:
        parts.append(Filter.by_property("date").less_or_equal(str(filters.until)))
    if filters.evidence_ids:
        parts.append(Filter.by_id().contains_any([name for name in filters.evidence_ids if _is_uuid(name)] or [_NO_ROW]))
    return Filter.all_of(parts) if parts else None


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _unit(vectors: Vector) -> Vector:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)
