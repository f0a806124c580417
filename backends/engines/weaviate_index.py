"""The server engine: a Weaviate collection for each version, with an explicit schema.

Types follow the Arrow schema, and only columns for filters and BM25 are indexed. Evidence ids are object ids, so that rewriting
a row replaces it.
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
    FILTERED,
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
from schemas.access import Allowed
from schemas.base import batched
from schemas.errors import ContractError, DamagedError, TransientError
from schemas.evidence import EVIDENCE
from schemas.filters import ACCESS, NO_FILTERS, SUPERSEDED, Condition, Filters, field_column
from schemas.ports import WHOLE_TEXT, SearchIndex, Vector

ROWS_A_REQUEST = 200
REQUESTS_AT_ONCE = 2
TRIES = 4
SEARCHED = 256
"""Candidates of an HNSW search: a constant, so that a short answer is the beginning of a longer one.

On 23,000 real vectors recall@10 is .907 with 100, .949 with 200, .961 with 256, .976 with 500 (decision 12).
"""

MOST = 10_000
"""Most rows of one answer: the server's ``QUERY_MAXIMUM_RESULTS``."""

_FILTERABLE = {
    *(column.name for column in FILTERED),
    *("modality", "doc_id", "page", "date", "language", "doc_type", ACCESS, SUPERSEDED),
}
_IDS_A_QUERY = 500
_TRUSTED_S = 1.0
"""Seconds after an answer without another check of the port, which costs a tenth of a search."""

_NO_ROW = str(uuid.UUID(int=0))
_POLL_S = 0.2
_READY_IN_A_ROW = 3
_STALLED_S = 300.0


