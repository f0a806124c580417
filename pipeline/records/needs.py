"""What versions need from the store beside their own folders: ``prune`` keeps it and ``mirror`` copies it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from backends.stores.document_files import parsed_file, structured_file
from backends.stores.objects import read_names
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.caption_targets import open_drawn, target_ids
from pipeline.records.descriptions import open_descriptions
from pipeline.records.evidence import evidence_parts, figures_of, page_rows, placement_parts
from pipeline.records.ledger import each_fate, read_fates
from pipeline.records.publication import read_manifest
from pipeline.records.quarantine import quarantine_file
from pipeline.records.row_parts import FOLDER, read_parts
from pipeline.records.vectors import open_vectors, passages
from schemas.batches import batched
from schemas.documents import Recognised, Segmented, drawn_page_id
from schemas.evidence import Modality
from schemas.ids import document_file, figure_file, version_file
from schemas.parquet import schema_of
from schemas.progress import Report, silent
from schemas.versions import Manifest, Status

KINDS = ("documents", "figures", "parsed", "structured", "tagged", "quarantine", FOLDER)
"""Folders of objects that versions share."""

_IDS = pa.schema((pa.field("id", pa.string(), nullable=False),))
_IDS_A_BATCH = 20_000


class NeededRecords:
    """Ids of a cache's records that versions need.

    ``number`` distinguishes it from others in the database.
    """

    def __init__(self, cache: RecordCache, tables: TemporaryTables, number: int = 0) -> None:
        self.cache = cache
        self._tables = tables
        self._needed = f"needed_records_{number}"
        tables.create(self._needed, _IDS)

    def add(self, names: Iterable[str]) -> None:
        """Add ids; duplicates don't matter."""
        for batch in batched(names, _IDS_A_BATCH):
            self._tables.add(self._needed, pa.table([batch], schema=_IDS))

    def missing(self) -> int:
        """Return how many of them the cache lacks."""
        self._load("held", self.cache)
        query = f"SELECT count(DISTINCT id) FROM {self._needed} ANTI JOIN held USING (id)"
        return int(next(self._tables.values(query)))

    def spare(self) -> Sequence[str]:
        """Return the ids of records that aren't needed, each once."""
        self._load("held", self.cache)
        return [*self._tables.values(f"SELECT DISTINCT id FROM held ANTI JOIN {self._needed} USING (id) ORDER BY id")]

    def not_in(self, other_cache: RecordCache) -> Iterator[pa.Table]:
        """Yield the needed records that another cache lacks, a shard at a time."""
        self._load("held", other_cache)
        missing_ids = set(self._tables.values(f"SELECT DISTINCT id FROM {self._needed} ANTI JOIN held USING (id)"))
        for shard in self.cache.shards():
            rows = []
            for row, name in enumerate(shard.column("id").to_pylist()):
                if name in missing_ids:  # two shards may hold the same record
                    missing_ids.remove(str(name))
                    rows.append(row)
            yield shard.take(pa.array(rows, pa.int64()))

    def _load(self, table: str, cache: RecordCache) -> None:
        self._tables.create(table, _IDS)
        for names in cache.ids_by_shard():
            self._tables.add(table, pa.table([names], schema=_IDS))


@dataclass(frozen=True)
class Needs:
    """Finished versions, and the cache records that they need, by folder."""

    workspace: Workspace
    manifests: Sequence[Manifest]
    records: dict[str, NeededRecords]

    def objects(self) -> Iterator[str]:
        """Yield the names of the shared objects that they need; one may come twice."""
        for manifest in self.manifests:
            yield from objects_of(self.workspace, manifest)


def needs_of(workspace: Workspace, versions: Iterable[str], tables: TemporaryTables, report: Report = silent) -> Needs:
    """Return what finished versions need; unfinished ones need nothing."""
    version_names = sorted(versions)
    manifests: list[Manifest] = []
    records: dict[str, NeededRecords] = {}

    def needed(cache: RecordCache) -> NeededRecords:
        if cache.folder not in records:
            records[cache.folder] = NeededRecords(cache, tables, len(records))
        return records[cache.folder]

    for read_count, version in enumerate(version_names, 1):
        manifest = read_manifest(workspace.store, version)
        if manifest is not None:
            manifests.append(manifest)
            _add_records(workspace, manifest, needed)
        report("read versions", read_count, len(version_names))
    return Needs(workspace, manifests, records)


def _add_records(workspace: Workspace, manifest: Manifest, needed: Callable[[RecordCache], NeededRecords]) -> None:
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for name, noun in (("recognised", Recognised), ("segmented", Segmented), ("searched_for_tables", Segmented)):
        if name in keys:
            pictures = needed(RecordCache(store, f"recognised/{keys[name]}", schema_of(noun)))
            for placements in placement_parts(store, version):
                pictures.add(figures_of(placements))
    for captions in manifest.captioners.values():
        described = needed(open_descriptions(store, captions.key))
        for part in evidence_parts(store, version):
            described.add(target_ids(captions.subject, part))
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
    """Yield the names of the shared objects that a version needs; a figure may come twice."""
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for row in each_fate(read_fates(store, version)):
        if row.status is Status.INDEXED:
            yield document_file(row.doc_id)
            yield parsed_file(row.doc_id, keys["parse"])
            yield structured_file(row.doc_id, keys["structured"])
    for part in placement_parts(store, version):
        yield from map(figure_file, sorted(figures_of(part)))
    if manifest.counts.rows_by_modality.get(Modality.PAGE):
        for part in evidence_parts(store, version):
            yield from (figure_file(picture) for _, _, picture in page_rows(part))
    if (parts := read_parts(store, version)) is not None:
        yield from parts.sizes()
    if store.exists(failures := quarantine_file(manifest.run_id)):  # an older version answers without
        yield failures
    try:
        yield from read_names(store, version_file(version, "tagged.json")).values()
    except FileNotFoundError:
        return
