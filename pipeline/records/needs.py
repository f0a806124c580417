"""What versions need of their corpus's store beside their own folders: what ``prune`` keeps and ``mirror`` copies."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from backends.stores.objects import read_names
from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.cache import ShardedCache
from pipeline.records.evidence import evidence_parts, figures_of, placement_parts
from pipeline.records.ledger import read_ledger_table, source_fates
from pipeline.records.publication import read_manifest
from pipeline.records.quarantine import quarantine_file
from pipeline.records.shared import NeededObjects
from pipeline.records.vectors import open_vectors, passages
from ray_jobs.documents import HEAD, parsed_folder, structured_folder
from schemas.documents import Recognised, Segmented
from schemas.ids import figure_file, version_file
from schemas.parquet import schema_of
from schemas.versions import Manifest, Status


@dataclass(frozen=True)
class Needs:
    """Objects, and records of caches by folder."""

    objects: NeededObjects
    records: dict[str, set[str]]
    caches: dict[str, ShardedCache]


def needs_of(workspace: Workspace, versions: Iterable[str], folder: Path, report: Report = silent) -> Needs:
    """Return what finished versions need; one that was never finished needs nothing.

    Args:
        workspace: The corpus.
        versions: Their names.
        folder: A folder for it alone; whoever made it removes it.
        report: Called with versions looked at.
    """
    named = sorted(versions)
    records: dict[str, set[str]] = {}
    caches: dict[str, ShardedCache] = {}

    def objects() -> Iterator[str]:
        for done, version in enumerate(named, 1):
            manifest = read_manifest(workspace.store, version)
            if manifest is not None:
                yield from objects_of(workspace, manifest)
                _add_records(workspace, manifest, records, caches)
            report("look", done, len(named))

    return Needs(NeededObjects(objects(), folder), records, caches)


def _add_records(
    workspace: Workspace, manifest: Manifest, records: dict[str, set[str]], caches: dict[str, ShardedCache]
) -> None:
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for name, noun in (("recognised", Recognised), ("segmented", Segmented)):
        if name in keys:
            folder = f"recognised/{keys[name]}"
            figures = records.setdefault(folder, set())
            for placements in placement_parts(store, version):
                figures |= figures_of(placements)
            caches.setdefault(folder, ShardedCache(store, folder, schema_of(noun)))
    spaces = open_vectors(store, manifest.spaces)
    for part in evidence_parts(store, version):
        rows = passages(part)
        for vectors in spaces:
            records.setdefault(vectors.cache.folder, set()).update(vectors.contents(rows))
    for vectors in spaces:
        caches.setdefault(vectors.cache.folder, vectors.cache)


def objects_of(workspace: Workspace, manifest: Manifest) -> Iterator[str]:
    """Yield what a version needs by name, and by the name of a folder, which ends in "/"; a figure maybe more than once."""
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for row in source_fates(read_ledger_table(store, version)):
        if row.status is Status.INDEXED:
            folders = (parsed_folder(row.doc_id, keys["parse"]), structured_folder(row.doc_id, keys["structured"]))
            yield f"documents/{row.doc_id}.pdf"
            yield from chain.from_iterable((f"{folder}/", f"{folder}/{HEAD}") for folder in folders)
    for part in placement_parts(store, version):
        yield from map(figure_file, sorted(figures_of(part)))
    yield quarantine_file(manifest.run_id)
    try:
        yield from read_names(store, version_file(version, "tagged.json")).values()
    except FileNotFoundError:
        return
