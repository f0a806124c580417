"""A version's vectors, and its collection in its engine: fill, derive, read back."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.stores.objects import unless_damaged
from backends.stores.temporary_tables import KEYED, TemporaryTables, keyed
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.differences import Difference
from pipeline.records.manifests import check_index_files
from schemas.base import batched
from schemas.evidence import EVIDENCE
from schemas.filters import Filters
from schemas.gates import EXAMPLES, GateResult
from schemas.ports import ObjectStore, SearchIndex, Vector
from schemas.stages import Report, silent
from schemas.versions import Manifest, VectorSpace
from tasks.enriching.spaces import SPACES, EmbeddingInput, RowText, Space, searched_text


def passages(evidence: pa.Table) -> list[RowText]:
    """Return the embeddable content of each row."""
    columns = (evidence.column(name).to_pylist() for name in RowText._fields)
    return [RowText(*row) for row in zip(*columns, strict=True)]


def search_texts(evidence: pa.Table) -> list[str]:
    """Return the text of each row that BM25 and text models search."""
    return [searched_text(row) for row in passages(evidence)]


def passage_of(row: Mapping[str, Any]) -> RowText:
    """Return the embeddable content of a row."""
    return RowText(*(row[name] for name in RowText._fields))


class SpaceVectors:
    """The cached vectors of a space; a record's ``id`` is that of the embedded content.

    ``column`` is that of an index: a row's vector, or its list of vectors for late interaction; null where it has none.
    """

    def __init__(self, store: ObjectStore, space: Space, key: str, dimension: int) -> None:
        vector = pa.list_(pa.float32(), dimension)
        kind: pa.DataType = pa.list_(vector) if space.late else vector
        fields = pa.field("id", pa.string(), nullable=False), pa.field("vector", kind, nullable=False)
        self.space, self.dimension, self.column = space, dimension, pa.field(f"vector_{space.name}", kind)
        self.cache = RecordCache(store, f"vectors/{space.name}/{key}", pa.schema(fields))

    def contents(self, rows: Iterable[RowText]) -> dict[str, EmbeddingInput]:
        """Return the embeddable contents of rows, by record id."""
        return {content.id: content for row in rows if (content := self.space.content(row)) is not None}

    def names(self, rows: Iterable[RowText]) -> list[str | None]:
        """Return each row's record id; None where nothing of it is embedded."""
        contents = [self.space.content(row) for row in rows]
        return [None if content is None else content.id for content in contents]

    def records(self, vectors: Mapping[str, Vector]) -> pa.Table:
        """Return vectors by record id as records of the cache; for late interaction each is ``(n, dimension)``."""
        values = np.concatenate([np.empty((0, self.dimension), np.float32), *map(np.atleast_2d, vectors.values())])
        column = self.array(values, np.array([len(np.atleast_2d(vector)) for vector in vectors.values()], np.int64))
        return pa.table([pa.array(list(vectors), pa.string()), column], schema=self.cache.schema)

    def array(self, values: Vector, counts: NDArray[np.int64]) -> "pa.Array[Any]":
        """Return a column of vectors, ``counts`` a row, in order; null where the count is 0."""
        flat = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), self.dimension)
        if self.space.late:
            ends: Any = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
            many: pa.Array[Any] = pa.ListArray.from_arrays(ends, flat, mask=pa.array(counts == 0))
            return many
        # Each row has one vector or none, so the vectors up to a row, less one, are the index of its own.
        indices: Any = pa.array(np.cumsum(counts) - 1, mask=counts == 0)
        return flat.take(indices)

    def of(self, rows: Iterable[RowText]) -> "pa.Array[Any]":
        """Return each row's vector, null where nothing of it is embedded; raises ``TransientError`` where one is missing."""
        names = pa.array(self.names(rows), pa.string())
        record_ids = names.drop_null().unique()
        records = self.cache.read([str(name) for name in record_ids.to_pylist()])
        if absent := len(record_ids) - records.num_rows:
            raise self.cache.missing_records(absent)
        indices = pc.index_in(names, records.column("id").combine_chunks())
        return records.column("vector").combine_chunks().take(indices)