class WeaviateIndex:
    """A ``SearchIndex`` in a collection of a Weaviate server, connected on first use.

    Args:
        server: The server.
        collection: The physical name, never an alias.
        replicas: Nodes that store each row.
        languages: Languages of the version's documents, for stemming queries.
    """

    def __init__(
        self,
        server: WeaviateServer,
        collection: str,
        *,
        replicas: int = 1,
        languages: Collection[str] = (),
    ) -> None:
        self._server = server
        self.collection = collection
        self._replicas = replicas
        self._languages = tuple(languages)
        self._column_names: frozenset[str] | None = None
        self._answered = -math.inf

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Create the collection, empty; an existing one is dropped. Raises as ``check_columns`` does."""
        check_columns(schema, dimensions, fields)
        self.drop()
        columns = [column for column in kept_columns(schema, fields) if not column.name.startswith("vector_")]
        # By default the server leaves out English stop words, which stay findable here.
        configuration = {
            "class": self.collection,
            "properties": [_property(column) for column in columns],
            "vectorConfig": {space: self._vector_index(late=is_late(schema, space)) for space in dimensions},
            "invertedIndexConfig": {"bm25": {"k1": 1.2, "b": 0.75}, "stopwords": {"preset": "none"}},
            "replicationConfig": {"factor": self._replicas},
        }
        with self._server.translated_errors():
            self._server.client().collections.create_from_dict(configuration)

    def derive(self, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Delete rows of the same collection; return False if the earlier one is another, or has another schema."""
        if not isinstance(earlier, WeaviateIndex) or earlier.collection != self.collection:
            return False
        spaces = {name.removeprefix("vector_") for name in schema.names if name.startswith("vector_")}
        columns = {column.name for column in kept_columns(schema, fields) if not column.name.startswith("vector_")}
        with self._querying():
            stored = self._collection().config.get()
        self._column_names = frozenset(column.name for column in stored.properties)
        if self._column_names != columns or set(stored.vector_config or ()) != spaces:
            return False
        for doc_ids in batched(without, _IDS_A_QUERY):
            condition = _of_documents(doc_ids)
            with self._server.translated_errors():
                while self._collection().data.delete_many(where=condition).matches:
                    pass  # the server deletes some thousand rows a call
        return True

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows, several requests at once, and return their number; errors of ``batches`` are raised unchanged.

        Raises:
            ContractError: The server refuses a row repeatedly.
        """
        # A collection of an earlier release may lack columns, whose values aren't sent then.
        row_count, columns = 0, self._columns()
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as senders:
            for batch in batches:
                parts = (batch.slice(start, ROWS_A_REQUEST) for start in range(0, batch.num_rows, ROWS_A_REQUEST))
                row_count += sum(senders.map(lambda part: self._send(part, columns), parts))
        return row_count

    def finish(self) -> None:
        """Return when every vector is indexed; raise ``TransientError`` if the queue stops shrinking."""
        ready, last_waiting, patience = 0, -1, time.monotonic() + _STALLED_S
        while ready < _READY_IN_A_ROW:
            with self._server.translated_errors():
                shards = self._collection().config.get_shards()
            waiting = sum(shard.vector_queue_size for shard in shards)
            # A shard can say READY before its queue was counted.
            ready = ready + 1 if not waiting and all(shard.status == "READY" for shard in shards) else 0
            if waiting != last_waiting:
                last_waiting, patience = waiting, time.monotonic() + _STALLED_S
            if time.monotonic() > patience:
                raise TransientError(
                    f"Weaviate stopped indexing {self.collection}, {waiting} vectors are left; see its log"
                )
            time.sleep(_POLL_S)

    def count(self, doc_ids: Collection[str] | None = None) -> int:
        """Return the number of rows, of some documents if these are given."""
        if doc_ids is None:
            return self._count(None)
        return sum(self._count(_of_documents(names)) for names in batched(sorted(doc_ids), _IDS_A_QUERY))

    def _count(self, condition: Any) -> int:
        with self._querying():
            return int(self._collection().aggregate.over_all(total_count=True, filters=condition).total_count)

    def drop(self) -> None:
        """Remove the collection, if it exists."""
        self._column_names = None
        with self._server.translated_errors():
            self._server.client().collections.delete(self.collection)

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> Ranked:
        """Return ``(evidence_id, BM25F score)``; any term may match, and no character has a special meaning."""
        from weaviate.classes.query import BM25Operator

        condition, operator = self._narrowed(filters), BM25Operator.and_() if every else None
        words = " ".join(query_terms(encodable(query), () if every else self._languages))
        fields = [f"{terms_column(field)}^{weight}" for field, weight in weights.items()]

        def search(limit: int) -> Ranked:
            response = self._collection().query.bm25(
                words,
                query_properties=fields,
                limit=min(limit, MOST),
                filters=condition,
                operator=operator,
                **_metadata_only("score"),
            )
            return [(str(row.uuid), float(row.metadata.score)) for row in response.objects]

        with self._querying():
            return first(search, k) if words else []

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, cosine similarity)``, approximate."""
        return [(name, max(-1.0, min(1.0, 1 - distance))) for name, distance in self._nearest(vector, k, filters, space)]

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, MaxSim)``."""
        unit_vectors = np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)
        return [(name, -distance) for name, distance in self._nearest(unit_vectors, k, filters, space)]

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of some ids, in that order; unknown ids are left out."""
        returned = _returned_properties() if evidence_ids else []
        rows_by_id = {str(row.uuid): _row(row.properties) for row in self._read(evidence_ids, return_properties=returned)}
        return [rows_by_id[evidence_id] for evidence_id in evidence_ids if evidence_id in rows_by_id]

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id; unknown rows and rows without one are left out."""
        objects = self._read(evidence_ids, include_vector=[space], return_properties=False)
        return {str(row.uuid): np.asarray(row.vector[space], np.float32) for row in objects if row.vector.get(space)}

    @contextlib.contextmanager
    def _querying(self) -> Iterator[None]:
        """Query the server; raise ``DamagedError`` if it refused because the collection is missing."""
        try:
            if time.monotonic() - self._answered > _TRUSTED_S:
                self._server.check_reachable()
            with self._server.translated_errors():
                yield
            self._answered = time.monotonic()
        except ContractError as error:
            with self._server.translated_errors():
                exists = self._server.client().collections.exists(self.collection)
            if exists:
                raise
            corpus = self.collection.rsplit("_", 2)[0].lower()
            raise DamagedError(
                f"Weaviate at {self._server.url} has no collection {self.collection}; to build it again, if it is live: "
                f"inset refresh {corpus}",
                self.collection,
            ) from error

    def _narrowed(self, filters: Filters) -> Any:
        """Return filters in the server's form; None for none."""
        if filters == NO_FILTERS:
            return None
        check_filters(filters, self._columns)
        return _predicate(filters)

    def _columns(self) -> frozenset[str]:
        if self._column_names is None:
            with self._querying():
                self._column_names = frozenset(column.name for column in self._collection().config.get().properties)
        return self._column_names

    def _collection(self) -> Any:
        return _collection_object(self._server.client(), self.collection)

    def _vector_index(self, *, late: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"distance": "cosine", "skipDefaultQuantization": True, "ef": SEARCHED}
        if late:
            options["multivector"] = {"enabled": True}
        return {"vectorizer": {"none": {}}, "vectorIndexType": "hnsw", "vectorIndexConfig": options}

    def _send(self, batch: pa.RecordBatch, columns: Collection[str]) -> int:
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        waiting = list(_objects(batch, columns))
        reason = ""
        for tries in range(TRIES):
            time.sleep(tries and 0.2 * 2**tries)
            try:
                with self._server.translated_errors():
                    errors = self._collection().data.insert_many(waiting).errors
            except ContractError as error:
                # The client raises if every row is refused, and returns errors if some are.
                if not isinstance(error.__cause__, WeaviateInsertManyAllFailedError):
                    raise
                reason = error.__cause__.message
                continue
            if not errors:
                return batch.num_rows
            reason = next(iter(errors.values())).message
            waiting = [waiting[index] for index in sorted(errors)]
        raise ContractError(
            f"Weaviate refuses {len(waiting)} rows of {self.collection} after {TRIES} tries; the first: {reason}"
        )

    def _nearest(self, query: Vector, k: int, filters: Filters, space: str) -> Ranked:
        condition = self._narrowed(filters)

        def search(limit: int) -> Ranked:
            response = self._collection().query.near_vector(
                query.tolist(), target_vector=space, limit=min(limit, MOST), filters=condition, **_metadata_only("distance")
            )
            pairs = ((str(row.uuid), -float(row.metadata.distance)) for row in response.objects)
            return [pair for pair in pairs if math.isfinite(pair[1])]  # a filter lets rows without a vector through

        try:
            with self._querying():
                return [(name, -score) for name, score in first(search, k)]
        except ContractError as error:
            raise ContractError(
                f"{self.collection} has no vectors '{space}' of length {query.shape[-1]}; refresh after changing models "
                f"({error.message})"
            ) from error

    def _read(self, evidence_ids: Sequence[str], **returned: Any) -> Iterator[Any]:
        for batch in batched(filter(_is_uuid, dict.fromkeys(evidence_ids)), _IDS_A_QUERY):
            with self._querying():
                objects = self._collection().query.fetch_objects_by_ids(batch, limit=len(batch), **returned).objects
            yield from objects


