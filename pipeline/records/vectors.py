"""The vectors of a version's spaces, cached under the key of their model."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.cache import RecordCache
from schemas.ports import ObjectStore, Vector
from schemas.versions import VectorSpace
from tasks.enriching.embed import EmbeddingInput
from tasks.enriching.spaces import SPACES, RowText, Space, searched_text
from tasks.versions.repeat import KEYED, keyed


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


@dataclass(frozen=True)
class SpaceVectors:
    """The cached vectors of a space; a record's ``id`` is that of the embedded content."""

    space: Space
    dimension: int
    cache: RecordCache

    @property
    def kind(self) -> pa.DataType:
        """Type of a row's vector, or of its list of vectors for late interaction."""
        vector = pa.list_(pa.float32(), self.dimension)
        return pa.list_(vector) if self.space.late else vector

    @property
    def column(self) -> "pa.Field[pa.DataType]":
        """Column of an index that holds them; null where a row has none."""
        return pa.field(f"vector_{self.space.name}", self.kind)

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
        indices: Any = pa.array(np.cumsum(counts) - 1, mask=counts == 0)
        return flat.take(indices)

    def of(self, rows: Iterable[RowText]) -> "pa.Array[Any]":
        """Return each row's vector; null where nothing of it is embedded.

        Raises:
            DamagedError: A vector is missing.
        """
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

    def expect(self, rows: Iterable[RowText]) -> None:
        """Add the next rows of the version."""
        names = self._vectors.names(rows)
        named_rows = [(row, name) for row, name in enumerate(names, self._rows) if name is not None]
        self._tables.add(self._named_rows, keyed([row for row, _ in named_rows], [name for _, name in named_rows]))
        self._rows += len(names)
        self._with_vectors += len(named_rows)

    def parts(self) -> Iterator[tuple[NDArray[np.int64], Vector, NDArray[np.int64]]]:
        """Yield row numbers, all their vectors, and the number for each row, in the order of the cache; a row may come twice.

        Raises:
            DamagedError: A vector is missing.
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
        """Return the norm of each row's vector (of several, the one furthest from 1), and 1 where it has none.

        Raises as ``parts`` does.
        """
        norms = np.ones(self._rows, np.float32)
        for rows, vectors, counts in self.parts():
            lengths = np.linalg.norm(vectors, axis=1)
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
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        dimension = self._vectors.dimension
        values = np.zeros((0, dimension), np.float32)
        if len(within):
            values = np.memmap(self._file, np.float32, "r").reshape(-1, dimension)[np.repeat(starts, counts) + within]
        return self._vectors.array(values, counts)


def open_vectors(store: ObjectStore, spaces: Mapping[str, VectorSpace]) -> list[SpaceVectors]:
    """Open the vector caches of a workspace's spaces, or of a manifest's; unknown spaces are left out."""
    return [
        _open_space(store, SPACES[name], vector_space.key, vector_space.model.dimension or 0)
        for name, vector_space in spaces.items()
        if name in SPACES
    ]


def _open_space(store: ObjectStore, space: Space, key: str, dimension: int) -> SpaceVectors:
    vector = pa.list_(pa.float32(), dimension)
    vector_field = pa.field("vector", pa.list_(vector) if space.late else vector, nullable=False)
    schema = pa.schema((pa.field("id", pa.string(), nullable=False), vector_field))
    return SpaceVectors(space, dimension, RecordCache(store, f"vectors/{space.name}/{key}", schema))