def flattened(column: "pa.Array[Any]", dimension: int) -> tuple[Vector, NDArray[np.int64]]:
    """Return all vectors of a column without nulls, shape ``(n, dimension)``, and their number for each row."""
    if isinstance(column.type, pa.FixedSizeListType):
        counts = np.ones(len(column), np.int64)
    else:
        counts = np.asarray(pc.list_value_length(column), np.int64)
        column = pc.list_flatten(column)
    return np.asarray(pc.list_flatten(column), np.float32).reshape(-1, dimension), counts


_RECORD = pa.schema((pa.field("id", pa.string(), nullable=False), pa.field("position", pa.int64(), nullable=False)))


class VectorJoin:
    """Joins a version's rows with their vectors in one space, shard by shard of the cache."""

    def __init__(self, tables: TemporaryTables, vectors: SpaceVectors) -> None:
        self._vectors, self._tables = vectors, tables
        self._file = tables.folder / f"{vectors.space.name}.vectors"
        self._named_rows, self._shard = f"wanted_{vectors.space.name}", f"shard_{vectors.space.name}"
        self._rows = self._with_vectors = 0
        tables.create(self._named_rows, KEYED)

    @property
    def name(self) -> str:
        """The name of the space."""
        return self._vectors.space.name

    def expect(self, names: Sequence[str | None]) -> None:
        """Add the next rows of the version, by the names of their vectors."""
        named_rows = [(row, name) for row, name in enumerate(names, self._rows) if name is not None]
        self._tables.add(self._named_rows, keyed([row for row, _ in named_rows], [name for _, name in named_rows]))
        self._rows += len(names)
        self._with_vectors += len(named_rows)

    def parts(self) -> Iterator[tuple[NDArray[np.int64], Vector, NDArray[np.int64]]]:
        """Yield row numbers, all their vectors, and the number for each row, as the cache has them; a row may come twice.

        Raises ``TransientError`` where a vector is missing.
        """
        has_vector = np.zeros(self._rows, bool)
        for shard in self._vectors.cache.shards() if self._with_vectors else ():
            if self._with_vectors == np.count_nonzero(has_vector):
                break  # new vectors are in the newest shards, which come first
            self._tables.create(self._shard, _RECORD)
            self._tables.add(self._shard, pa.table([shard.column("id"), np.arange(shard.num_rows)], schema=_RECORD))
            column = shard.column("vector").combine_chunks()
            query = f"SELECT row, position FROM {self._named_rows} JOIN {self._shard} ON key = id ORDER BY row"
            for hits in self._tables.query(query):
                rows = hits.column("row").to_numpy()
                has_vector[rows] = True
                yield rows, *flattened(column.take(hits.column("position").combine_chunks()), self._vectors.dimension)
        if missing_records := self._with_vectors - int(np.count_nonzero(has_vector)):
            raise self._vectors.cache.missing_records(missing_records)

    def norms(self) -> NDArray[np.float32]:
        """Return the norm of each row's vector (of several, the one furthest from 1), and 1 where it has none."""
        norms = np.ones(self._rows, np.float32)
        for rows, vectors, counts in self.parts():
            lengths = np.linalg.norm(vectors, axis=1)
            # Vectors of late interaction lie one behind the other; ``reduceat`` takes the extremes of each row's stretch.
            starts = np.cumsum(counts) - counts
            longest, shortest = np.maximum.reduceat(lengths, starts), np.minimum.reduceat(lengths, starts)
            norms[rows] = np.where(longest - 1 > 1 - shortest, longest, shortest)
        return norms

    def write(self) -> None:
        """Write the vectors to a file, for ``read``; raises as ``parts`` does."""
        self._starts, self._counts = np.zeros(self._rows, np.int64), np.zeros(self._rows, np.int64)
        vector_count = 0
        with self._file.open("wb") as file:
            for rows, vectors, counts in self.parts():
                file.write(vectors.tobytes())
                self._starts[rows], self._counts[rows] = vector_count + np.cumsum(counts) - counts, counts
                vector_count += len(vectors)

    def read(self, start: int, stop: int) -> "pa.Array[Any]":
        """Return the vectors of a range of rows; null where a row has none."""
        starts, counts = self._starts[start:stop], self._counts[start:stop]
        # The position of each vector in its row: for counts 2 and 3 it is 0, 1, 0, 1, 2.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        dimension = self._vectors.dimension
        values = np.zeros((0, dimension), np.float32)
        if len(within):
            values = np.memmap(self._file, np.float32, "r").reshape(-1, dimension)[np.repeat(starts, counts) + within]
        return self._vectors.array(values, counts)


