"""Remove versions beyond retention, and objects and cache records that no kept version needs.

Everything else below the corpus's root is finished work of removed versions or of a dead refresh, and can be made again.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from backends.stores.objects import attempt, unless_damaged
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import INDEX_FILE, Workspace, open_index
from pipeline.records.cache import CACHES
from pipeline.records.descriptions import open_descriptions
from pipeline.records.feedback import remove_old_feedback
from pipeline.records.lease import alone
from pipeline.records.manifests import manifest_name
from pipeline.records.retention import KINDS, needs_of, removable_versions, spare_versions, update_alias
from pipeline.records.row_parts import read_parts
from schemas.errors import ContractError, TransientError
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.reports import PruneResult
from schemas.stages import Report, silent


def prune(workspace: Workspace, *, dry_run: bool, report: Report = silent) -> PruneResult:
    """Remove everything below the corpus's root that no kept version needs, or list it; the lease is held meanwhile.

    Kept are the live version, the previous one, pinned ones, the newest ones by retention, and any that the engine's alias
    names.
    """
    with alone(workspace.store, "prune"):
        return _prune(workspace, dry_run=dry_run, report=report)


def prune_all(workspace: Workspace, report: Report = silent) -> PruneResult:
    """Remove everything that no kept version needs, paid replies included. Call it under the lease."""
    return _prune(workspace, dry_run=False, report=report, keep_paid=False)


def _prune(workspace: Workspace, *, dry_run: bool, report: Report, keep_paid: bool = True) -> PruneResult:
    store = workspace.store
    removable = removable_versions(workspace)
    freed = {version: sum(size for _, size in store.listing(version_file(version, ""))) for version in removable}
    stored_objects = dict(stored_object for kind in KINDS for stored_object in store.listing(kind))
    versions = removable if dry_run else sweep(workspace)  # deletes rows that they alone have
    kept_versions = set(store.folders("versions")) - set(versions)
    # Paid model replies stay while the corpus file names their model: a dead refresh has no version that needs them.
    described = (open_descriptions(store, captioner.captions.key).folder for captioner in workspace.captioners.values())
    paid = {*described, *(f"replies/{name}" for name in store.folders("replies"))} if keep_paid else set[str]()
    with TemporaryTables() as tables:
        needs = needs_of(workspace, kept_versions, tables, report)
        records = {
            name: ids for name, needed in sorted(needs.records.items()) if name not in paid and (ids := needed.spare())
        }
    spare = {name: stored_objects[name] for name in sorted(stored_objects.keys() - needs.objects())}
    # In needed caches, single records may be unneeded.
    kept_caches = paid | needs.records.keys()
    stored = sorted(stored_object for kind in CACHES for stored_object in store.listing(kind))
    spare |= {name: size for name, size in stored if name.rpartition("/")[0] not in kept_caches}
    abandoned = store.abandoned("")
    counts = Counter(name.partition("/")[0] for name in spare)
    counts.update({"half written": len(abandoned)} if abandoned else {})
    if not dry_run:
        for removed_count, name in enumerate([*spare, *abandoned], 1):
            store.delete(name)
            report("remove", removed_count, counts.total())
        for name, ids in records.items():
            needs.records[name].cache.remove(ids)
    return PruneResult(
        corpus=workspace.corpus.name,
        removed=not dry_run,
        versions=versions,
        objects=dict(counts),
        records={name: len(ids) for name, ids in records.items()},
        bytes=sum(freed.get(version, 0) for version in versions) + sum(spare.values()),
    )


def sweep(workspace: Workspace, *, except_version: str | None = None) -> list[str]:
    """Remove unfinished versions, what is beyond the corpus's retention, and collections beyond ``index.collections``.

    Call it under the lease; it returns the versions. Caches stay, and so does what the engine's alias names or whose server
    doesn't answer, until a later sweep.
    """
    with contextlib.suppress(TransientError, ContractError):
        # A lost server must not block the version that replaces its contents.
        update_alias(workspace)
    remove_old_feedback(workspace.store, workspace.corpus.operations.days_of_feedback)
    removed = removable_versions(workspace, except_version=except_version)
    remove_versions(workspace, removed)
    for version in workspace.store.folders("versions"):
        # Somebody began to bring its rows back, and was killed: half of the collection is another version's.
        if unless_damaged(partial(workspace.is_half_done, version)):
            _drop_collection(workspace, version)
    for version in spare_versions(workspace):
        _drop_collection(workspace, version)
    return removed


def _drop_collection(workspace: Workspace, version: str) -> None:
    index = workspace.index(version)
    workspace.give_up_collection(version)
    index.drop()


def remove_versions(workspace: Workspace, removed: Sequence[str]) -> None:
    """Remove versions with their collections, and the rows that they alone have. Call it under the lease."""
    store = workspace.store
    # Read now, since the lists of parts go with the versions.
    spare_rows = {name for version in removed for name in _row_names(store, version)}
    for version in removed:
        # The next refresh sweeps a version without a manifest, so the file that names its collection goes last.
        manifest, index_file = manifest_name(version), version_file(version, INDEX_FILE)
        store.delete(manifest)
        if _has_own_collection(workspace, version):
            # Where its own file says, or where the corpus file says if that is damaged.
            index = unless_damaged(partial(workspace.index, version))
            (index or open_index(store.root, workspace.corpus.name, version, workspace.corpus.index)).drop()
        for name in [*store.names(version_file(version, "")), *store.abandoned(version_file(version, ""))]:
            if name != index_file:
                store.delete(name)
        store.delete(index_file)
    if spare_rows:
        spare_rows -= {name for version in store.folders("versions") for name in _row_names(store, version)}
    for name in spare_rows:
        store.delete(name)


def _has_own_collection(workspace: Workspace, version: str) -> bool:
    """Return whether a version's collection is no other's, nor may be: on a server, a file that says so may be damaged."""

    def has_own() -> bool:
        is_taken = workspace.is_taken(version) and not workspace.is_half_done(version)
        return not is_taken and workspace.collection(version) not in workspace.collections_of_others(version)

    has_its_own, damage = attempt(has_own)
    return workspace.corpus.index.engine != "weaviate" if damage is not None else bool(has_its_own)


def _row_names(store: ObjectStore, version: str) -> Iterable[str]:
    """Return the names of a version's parts; none if they can't be read: ``prune`` finds them."""
    parts = unless_damaged(lambda: read_parts(store, version))
    return parts.sizes() if parts is not None else ()
