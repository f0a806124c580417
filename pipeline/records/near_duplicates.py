"""Figures that look nearly the same, so that one description serves them all; only where the corpus file asks for it."""

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from backends.models.perceptual_hash import HASH_VERSION, perceptual_hash
from pipeline.corpus.captioners import CaptionerInUse
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from schemas.generation import PictureHash
from schemas.ids import figure_file, key, raised
from schemas.parquet import rows_of, schema_of
from tasks.enriching.near_duplicates import NEAR_DUPLICATES_VERSION, near_duplicates

_FETCHES_AT_ONCE = 8
_FIGURES_AT_ONCE = 1_000
"""Figures that the threads get at once: each waiting figure is an object."""


class NearDuplicates:
    """For each figure that a captioner describes, the figure that stands in for it.

    A decision is never changed, so that a paid description keeps its figures.
    """

    def __init__(self, workspace: Workspace, captioner: CaptionerInUse) -> None:
        self._store = workspace.store
        # Pages of one layout look alike whatever they say.
        self._bits = workspace.corpus.captions.near_duplicates if captioner.subject == "figure" else None
        self._cache = near_duplicate_cache(workspace, captioner)

    def compare(self, figures: Iterable[str]) -> None:
        """Hash new figures, and assign each to a near stand-in where there is one."""
        new_figures = self._cache.missing(figures) if self._bits is not None else []
        if self._bits is None or not new_figures:
            return
        # The prefixes sort existing stand-ins first.
        hashes: dict[str, int] = {}
        for shard in self._cache.shards():
            stand_in_rows = shard.filter(pc.equal(shard.column("id"), shard.column("stand_in")))
            columns = (stand_in_rows.column(name).to_pylist() for name in ("id", "hash"))
            hashes.update((f"0{name}", int(value, 16)) for name, value in zip(*columns, strict=True))
        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as threads:
            for start in range(0, len(new_figures), _FIGURES_AT_ONCE):
                batch = new_figures[start : start + _FIGURES_AT_ONCE]
                hashes.update(zip((f"1{name}" for name in batch), threads.map(self._hash, batch), strict=True))
        stand_ins = near_duplicates(hashes, self._bits)
        values = [f"{hashes[f'1{name}']:016x}" for name in new_figures]
        stand_in_ids = [stand_ins.get(f"1{name}", f"1{name}")[1:] for name in new_figures]
        self._cache.append(pa.table([new_figures, values, stand_in_ids], schema=schema_of(PictureHash)))

    def of(self, figures: Collection[str]) -> dict[str, str]:
        """Return the stand-in of each figure, or itself."""
        if self._bits is None:
            return dict(zip(figures, figures, strict=True))
        stand_ins = {
            picture_hash.id: picture_hash.stand_in for picture_hash in rows_of(PictureHash, self._cache.read([*figures]))
        }
        return {name: stand_ins.get(name, name) for name in figures}

    def _hash(self, figure_id: str) -> int:
        return perceptual_hash(self._store.get(figure_file(figure_id)))


def near_duplicate_cache(workspace: Workspace, captioner: CaptionerInUse) -> RecordCache:
    """Open the cache of stand-ins of a captioner's figures."""
    bits = workspace.corpus.captions.near_duplicates
    cache_key = key(captions=captioner.captions.key, bits=bits, step=NEAR_DUPLICATES_VERSION, **raised(hashes=HASH_VERSION))
    return RecordCache(workspace.store, f"likenesses/{cache_key}", schema_of(PictureHash))