def open_vectors(store: ObjectStore, spaces: Mapping[str, VectorSpace]) -> list[SpaceVectors]:
    """Open the vector caches of a workspace's spaces, or of a manifest's; unknown spaces are left out."""
    return [
        SpaceVectors(store, SPACES[name], vector_space.key, vector_space.model.dimension or 0)
        for name, vector_space in spaces.items()
        if name in SPACES
    ]


ROWS_A_BATCH, LATE_ROWS_A_BATCH = 1_000, 100
"""Rows in memory with their vectors. The second is for late interaction, where a page has some 400 KB of vectors."""

_FOUND_ROWS = 20
"""Changed rows of a collection that was brought forward which are searched for."""
_FOUND_CHARACTERS = 200
_DOCUMENTS_A_COUNT = 100

ENGINE_GATES = ("rows read back", "sample read back")
"""Gates that judge the engine and not the inputs: a version that they refuse is built again."""


def fill(
    index: SearchIndex,
    evidence: Callable[[], Iterable[pa.Table]],
    spaces: Sequence[SpaceVectors],
    fields: Iterable[str],
    report: Report = silent,
    columns: pa.Table | None = None,
) -> int:
    """Write rows and their vectors into a fresh collection, index it, and return the number of rows.

    ``columns`` are those that rows have by their document, as ``read_columns`` returns them.

    An existing collection is dropped first. ``evidence`` returns the rows in parts; it is called twice, since vectors come
    in another order. Raises ``TransientError`` where a row lacks a vector.
    """
    schema = _schema(spaces, columns)
    with TemporaryTables() as tables:
        joins = [VectorJoin(tables, vectors) for vectors in spaces]
        total = 0
        for part in evidence():
            rows = passages(part)
            total += len(rows)
            for join, vectors in zip(joins, spaces, strict=True):
                join.expect(vectors.names(rows))
        for join in joins:
            join.write()
        report("build", 0, total)

        def batches() -> Iterator[pa.RecordBatch]:
            stop = 0
            for part in evidence():
                for rows in _slices(part, spaces):
                    start, stop = stop, stop + rows.num_rows
                    yield from _record_batches(rows, (join.read(start, stop) for join in joins), schema, columns)
                    report("build", stop, total)

        # Only here is the existing collection dropped: a missing vector has raised in ``join.write`` before.
        index.create(schema, {vectors.space.name: vectors.dimension for vectors in spaces}, tuple(fields))
        index.add(batches())
    index.finish()
    return total


def derive(
    index: SearchIndex,
    earlier: SearchIndex,
    removed: Sequence[str],
    changed: Iterable[pa.Table],
    spaces: Sequence[SpaceVectors],
    fields: Iterable[str],
    columns: pa.Table | None = None,
) -> int | None:
    """Make a collection of an earlier version's, index it, and return the number of rows written.

    Rows of ``removed`` documents are left out; ``changed`` are the rows of changed and new documents, in parts, and
    ``columns`` is as for ``fill``. Returns
    None where the engine can't derive one from the other. Raises ``TransientError`` where a row lacks a vector.
    """
    schema = _schema(spaces, columns)
    if not index.derive(earlier, schema, tuple(fields), removed):
        return None

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in (rows for part in changed for rows in _slices(part, spaces)):
            embedded = passages(rows)
            yield from _record_batches(rows, (vectors.of(embedded) for vectors in spaces), schema, columns)

    row_count = index.add(batches())
    for vectors in spaces:
        vectors.cache.close()
    index.finish()
    return row_count


def is_forwarded(index: SearchIndex, difference: Difference, spaces: Sequence[SpaceVectors], rows: int) -> bool:
    """Return whether a collection that was brought forward has all rows, none of gone documents, and finds changed ones."""
    counts, sample = Counter[str](), list[dict[str, Any]]()
    for part in difference.changed_rows():
        counts.update(map(str, part.column("doc_id").to_pylist()))
        sample += part.slice(0, _FOUND_ROWS - len(sample)).to_pylist()
    for names in batched(sorted({*difference.removed, *counts}), _DOCUMENTS_A_COUNT):
        # A gone document must have 0 rows, and a changed one as many as it has now: a killed attempt may have left others.
        if index.count(names) != sum(counts[name] for name in names):
            return False
    return index.count() == rows and all(_is_found(index, row, spaces) for row in sample)


