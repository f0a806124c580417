"""Which versions retention keeps, and whose collection the next version takes over."""

from pipeline.corpus.workspace import Workspace
from pipeline.records.alias import alias_points_to
from pipeline.records.publication import manifests, read_pointer
from schemas.errors import DamagedError, TransientError


def removable_versions(workspace: Workspace, *, except_version: str | None = None, with_spare: bool = False) -> list[str]:
    """Return the versions that ``sweep`` would remove, oldest first; the spare one stays unless ``with_spare``."""
    removable = _beyond_retention(workspace, except_version)
    spare = None if with_spare else _spare(workspace, removable)
    return [version for version in removable if version != spare]


def spare_version(workspace: Workspace, version: str) -> str | None:
    """Return the version whose collection a new one may take over: the newest finished one beyond retention.

    Collections of a server take turns, one more than versions are kept. None where the engine is embedded.
    """
    return _spare(workspace, _beyond_retention(workspace, version))


def _beyond_retention(workspace: Workspace, except_version: str | None) -> list[str]:
    store, retention = workspace.store, workspace.corpus.retention
    finished = [manifest.version for manifest in manifests(store)]
    live = read_pointer(store)
    kept_versions = {except_version, *finished[: retention.versions], *retention.pinned}
    if live is not None:
        kept_versions |= {live.version, live.previous}
    return [
        version for version in store.folders("versions") if version not in kept_versions and _removable(workspace, version)
    ]


def _removable(workspace: Workspace, version: str) -> bool:
    try:
        return not alias_points_to(workspace, version)
    except DamagedError:
        return True
    except TransientError:
        return False


def _spare(workspace: Workspace, removable: list[str]) -> str | None:
    if workspace.corpus.index.engine != "weaviate":
        return None
    shape, finished = workspace.corpus.index.shape(), {manifest.version for manifest in manifests(workspace.store)}
    for version in reversed(removable):
        try:
            if version in finished and workspace.index_options(version).shape() == shape:
                return version
        except DamagedError:
            continue
    return None
