"""The vectors of a version's spaces, each in a cache under the key of the model that made them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.stores.spill import PARTS, Spill
from pipeline.records.cache import ShardedCache
from schemas.ports import ObjectStore, Vector
from schemas.versions import VectorSpace
from tasks.enriching.embed import text_id
from tasks.enriching.spaces import SPACES, Passage, Space
from tasks.versions.repeat import KEYED, keyed


def passages(evidence: pa.Table) -> list[Passage]:
    """Return what of each row can be embedded."""
    columns = (evidence.column(name).to_pylist() for name in Passage._fields)
    return [Passage(*row) for row in zip(*columns, strict=True)]


def passage_of(row: Mapping[str, Any]) -> Passage:
    """Return what of a row can be embedded."""
    return Passage(*(row[name] for name in Passage._fields))


@dataclass(frozen=True)
class SpaceVectors:
    """The vectors of a space that one model makes; a record's ``id`` is ``text_id`` of what was embedded."""

    space: Space
    dimension: int
    cache: ShardedCache

    @property
    def column(self) -> "pa.Field[pa.DataType]":
        """The column of an index that holds them; null where a row has none."""
        return pa.field(f"vector_{self.space.name}", pa.list_(pa.float32(), self.dimension))

    def contents(self, rows: Iterable[Passage]) -> dict[str, str]:
        """Return what is embedded of rows, by the names of the records that hold the vectors."""
        return {text_id(content): content for row in rows if (content := self.space.content(row)) is not None}

    def of(self, rows: Iterable[Passage]) -> tuple[Vector, NDArray[np.bool_]]:
        """Return a vector a row, shape ``(rows, dimension)``, and which rows have one; the others are zero.

        Raises:
            DamagedError: A row that has one lacks it.
        """
        contents = [self.space.content(row) for row in rows]
        names = [None if content is None else text_id(content) for content in contents]
        wanted = {name for name in names if name is not None}
        found = self.cache.read(sorted(wanted))
        places = {name: place for place, name in enumerate(found.column("id").to_pylist())}
        if absent := wanted - places.keys():
            raise self.cache.lacking(len(absent))
        known = np.asarray(pc.list_flatten(found.column("vector")), np.float32).reshape(-1, self.dimension)
        here = np.array([name is not None for name in names], bool)
        vectors = np.zeros((len(names), self.dimension), np.float32)
        vectors[here] = known[[places[name] for name in names if name is not None]]
        return vectors, here


class VectorJoin:
    """The vectors of a version's rows in one space, which lie in their cache in any order: joined on disk, part by part.

    Args:
        folder: A folder for it alone; whoever made it removes it.
        vectors: Where they are.
    """

    def __init__(self, folder: Path, vectors: SpaceVectors) -> None:
        self._wanted = Spill(folder / "wanted", KEYED, "key")
        self._vectors, self._folder = vectors, folder
        self._rows = 0

    @property
    def name(self) -> str:
        """The name of the space."""
        return self._vectors.space.name

    def want(self, rows: Iterable[Passage]) -> None:
        """Name the next rows of the version."""
        contents = [self._vectors.space.content(row) for row in rows]
        wanted = [(row, text_id(text)) for row, text in enumerate(contents, self._rows) if text is not None]
        self._wanted.add(keyed([row for row, _ in wanted], [name for _, name in wanted]))
        self._rows += len(contents)

    def parts(self) -> Iterator[tuple[NDArray[np.int64], Vector]]:
        """Yield places of rows with a vector each, in no particular order; a row that isn't embedded here has none.

        Raises:
            DamagedError: A row that has one lacks it.
        """
        held = Spill(self._folder / "held", self._vectors.cache.schema, "id")
        for shard in self._vectors.cache.shards():
            held.add(shard)
        lacking = 0
        for number in range(PARTS):
            wanted, found = self._wanted.part(number), held.part(number)
            places = pc.index_in(wanted.column("key"), found.column("id").combine_chunks())
            lacking += places.null_count
            if wanted.num_rows and not lacking:
                known = np.asarray(pc.list_flatten(found.column("vector")), np.float32).reshape(-1, self._vectors.dimension)
                yield wanted.column("row").to_numpy(), known[places.to_numpy()]
        if lacking:
            raise self._vectors.cache.lacking(lacking)

    def norms(self) -> NDArray[np.float32]:
        """Return the length of each row's vector, 1 where it has none: four bytes a row. Raises as ``parts`` does."""
        norms = np.ones(self._rows, np.float32)
        for rows, vectors in self.parts():
            norms[rows] = np.linalg.norm(vectors, axis=1)
        return norms

    def settle(self) -> None:
        """Bring the vectors into the order of the rows, for ``read``; raises as ``parts`` does."""
        self._here = np.zeros(self._rows, bool)
        with self._file.open("wb") as file:
            file.truncate(self._rows * self._bytes)
            for rows, vectors in self.parts():
                self._here[rows] = True
                for row, vector in zip(rows.tolist(), vectors, strict=True):
                    file.seek(row * self._bytes)
                    file.write(vector.tobytes())

    def read(self, start: int, stop: int) -> tuple[Vector, NDArray[np.bool_]]:
        """Return a vector a row, shape ``(rows, dimension)``, and which rows have one; the others are zero."""
        count = (stop - start) * self._vectors.dimension
        vectors = np.fromfile(self._file, np.float32, count, offset=start * self._bytes)
        return vectors.reshape(-1, self._vectors.dimension), self._here[start:stop]

    @property
    def _file(self) -> Path:
        return self._folder / "vectors"

    @property
    def _bytes(self) -> int:
        return self._vectors.dimension * np.dtype(np.float32).itemsize


def open_vectors(store: ObjectStore, spaces: Mapping[str, VectorSpace]) -> list[SpaceVectors]:
    """Open the caches of a workspace's spaces, or of a manifest's.

    A space that no release of today knows is left out: nothing asks for it.
    """
    return [
        _opened(store, SPACES[name], made.key, made.model.dimension or 0) for name, made in spaces.items() if name in SPACES
    ]


def _opened(store: ObjectStore, space: Space, key: str, dimension: int) -> SpaceVectors:
    vector = pa.field("vector", pa.list_(pa.float32(), dimension), nullable=False)
    schema = pa.schema((pa.field("id", pa.string(), nullable=False), vector))
    return SpaceVectors(space, dimension, ShardedCache(store, f"vectors/{space.name}/{key}", schema))
