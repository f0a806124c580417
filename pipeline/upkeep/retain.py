"""Retention: keep the live version, the previous one, and the newest ones as the corpus file says."""

import contextlib
from collections.abc import Iterable

from backends.stores.objects import attempt, unless_damaged
from pipeline.corpus.workspace import INDEX_FILE, Workspace, open_index
from pipeline.records.manifests import manifest_name
from pipeline.records.retention import removable_versions, update_alias
from pipeline.records.row_parts import read_parts
from schemas.errors import ContractError, TransientError
from schemas.ids import version_file
from schemas.ports import ObjectStore, SearchIndex


def sweep(workspace: Workspace, *, except_version: str | None = None, with_spare: bool = False) -> list[str]:
    """Remove unfinished versions, and finished ones beyond the corpus's retention, under the lease; return them.

    Caches stay, and so does a version that the engine's alias names or whose server doesn't answer, until a later sweep,
    and the spare one unless ``with_spare``.
    """
    with contextlib.suppress(TransientError, ContractError):
        # A lost server must not block the version that replaces its contents.
        update_alias(workspace)
    store = workspace.store
    removed = removable_versions(workspace, except_version=except_version, with_spare=with_spare)
    spare_rows = {name for version in removed for name in _row_names(store, version)}
    for version in removed:
        # The next refresh sweeps a version without a manifest, so the file that names its collection goes last.
        manifest, index_file = manifest_name(version), version_file(version, INDEX_FILE)
        store.delete(manifest)
        if not _is_taken_over(workspace, version):
            _index(workspace, version).drop()
        for name in [*store.names(version_file(version, "")), *store.abandoned(version_file(version, ""))]:
            if name != index_file:
                store.delete(name)
        store.delete(index_file)
    if spare_rows:
        spare_rows -= {name for version in store.folders("versions") for name in _row_names(store, version)}
    for name in spare_rows:
        store.delete(name)
    return removed


def _row_names(store: ObjectStore, version: str) -> Iterable[str]:
    """Return the names of a version's parts; none where they can't be read: ``prune`` finds them."""
    parts = unless_damaged(lambda: read_parts(store, version))
    return parts.sizes() if parts is not None else ()


def _is_taken_over(workspace: Workspace, version: str) -> bool:
    """Return whether a newer version has the collection of this one, or may have: a file that says so is damaged."""
    versions = [newer for newer in workspace.store.folders("versions") if newer >= version]
    names, damage = attempt(lambda: [workspace.collection(name) for name in versions])
    if names is None or damage is not None:
        return workspace.corpus.index.engine == "weaviate"
    return names[0] in names[1:]


def _index(workspace: Workspace, version: str) -> SearchIndex:
    """Open a version's collection where its own file says, or where the corpus file says if that is damaged."""
    own_index = unless_damaged(lambda: workspace.index(version))
    return own_index or open_index(workspace.store.root, workspace.corpus.name, version, workspace.corpus.index)
