"""Remove what no kept version needs: old versions, objects, and records of caches.

Versions say what they need: their ledgers, placements, rows and keys. Everything else below the corpus's root is finished work
of versions that are gone, or of a refresh that died; the next refresh does such work again where it wants it.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.assemble import read_evidence
from pipeline.build import search_texts
from pipeline.cache import ShardedCache
from pipeline.enrich import vector_cache
from pipeline.lease import holding, release
from pipeline.plan import read_ledger
from pipeline.publication import read_manifest
from pipeline.retain import doomed, sweep
from pipeline.stages import version_file
from pipeline.workspace import Report, Workspace, silent
from ray_jobs.documents import parsed_folder, structured_folder
from schemas.documents import Recognised, Segmented
from schemas.parquet import from_parquet, schema_of
from schemas.versions import Manifest, PruneResult, Status
from tasks.embed import text_id

_PRUNABLE = ("documents", "figures", "parsed", "structured", "tagged", "recognised", "vectors", "quarantine")


@dataclass
class _Needs:
    """What kept versions need: objects by name, whole folders, and records of caches by folder."""

    objects: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    records: dict[str, set[str]] = field(default_factory=dict)
    caches: dict[str, ShardedCache] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Say whether an object is needed; one of a needed cache is, whatever its records."""
        folder = name.rpartition("/")[0]
        return name in self.objects or folder in self.folders or folder in self.caches


def prune(workspace: Workspace, *, dry_run: bool, report: Report = silent) -> PruneResult:
    """Remove everything below the corpus's root that no kept version needs, or say what that would be.

    Kept are the live version, the one before it, those that the corpus file pins, the newest ones that it retains, and any
    that the engine's alias names. The lease is held meanwhile, so that no refresh makes what is being removed.

    Args:
        workspace: The corpus.
        dry_run: Remove nothing.
        report: Told of what is gone through.

    Raises:
        UserError: A refresh is running.
        TransientError: The engine doesn't answer.
    """
    store = workspace.store
    run_id = f"prune-{uuid.uuid4().hex[:12]}"
    with holding(store, run_id, tied_to_process=True):
        try:
            versions = doomed(workspace) if dry_run else sweep(workspace)
            needs = _needs(workspace, set(store.folders("versions")) - set(versions), report)
            objects = [name for kind in _PRUNABLE for name in store.names(kind) if not needs.holds(name)]
            records = {folder: _spare(cache, needs.records[folder]) for folder, cache in sorted(needs.caches.items())}
            if not dry_run:
                _remove(workspace, objects, needs, records, report)
        finally:
            release(store, run_id)
    return PruneResult(
        corpus=workspace.corpus.name,
        removed=not dry_run,
        versions=versions,
        objects=dict(Counter(name.partition("/")[0] for name in objects)),
        records={folder: count for folder, count in records.items() if count},
    )


def _needs(workspace: Workspace, versions: set[str], report: Report) -> _Needs:
    needs = _Needs()
    for done, version in enumerate(sorted(versions), 1):
        manifest = read_manifest(workspace.store, version)
        if manifest is not None:
            _add(workspace, manifest, needs)
        report("look", done, len(versions))
    return needs


def _add(workspace: Workspace, manifest: Manifest, needs: _Needs) -> None:
    store, keys, version = workspace.store, manifest.keys, manifest.version
    for row in read_ledger(store, version):
        if row.status is Status.INDEXED:
            needs.objects.add(f"documents/{row.doc_id}.pdf")
            needs.folders.add(parsed_folder(row.doc_id, keys["parse"]))
            needs.folders.add(structured_folder(row.doc_id, keys["structured"]))
    placements = from_parquet(store.get(version_file(version, "placements.parquet")))
    figures = {figure for figure in placements.column("figure_id").to_pylist() if figure is not None}
    needs.objects |= {f"figures/{figure}.png" for figure in figures}
    needs.objects |= {f"quarantine/{manifest.run_id}.parquet", *_tagged(workspace, version)}
    for name, noun in (("recognised", Recognised), ("segmented", Segmented)):
        if name in keys:
            folder = f"recognised/{keys[name]}"
            needs.records.setdefault(folder, set()).update(figures)
            needs.caches.setdefault(folder, ShardedCache(store, folder, schema_of(noun)))
    folder = f"vectors/text/{keys['vectors']}"
    needs.records.setdefault(folder, set()).update(map(text_id, search_texts(read_evidence(workspace, version))))
    dimension = manifest.models["text"].dimension or 0
    needs.caches.setdefault(folder, vector_cache(store, keys["vectors"], dimension))


def _tagged(workspace: Workspace, version: str) -> Iterator[str]:
    try:
        yield from json.loads(workspace.store.get(version_file(version, "tagged.json"))).values()
    except FileNotFoundError:
        return


def _spare(cache: ShardedCache, needed: set[str]) -> int:
    """Return how many records of a cache nobody needs."""
    return len(cache.ids() - needed)


def _remove(workspace: Workspace, objects: list[str], needs: _Needs, records: dict[str, int], report: Report) -> None:
    for done, name in enumerate(objects, 1):
        workspace.store.delete(name)
        report("remove", done, len(objects))
    for folder, count in records.items():
        if count:
            needs.caches[folder].keep(needs.records[folder])
