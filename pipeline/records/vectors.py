"""Vectors of texts, kept under the key of the model that made them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import ShardedCache
from schemas.ports import ObjectStore
from tasks.enriching.embed import text_id


def vector_cache(store: ObjectStore, vectors_key: str, dimension: int) -> ShardedCache:
    """Open the cache of text vectors; ``id`` is ``tasks.enriching.embed.text_id`` of the text."""
    vector = pa.field("vector", pa.list_(pa.float32(), dimension), nullable=False)
    schema = pa.schema((pa.field("id", pa.string(), nullable=False), vector))
    return ShardedCache(store, f"vectors/text/{vectors_key}", schema)


def text_vectors(workspace: Workspace) -> ShardedCache:
    """Open the cache of the vectors that the corpus's own text model makes."""
    return vector_cache(workspace.store, workspace.keys.vectors, workspace.text_model.dimension or 0)


def vectors_of(vectors: ShardedCache, texts: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the cached vector of each text, one a row.

    Raises:
        DamagedError: A text has none.
    """
    names = [text_id(text) for text in texts]
    found = vectors.read(sorted(set(names)))
    places = {name: place for place, name in enumerate(found.column("id").to_pylist())}
    if absent := [name for name in names if name not in places]:
        raise vectors.lacking(len(absent))
    dimension = vectors.schema.field("vector").type.list_size
    matrix = np.asarray(pc.list_flatten(found.column("vector")), np.float32).reshape(-1, dimension)
    return matrix[[places[name] for name in names]]
