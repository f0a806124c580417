"""The vectors of a version's spaces, each in a cache under the key of the model that made them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.records.cache import ShardedCache
from schemas.ports import ObjectStore, Vector
from schemas.versions import VectorSpace
from tasks.enriching.embed import text_id
from tasks.enriching.spaces import SPACES, Passage, Space


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
