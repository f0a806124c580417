"""Retention: keep the live version, the previous one, and the newest ones as the corpus file says."""

import contextlib

from pipeline.corpus.workspace import INDEX_FILE, Workspace, open_index
from pipeline.records.alias import alias_points_to, update_alias
from pipeline.records.publication import manifest_name, manifests, read_pointer
from schemas.errors import ContractError, DamagedError, TransientError
from schemas.ids import version_file
from schemas.ports import SearchIndex


def sweep(workspace: Workspace, *, except_version: str | None = None) -> list[str]:
    """Remove unfinished versions, and finished ones beyond the corpus's retention.

    Call it under the lease, so that an unfinished version isn't in use. Caches stay, and so does a version that the engine's
    alias names or whose server doesn't answer, until a later sweep.

    Returns:
        The versions removed.
    """
    with contextlib.suppress(TransientError, ContractError):
        # A lost server must not block the version that replaces its contents.
        update_alias(workspace)
    store = workspace.store
    removed = removable_versions(workspace, except_version=except_version)
    for version in removed:
        # The next refresh sweeps a version without a manifest, so the file that names its collection goes last.
        manifest, index_file = manifest_name(version), version_file(version, INDEX_FILE)
        store.delete(manifest)
        _index(workspace, version).drop()
        for name in [*store.names(version_file(version, "")), *store.abandoned(version_file(version, ""))]:
            if name != index_file:
                store.delete(name)
        store.delete(index_file)
    return removed


def removable_versions(workspace: Workspace, *, except_version: str | None = None) -> list[str]:
    """Return the versions that ``sweep`` would remove, oldest first."""
    store, retention = workspace.store, workspace.corpus.retention
    finished = [manifest.version for manifest in manifests(store)]
    live = read_pointer(store)
    kept = {except_version, *finished[: retention.versions], *retention.pinned}
    if live is not None:
        kept |= {live.version, live.previous}
    return [version for version in store.folders("versions") if version not in kept and _removable(workspace, version)]


def _index(workspace: Workspace, version: str) -> SearchIndex:
    """Open a version's collection where its own file says, or where the corpus file says if that is damaged."""
    try:
        return workspace.index(version)
    except DamagedError:
        return open_index(workspace.store.root, workspace.corpus.name, version, workspace.corpus.index)


def _removable(workspace: Workspace, version: str) -> bool:
    try:
        return not alias_points_to(workspace, version)
    except DamagedError:
        return True
    except TransientError:
        return False