def _is_found(index: SearchIndex, row: Mapping[str, Any], spaces: Iterable[SpaceVectors]) -> bool:
    """Return whether a row is as it was written, and is found by its own words and vectors."""
    name, own_row_only = row["evidence_id"], Filters(evidence_ids=(row["evidence_id"],))
    if index.fetch([name]) != [row]:
        return False
    for vectors in spaces:
        vector = index.vectors([name], vectors.space.name).get(name)
        if (vector is None) != (vectors.space.content(passage_of(row)) is None):
            return False
        if vector is not None and not vectors.space.late and not index.dense(vector, 1, own_row_only, vectors.space.name):
            return False
    # BM25 can't find a row without letters or digits, such as a line of dashes.
    words = searched_text(passage_of(row))
    return not any(map(str.isalnum, words)) or bool(index.bm25(words[:_FOUND_CHARACTERS], 1, own_row_only))


def holds(workspace: Workspace, manifest: Manifest) -> bool:
    """Return whether the engine still has all rows of a version; raises ``TransientError`` where it doesn't answer."""

    def count() -> int:
        check_index_files(workspace, manifest.version)
        return workspace.index(manifest.version).count()

    return unless_damaged(count) == manifest.counts.rows


def read_back(index: SearchIndex, sample: Iterable[pa.Table], rows: int, spaces: Iterable[Space]) -> list[GateResult]:
    """Judge a collection by its count and a sample of its rows, compared value by value, of vectors only their presence."""
    counted = index.count()
    expected_rows = {row["evidence_id"]: row for part in sample for row in part.to_pylist()}
    names = list(expected_rows)
    stored_rows = {row["evidence_id"]: row for row in index.fetch(names)}
    differing = {name for name, row in expected_rows.items() if stored_rows.get(name) != row}
    for space in spaces:
        embedded = {name for name, row in expected_rows.items() if space.content(passage_of(row)) is not None}
        differing |= embedded ^ index.vectors(names, space.name).keys()
    differing_rows = [row for name, row in expected_rows.items() if name in differing]
    equal_count = len(expected_rows) - len(differing_rows)
    count, sampled = ENGINE_GATES
    summary = f"the engine returns {equal_count} of {len(expected_rows)} sampled rows as they were written"
    if differing_rows:
        pages = dict.fromkeys(f"{row['sources'][0]} page {row['page']}" for row in differing_rows)
        summary += f", but not those of {', '.join([*pages][:EXAMPLES])}"
    return [
        _engine_gate(count, counted, rows, f"the engine holds {counted} rows of {rows}"),
        _engine_gate(sampled, equal_count, len(expected_rows), summary),
    ]


def _engine_gate(gate: str, value: int, bound: int, summary: str) -> GateResult:
    passed = value == bound
    remedy = "" if passed else "; the next refresh builds it again; report it if this persists"
    return GateResult(gate=gate, passed=passed, value=value, bound=bound, message=f"{summary}{remedy}")


def _slices(part: pa.Table, spaces: Iterable[SpaceVectors]) -> Iterator[pa.Table]:
    size = LATE_ROWS_A_BATCH if any(vectors.space.late for vectors in spaces) else ROWS_A_BATCH
    return (part.slice(first, size) for first in range(0, part.num_rows, size))


def _record_batches(
    rows: pa.Table, vectors: Iterable["pa.Array[Any]"], schema: pa.Schema, columns: pa.Table | None
) -> list[pa.RecordBatch]:
    added: list[Any] = []
    if columns is not None:
        of_rows = pc.index_in(rows.column("doc_id").combine_chunks(), columns.column("doc_id").combine_chunks())
        added = columns.drop_columns(["doc_id"]).take(of_rows).columns
    return (
        pa.table([*rows.columns, pa.array(search_texts(rows)), *added, *vectors], schema=schema)
        .combine_chunks()
        .to_batches()
    )


def _schema(spaces: Iterable[SpaceVectors], columns: pa.Table | None) -> pa.Schema:
    added = [] if columns is None else [column for column in columns.schema if column.name != "doc_id"]
    return pa.schema([*EVIDENCE, pa.field("search_text", pa.string()), *added, *(vectors.column for vectors in spaces)])