@functools.lru_cache(maxsize=16)
def _collection_object(client: Any, collection: str) -> Any:
    """Return the client's collection object, cached since making it takes a twentieth of a search."""
    return client.collections.use(collection)


def _property(column: "pa.Field[Any]") -> dict[str, Any]:
    """Return the server's property for a column: terms for BM25, whole values for filters."""
    kind = _stored_type(column.type)
    inner = kind.value_type if isinstance(kind, pa.ListType | pa.FixedSizeListType) else kind
    configuration: dict[str, Any] = {
        "name": column.name,
        "dataType": [_data_type(inner) + ("[]" if inner is not kind else "")],
    }
    if isinstance(inner, pa.StructType):
        configuration["nestedProperties"] = [_property(inner.field(index)) for index in range(inner.num_fields)]
    if inner == pa.string():
        searched = is_terms(column.name)
        configuration |= {"tokenization": "whitespace" if searched else "field", "indexSearchable": searched}
    is_filterable = column.name in _FILTERABLE or column.name.startswith(field_column(""))
    return configuration | {"indexFilterable": is_filterable}


_CELLS = "cells"
"""The server has no lists of lists: a row of a table is an object with its cells."""


def _is_table(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.ListType) and isinstance(kind.value_type, pa.ListType)


def _stored_type(kind: Any) -> Any:
    """Return the type that the server stores instead of a list of lists."""
    return pa.list_(pa.struct([(_CELLS, kind.value_type)])) if _is_table(kind) else kind


def _data_type(kind: pa.DataType) -> str:
    if isinstance(kind, pa.StructType):
        return "object"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "text" if kind == pa.string() else "int" if pa.types.is_integer(kind) else "number"


