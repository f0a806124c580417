"""Remove versions, objects and cache records that no kept version needs.

Everything else below the corpus's root is finished work of removed versions or of a dead refresh, and can be made again.
"""

from collections import Counter
from collections.abc import Sequence

from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import CACHES
from pipeline.records.descriptions import open_descriptions
from pipeline.records.lease import alone
from pipeline.records.retention import KINDS, needs_of, removable_versions
from pipeline.upkeep.retain import sweep
from schemas.ids import version_file
from schemas.reports import PruneResult
from schemas.stages import Report, silent


def prune(workspace: Workspace, *, dry_run: bool, report: Report = silent) -> PruneResult:
    """Remove everything below the corpus's root that no kept version needs, or list it; the lease is held meanwhile.

    Kept are the live version, the previous one, pinned ones, the newest ones by retention, any that the engine's alias
    names, and the one whose collection the next version takes over.
    """
    with alone(workspace.store, "prune"), TemporaryTables() as tables:
        return _prune(workspace, tables, dry_run=dry_run, report=report)


def prune_all(workspace: Workspace, report: Report = silent) -> PruneResult:
    """Remove everything that no kept version needs, paid replies included. Call it under the lease."""
    with TemporaryTables() as tables:
        return _prune(workspace, tables, dry_run=False, report=report, keep_paid=False)


def _prune(
    workspace: Workspace, tables: TemporaryTables, *, dry_run: bool, report: Report, keep_paid: bool = True
) -> PruneResult:
    store = workspace.store
    removable = removable_versions(workspace, with_spare=not keep_paid)
    freed = {version: sum(size for _, size in store.listing(version_file(version, ""))) for version in removable}
    stored_objects = dict(stored_object for kind in KINDS for stored_object in store.listing(kind))
    versions = removable if dry_run else sweep(workspace, with_spare=not keep_paid)  # deletes rows that they alone have
    kept_versions = set(store.folders("versions")) - set(versions)
    needs = needs_of(workspace, kept_versions, tables, report)
    spare = {name: stored_objects[name] for name in sorted(stored_objects.keys() - needs.objects())}
    # Paid model replies stay while the corpus file names their model: a dead refresh has no version that needs them.
    paid: set[str] = set()
    if keep_paid:
        paid |= {open_descriptions(store, captioner.captions.key).folder for captioner in workspace.captioners.values()}
        paid |= {f"replies/{name}" for name in store.folders("replies")}
    # In needed caches, single records may be unneeded.
    kept_caches = paid | needs.records.keys()
    stored = sorted(stored_object for kind in CACHES for stored_object in store.listing(kind))
    spare |= {name: size for name, size in stored if name.rpartition("/")[0] not in kept_caches}
    abandoned = store.abandoned("")
    counts = Counter(name.partition("/")[0] for name in spare)
    counts.update({"half written": len(abandoned)} if abandoned else {})
    records: dict[str, Sequence[str]] = {
        name: needed.spare() for name, needed in sorted(needs.records.items()) if name not in paid
    }
    caches = {name: needed.cache for name, needed in needs.records.items()}
    if not dry_run:
        for removed_count, name in enumerate([*spare, *abandoned], 1):
            store.delete(name)
            report("remove", removed_count, counts.total())
        for name, ids in records.items():
            if ids:
                caches[name].remove(ids)
    return PruneResult(
        corpus=workspace.corpus.name,
        removed=not dry_run,
        versions=versions,
        objects=dict(counts),
        records={name: len(ids) for name, ids in records.items() if ids},
        bytes=sum(freed.get(version, 0) for version in versions) + sum(spare.values()),
    )
