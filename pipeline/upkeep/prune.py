"""Remove what no kept version needs: old versions, objects, and records of caches.

Versions say what they need: their ledgers, placements, rows and keys. Everything else below the corpus's root is finished work
of versions that are gone, or of a refresh that died; the next refresh does such work again where it wants it.
"""

import uuid
from collections import Counter

from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.cache import ShardedCache
from pipeline.records.lease import holding, release
from pipeline.records.needs import Needs, needs_of
from pipeline.upkeep.retain import doomed, sweep
from schemas.versions import PruneResult

_PRUNABLE = ("documents", "figures", "parsed", "structured", "tagged", "recognised", "vectors", "quarantine")


def prune(workspace: Workspace, *, dry_run: bool, report: Report = silent) -> PruneResult:
    """Remove everything below the corpus's root that no kept version needs, or say what that would be.

    Kept are the live version, the one before it, those that the corpus file pins, the newest ones that it retains, and any
    that the engine's alias names. The lease is held meanwhile, so that no refresh makes what is being removed.

    Args:
        workspace: The corpus.
        dry_run: Remove nothing.
        report: Called with what is gone through.

    Raises:
        UserError: A refresh is running.
        TransientError: The engine doesn't answer.
    """
    store = workspace.store
    run_id = f"prune-{uuid.uuid4().hex[:12]}"
    with holding(store, run_id, tied_to_process=True):
        try:
            versions = doomed(workspace) if dry_run else sweep(workspace)
            needs = needs_of(workspace, set(store.folders("versions")) - set(versions), report)
            objects = [name for kind in _PRUNABLE for name in store.names(kind) if not needs.holds(name)]
            halves = store.abandoned("")
            records = {folder: _spare(cache, needs.records[folder]) for folder, cache in sorted(needs.caches.items())}
            if not dry_run:
                _remove(workspace, [*objects, *halves], needs, records, report)
        finally:
            release(store, run_id)
    return PruneResult(
        corpus=workspace.corpus.name,
        removed=not dry_run,
        versions=versions,
        objects=dict(Counter([*(name.partition("/")[0] for name in objects), *["half written"] * len(halves)])),
        records={folder: count for folder, count in records.items() if count},
    )


def _spare(cache: ShardedCache, needed: set[str]) -> int:
    """Return how many records of a cache nobody needs."""
    return len(cache.ids() - needed)


def _remove(workspace: Workspace, objects: list[str], needs: Needs, records: dict[str, int], report: Report) -> None:
    for done, name in enumerate(objects, 1):
        workspace.store.delete(name)
        report("remove", done, len(objects))
    for folder, count in records.items():
        if count:
            needs.caches[folder].keep(needs.records[folder])
