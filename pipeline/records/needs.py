"""What versions need of their corpus's store beside their own folders: what ``prune`` keeps and ``mirror`` copies."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from backends.stores.objects import read_names
from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.cache import ShardedCache
from pipeline.records.evidence import evidence_parts, figures_of, placement_parts
from pipeline.records.ledger import read_ledger
from pipeline.records.publication import read_manifest
from pipeline.records.quarantine import quarantine_file
from pipeline.records.vectors import open_vectors, passages
from ray_jobs.documents import HEAD, parsed_folder, structured_folder
from schemas.documents import Recognised, Segmented
from schemas.ids import figure_file, version_file
from schemas.parquet import schema_of
from schemas.versions import Manifest, Status


@dataclass
class Needs:
    """Objects by name, whole folders, and records of caches by folder."""

    objects: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    records: dict[str, set[str]] = field(default_factory=dict)
    caches: dict[str, ShardedCache] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Return whether an object is needed; one of a needed cache is, whatever its records."""
        folder = name.rpartition("/")[0]
        return name in self.objects or folder in self.folders or folder in self.caches


def needs_of(workspace: Workspace, versions: Iterable[str], report: Report = silent) -> Needs:
    """Return what finished versions need; one that was never finished needs nothing."""
    needs, named = Needs(), sorted(versions)
    for done, version in enumerate(named, 1):
        manifest = read_manifest(workspace.store, version)
        if manifest is not None:
            _add(workspace, manifest, needs)
        report("look", done, len(named))
    return needs


def _add(workspace: Workspace, manifest: Manifest, needs: Needs) -> None:
    store, keys, version = workspace.store, manifest.keys, manifest.version
    figures = add_objects(workspace, manifest, needs)
    for name, noun in (("recognised", Recognised), ("segmented", Segmented)):
        if name in keys:
            folder = f"recognised/{keys[name]}"
            needs.records.setdefault(folder, set()).update(figures)
            needs.caches.setdefault(folder, ShardedCache(store, folder, schema_of(noun)))
    spaces = open_vectors(store, manifest.spaces)
    for part in evidence_parts(store, version):
        rows = passages(part)
        for vectors in spaces:
            needs.records.setdefault(vectors.cache.folder, set()).update(vectors.contents(rows))
    for vectors in spaces:
        needs.caches.setdefault(vectors.cache.folder, vectors.cache)


def add_objects(workspace: Workspace, manifest: Manifest, needs: Needs) -> set[str]:
    """Add what a version needs by name or folder, records of caches left out; return its figures."""
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for row in read_ledger(store, version):
        if row.status is Status.INDEXED:
            folders = (parsed_folder(row.doc_id, keys["parse"]), structured_folder(row.doc_id, keys["structured"]))
            needs.folders |= set(folders)
            needs.objects |= {f"documents/{row.doc_id}.pdf", *(f"{folder}/{HEAD}" for folder in folders)}
    figures = {figure for part in placement_parts(store, version) for figure in figures_of(part)}
    needs.objects |= set(map(figure_file, figures))
    needs.objects |= {quarantine_file(manifest.run_id), *_tagged(workspace, version)}
    return figures


def _tagged(workspace: Workspace, version: str) -> Iterator[str]:
    try:
        yield from read_names(workspace.store, version_file(version, "tagged.json")).values()
    except FileNotFoundError:
        return