def _objects(batch: pa.RecordBatch, columns: Collection[str]) -> Iterator[Any]:
    from weaviate.classes.data import DataObject

    spaces = [name.removeprefix("vector_") for name in batch.schema.names if name.startswith("vector_")]
    vectors = {space: batch.column(f"vector_{space}").to_pylist() for space in spaces}
    rows = batch.select([name for name in batch.schema.names if name in columns]).to_pylist()
    added = added_columns(batch, [field for field in batch.schema.names if terms_column(field) in columns])
    tables = [field.name for field in batch.schema if field.name in columns and _is_table(field.type)]
    for index, row in enumerate(rows):
        added_values = {name: values[index] for name, values in added.items()}
        added_values |= {name: [{_CELLS: cells} for cells in row[name]] for name in tables if row[name] is not None}
        yield DataObject(
            properties={name: value for name, value in (row | added_values).items() if value is not None},
            uuid=row["evidence_id"],
            vector={space: column[index] for space, column in vectors.items() if column[index] is not None},
        )


@functools.cache
def _metadata_only(score: str) -> dict[str, Any]:
    from weaviate.classes.query import MetadataQuery

    return {"return_metadata": MetadataQuery(**{score: True}), "return_properties": False}


@functools.cache
def _returned_properties() -> list[Any]:
    from weaviate.classes.query import QueryNested

    kinds = {column.name: _stored_type(column.type) for column in EVIDENCE}
    return [
        QueryNested(name=name, properties=[inner.name for inner in kind.value_type])
        if isinstance(kind, pa.ListType) and isinstance(kind.value_type, pa.StructType)
        else name
        for name, kind in kinds.items()
    ]


def _row(properties: Mapping[str, Any]) -> dict[str, object]:
    """Return a row as it was written, though the server stores empty lists as null."""
    row: dict[str, Any] = {
        column.name: properties.get(column.name)
        if column.nullable
        else properties.get(column.name) or _empty_value(column.type)
        for column in EVIDENCE
    }
    tables = {column.name: row[column.name] for column in EVIDENCE if _is_table(column.type) and row[column.name]}
    return row | {name: [line[_CELLS] for line in lines] for name, lines in tables.items()}


def _empty_value(kind: pa.DataType) -> object:
    return "" if kind == pa.string() else 0 if pa.types.is_integer(kind) else []


def _predicate(filters: Filters) -> Any:
    from weaviate.classes.query import Filter

    parts = [_condition(condition, operand) for condition, operand in filters.conditions()]
    return Filter.all_of(parts) if parts else None


def _condition(condition: Condition, operand: Any) -> Any:
    from weaviate.classes.query import Filter

    if condition.column == "evidence_id":
        # No row has the id of zeros, so ids that are all unknown match nothing.
        return Filter.by_id().contains_any([name for name in operand if _is_uuid(name)] or [_NO_ROW])
    column = Filter.by_property(condition.column)
    match condition.holds:
        case "shares" | "any":
            return column.contains_any([encodable(text) if isinstance(text, str) else text for text in operand])
        case "is":
            return column.equal(operand)
        case ">=":
            return column.greater_or_equal(operand)
        case "<=":
            return column.less_or_equal(operand)
        case ">":
            return column.greater_than(operand)
        case "<":
            return column.less_than(operand)
        case "valid":
            is_valid = column.equal(val=False)
            return Filter.any_of([is_valid, _of_documents(operand)]) if operand else is_valid
        case "allows":
            return _may_be_seen(operand)


def _may_be_seen(allowed: Allowed) -> Any:
    from weaviate.classes.query import Filter

    document, conditions = Filter.by_property("doc_id"), []
    if allowed.principals:
        carries = Filter.by_property(ACCESS).contains_any([*map(encodable, allowed.principals)])
        conditions.append(
            Filter.all_of([carries, document.contains_none([*allowed.changed])]) if allowed.changed else carries
        )
    if allowed.allowed:
        conditions.append(document.contains_any([*allowed.allowed]))
    # No row has the id of zeros.
    return Filter.any_of(conditions) if conditions else Filter.by_id().equal(_NO_ROW)


def _of_documents(doc_ids: Sequence[str]) -> Any:
    from weaviate.classes.query import Filter

    return Filter.by_property("doc_id").contains_any([*doc_ids])


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
