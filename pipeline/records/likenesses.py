"""Which figures look nearly the same, so that one description serves them all: only where the corpus file asks for it."""

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from backends.models.perceptual_hash import HASH_VERSION, perceptual_hash
from pipeline.corpus.captioners import CaptionerInUse
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import ShardedCache
from schemas.generation import Likeness
from schemas.ids import figure_file, key, raised
from schemas.parquet import rows_of, schema_of, table_of
from tasks.enriching.near_duplicates import NEAR_DUPLICATES_VERSION, near_duplicates

_FETCHES_AT_ONCE = 8


class Likenesses:
    """The figures that a captioner is asked about, each with the one that stands for it.

    What was decided once stays, so that a description that was paid for isn't another figure's tomorrow.

    Args:
        workspace: The corpus.
        used: The captioner.
    """

    def __init__(self, workspace: Workspace, used: CaptionerInUse) -> None:
        self._store = workspace.store
        # Pages of one layout look alike, whatever they say.
        self._bits = workspace.corpus.captions.near_duplicates if used.subject == "figure" else None
        self._cache = likeness_cache(workspace, used)

    def compare(self, figures: Iterable[str]) -> None:
        """Look at figures that were never looked at; each is given to one that stands already, where one is near enough."""
        fresh = self._cache.missing(figures) if self._bits is not None else []
        if self._bits is None or not fresh:
            return
        known = [look for shard in self._cache.shards() for look in rows_of(Likeness, shard) if look.stand_in == look.id]
        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as threads:
            hashes = dict(zip(fresh, threads.map(self._hash, fresh), strict=True))
        # Sorted by name, those that stand already come first.
        named = {f"0{look.id}": int(look.hash, 16) for look in known}
        named |= {f"1{name}": value for name, value in hashes.items()}
        stand_ins = near_duplicates(named, self._bits)
        made = [
            Likeness(name, f"{value:016x}", stand_ins.get(f"1{name}", f"1{name}")[1:]) for name, value in hashes.items()
        ]
        self._cache.append(table_of(Likeness, made))

    def of(self, figures: Collection[str]) -> dict[str, str]:
        """Return the figure that stands for each; itself where none was found."""
        if self._bits is None:
            return dict(zip(figures, figures, strict=True))
        found = {look.id: look.stand_in for look in rows_of(Likeness, self._cache.read([*figures]))}
        return {name: found.get(name, name) for name in figures}

    def _hash(self, figure_id: str) -> int:
        return perceptual_hash(self._store.get(figure_file(figure_id)))


def likeness_cache(workspace: Workspace, used: CaptionerInUse) -> ShardedCache:
    """Open the cache of what a captioner's figures look like, and how near is near enough."""
    bits = workspace.corpus.captions.near_duplicates
    # Whose description serves whom stays as it was decided: hashes count once they are made otherwise.
    made = key(captions=used.captions.key, bits=bits, step=NEAR_DUPLICATES_VERSION, **raised(hashes=HASH_VERSION))
    return ShardedCache(workspace.store, f"likenesses/{made}", schema_of(Likeness))
