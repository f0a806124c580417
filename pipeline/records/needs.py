"""What versions need of their corpus's store beside their own folders: what ``prune`` keeps and ``mirror`` copies."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.objects import read_names
from backends.stores.spill import PARTS, Spill
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import ShardedCache
from pipeline.records.descriptions import open_descriptions
from pipeline.records.evidence import evidence_parts, figures_of, page_rows, placement_parts
from pipeline.records.ledger import each_fate, read_fates
from pipeline.records.publication import read_manifest
from pipeline.records.quarantine import quarantine_file
from pipeline.records.shared import NeededObjects
from pipeline.records.subjects import names_described, open_drawn
from pipeline.records.vectors import open_vectors, passages
from ray_jobs.documents import HEAD, parsed_folder, structured_folder
from schemas.documents import Recognised, Segmented, drawn_page_id
from schemas.evidence import Modality
from schemas.ids import document_file, figure_file, version_file
from schemas.parquet import schema_of
from schemas.progress import Report, silent
from schemas.versions import Manifest, Status
from tasks.versions.repeat import KEYED


class NeededRecords:
    """Records of a cache that versions need, by name: very many, so they lie on disk.

    Args:
        cache: The cache.
        folder: A folder for it alone; whoever made it removes it.
    """

    def __init__(self, cache: ShardedCache, folder: Path) -> None:
        self.cache = cache
        self._folder = folder
        self._names = Spill(folder / "needed", _NAMES, "id")

    def add(self, names: Iterable[str]) -> None:
        """Name some; what is named twice counts once."""
        self._names.add(pa.table([list(names)], schema=_NAMES))

    def missing(self) -> int:
        """Return how many of them the cache lacks; no more can be added then."""
        there = self._put_aside("missing", self.cache)
        return sum(len(_without(self._names.part(number), there.part(number), "key").unique()) for number in range(PARTS))

    def spare(self) -> Iterator[str]:
        """Yield the records that the cache has beside them, each once; no more can be added then."""
        there = self._put_aside("spare", self.cache)
        for number in range(PARTS):
            found = there.part(number).rename_columns(["row", "id"])
            yield from map(str, _without(found, self._names.part(number), "id").unique().to_pylist())

    def not_in(self, other: ShardedCache) -> Iterator[pa.Table]:
        """Yield those that the cache has and another one lacks, a shard at a time; no more can be added then."""
        here, there = self._put_aside("here", self.cache), self._put_aside("there", other)
        wanted = np.zeros(here.rows, bool)
        for number in range(PARTS):
            rows, held = here.part(number), there.part(number)
            names = rows.column("key")
            needed = pc.is_in(names, self._names.part(number).column("id").combine_chunks())
            known = pc.is_in(names, held.column("key").combine_chunks())
            # Two shards may hold the same record.
            first = np.zeros(rows.num_rows, bool)
            first[np.unique(names.combine_chunks().dictionary_encode().indices.to_numpy(), return_index=True)[1]] = True
            wanted[rows.column("row").to_numpy()] = first & np.asarray(needed) & ~np.asarray(known)
        start = 0
        for shard in self.cache.shards():
            yield shard.filter(pa.array(wanted[start : start + shard.num_rows]))
            start += shard.num_rows

    def _put_aside(self, name: str, cache: ShardedCache) -> Spill:
        """Put aside the names of all records of a cache, with their places in its shards."""
        spill = Spill(self._folder / name, KEYED, "key")
        for names in cache.ids_by_shard():
            spill.add(pa.table([np.arange(spill.rows, spill.rows + len(names)), names], schema=KEYED))
        return spill


_NAMES = pa.schema((pa.field("id", pa.string(), nullable=False),))


def _without(table: pa.Table, others: pa.Table, key: str) -> Any:
    """Return the names in a table that another one lacks."""
    names = table.column("id").combine_chunks()
    return names.filter(pc.invert(pc.is_in(names, others.column(key).combine_chunks())))


@dataclass(frozen=True)
class Needs:
    """Objects, and records of caches by folder."""

    objects: NeededObjects
    records: dict[str, NeededRecords]


def needs_of(workspace: Workspace, versions: Iterable[str], folder: Path, report: Report = silent) -> Needs:
    """Return what finished versions need; one that was never finished needs nothing.

    Args:
        workspace: The corpus.
        versions: Their names.
        folder: A folder for it alone; whoever made it removes it.
        report: Called with versions looked at.
    """
    named = sorted(versions)
    records: dict[str, NeededRecords] = {}

    def needed(cache: ShardedCache) -> NeededRecords:
        if cache.folder not in records:
            records[cache.folder] = NeededRecords(cache, folder / f"records-{len(records)}")
        return records[cache.folder]

    def objects() -> Iterator[str]:
        for done, version in enumerate(named, 1):
            manifest = read_manifest(workspace.store, version)
            if manifest is not None:
                yield from objects_of(workspace, manifest)
                _add_records(workspace, manifest, needed)
            report("look", done, len(named))

    return Needs(NeededObjects(objects(), folder / "objects"), records)


def _add_records(workspace: Workspace, manifest: Manifest, needed: Callable[[ShardedCache], NeededRecords]) -> None:
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for name, noun in (("recognised", Recognised), ("segmented", Segmented)):
        if name in keys:
            pictures = needed(ShardedCache(store, f"recognised/{keys[name]}", schema_of(noun)))
            for placements in placement_parts(store, version):
                pictures.add(figures_of(placements))
    for captions in manifest.captioners.values():
        described = needed(open_descriptions(store, captions.key))
        for part in evidence_parts(store, version):
            described.add(names_described(captions.subject, part))
    if "drawn" in keys and manifest.counts.rows_by_modality.get(Modality.PAGE):
        drawn = needed(open_drawn(store, keys["drawn"]))
        for part in evidence_parts(store, version):
            drawn.add(drawn_page_id(doc_id, page) for doc_id, page, _ in page_rows(part))
    embedded = [(vectors, needed(vectors.cache)) for vectors in open_vectors(store, manifest.spaces)]
    for part in evidence_parts(store, version):
        rows = passages(part)
        for vectors, names in embedded:
            names.add(vectors.contents(rows))


def objects_of(workspace: Workspace, manifest: Manifest) -> Iterator[str]:
    """Yield what a version needs by name, and by the name of a folder, which ends in "/"; a figure maybe more than once."""
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for row in each_fate(read_fates(store, version)):
        if row.status is Status.INDEXED:
            folders = (parsed_folder(row.doc_id, keys["parse"]), structured_folder(row.doc_id, keys["structured"]))
            yield document_file(row.doc_id)
            yield from chain.from_iterable((f"{folder}/", f"{folder}/{HEAD}") for folder in folders)
    for part in placement_parts(store, version):
        yield from map(figure_file, sorted(figures_of(part)))
    if manifest.counts.rows_by_modality.get(Modality.PAGE):
        for part in evidence_parts(store, version):
            yield from (figure_file(picture) for _, _, picture in page_rows(part))
    yield quarantine_file(manifest.run_id)
    try:
        yield from read_names(store, version_file(version, "tagged.json")).values()
    except FileNotFoundError:
        return
