"""Versions as they were finished: manifest, override and rejection, and the list of their files."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from backends.stores.objects import is_remote, read_model, read_table, readable_models, unless_damaged
from pipeline.corpus.workspace import INDEX_FILE, INDEX_FOLDER, Workspace
from pipeline.records.row_parts import FOLDER, read_parts
from schemas.errors import DamagedError, MissingError, UserError
from schemas.ids import sha256, version_file, version_name, version_time
from schemas.parquet import rows_of, schema_of, table_of, to_parquet
from schemas.ports import ObjectStore
from schemas.reports import VersionRow, VersionState
from schemas.versions import Manifest, Override, Pointer

OVERRIDE, REJECTION = "override.json", "rejection.json"


def manifest_name(version: str) -> str:
    """Name a version's manifest in its store."""
    return version_file(version, "manifest.json")


def next_version(store: ObjectStore, fingerprint: str) -> str:
    """Name the next version by now, or a second after the latest: versions are sorted by name, and a clock may be set back."""
    later = (version_time(version) + timedelta(seconds=1) for version in store.folders("versions"))
    return version_name(max([datetime.now(UTC), *later]), fingerprint)


def read_manifest(store: ObjectStore, version: str) -> Manifest | None:
    """Return a finished version's manifest; None if the version is unknown or unfinished."""
    try:
        return read_model(store, manifest_name(version), Manifest)
    except FileNotFoundError:
        return None


def readable_manifest(store: ObjectStore, version: str | None) -> Manifest | None:
    """Return a finished version's manifest; None if none can be read."""
    return unless_damaged(lambda: read_manifest(store, version)) if version else None


def named_manifest(store: ObjectStore, corpus: str, version: str) -> Manifest:
    """Return the manifest of a version, or raise ``UserError``, whose message names some versions that exist."""
    manifest = read_manifest(store, version)
    if manifest is None:
        version_names = ", ".join(existing.version for existing in manifests(store)[:5]) or "none yet"
        raise UserError(f"corpus {corpus}: there is no version {version}; there are: {version_names}")
    return manifest


def manifests(store: ObjectStore) -> list[Manifest]:
    """Return the manifests of all finished versions, newest first, without damaged ones."""
    return [*_each_manifest(store)]


def last_manifest(store: ObjectStore) -> Manifest | None:
    """Return the manifest of the newest finished version, without reading the others; None if there is none."""
    return next(_each_manifest(store), None)


def _each_manifest(store: ObjectStore) -> Iterator[Manifest]:
    return readable_models(store, map(manifest_name, reversed(store.folders("versions"))), Manifest)


def read_override(store: ObjectStore, version: str) -> Override | None:
    """Return the override of a refused version; None if there is none."""
    try:
        return read_model(store, version_file(version, OVERRIDE), Override)
    except FileNotFoundError:
        return None


def rejection_in_words(rejection: Override) -> str:
    """Return who rejected a version, when and why."""
    reason = f": {rejection.reason}" if rejection.reason else ""
    return f"rejected by {rejection.by} at {rejection.at:%Y-%m-%d %H:%M} UTC{reason}"


def refusals_in(store: ObjectStore, manifest: Manifest) -> list[str]:
    """Return the failed gates with their messages, and the rejection by a person; [] if nothing refuses the version."""
    name = version_file(manifest.version, REJECTION)
    rejections = [rejection_in_words(read_model(store, name, Override))] if store.exists(name) else []
    return [*refusals_of(manifest), *rejections]


def state_of(store: ObjectStore, version: str, live: Pointer | None) -> VersionRow:
    """Return the state of a version, of which every list, page and decision reads it; ``live`` is the pointer."""
    return state_and_manifest(store, version, live)[0]


def state_and_manifest(store: ObjectStore, version: str, live: Pointer | None) -> tuple[VersionRow, Manifest | None]:
    """Return the state of a version, and its manifest; None of one that is unfinished or damaged."""
    created = version_time(version)
    try:
        manifest = read_manifest(store, version)
        refusals = refusals_in(store, manifest) if manifest else []
        override = read_override(store, version) if refusals else None
    except DamagedError as error:
        return VersionRow(version=version, state="damaged", created=created, refusals=error.message.splitlines()), None
    if manifest is None:
        return VersionRow(version=version, state="unfinished", created=created), None
    state: VersionState = "ready"
    if live is not None and version == live.version:
        state = "live"
    elif refusals and override is None:
        state = "refused"
    elif live is not None and version == live.previous:
        state = "previous"
    row = VersionRow(
        version=version,
        state=state,
        created=manifest.created,
        parent=manifest.parent,
        documents=manifest.counts.documents,
        quarantined=manifest.counts.quarantined,
        rows=manifest.counts.rows,
        refusals=refusals,
        override=override,
    )
    return row, manifest


def override_hint(corpus: str, version: str) -> str:
    """Return the command that publishes a refused version."""
    return f'if it is to go live all the same: inset publish {corpus} {version} --override "REASON"'


def refusals_of(manifest: Manifest) -> list[str]:
    """Return the failed gates with their messages; [] if all hold."""
    return [f"{gate.gate}: {gate.message}" for gate in manifest.gates if not gate.passed]


FILE = "files.parquet"
_CHANGING = ("manifest.json", OVERRIDE, INDEX_FILE)
"""Files that are written, or change, after the inventory; each is read to be checked."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file of a version's folder, by its stored bytes."""

    name: str
    bytes: int
    sha256: str | None


def write_inventory(store: ObjectStore, version: str) -> str:
    """Write the list of a version's files, which lacks only the manifest, and return the list's SHA-256 for that."""
    later = {version_file(version, name) for name in (*_CHANGING, FILE)}
    sizes = store.sizes(version_file(version, ""))
    items = [Item(name, size, store.digest(name)) for name, size in sorted(sizes.items()) if name not in later]
    data = to_parquet(table_of(Item, items))
    store.replace(version_file(version, FILE), data)
    return sha256(data)


def read_inventory(store: ObjectStore, version: str) -> tuple[Item, ...]:
    """Return the files of a version's folder that never change."""
    return rows_of(Item, read_table(store, version_file(version, FILE), schema_of(Item)))


def missing_or_cut(store: ObjectStore, version: str) -> Iterator[DamagedError]:
    """Yield an error for each file or part of rows of a finished version that is missing or cut, by listings."""
    try:
        store.get(version_file(version, INDEX_FILE))
        expected = read_parts(store, version).sizes()
        expected |= {item.name: item.bytes for item in read_inventory(store, version)}
        sizes = store.sizes(version_file(version, "")) | store.sizes(FOLDER)
    except DamagedError as error:
        yield error
        return
    for name, size in expected.items():
        if name not in sizes:
            yield DamagedError(f"{store.root}/{name} is missing", name)
        elif size != sizes[name]:
            yield DamagedError(f"{store.root}/{name} has {sizes[name]} bytes instead of {size}", name)


def changed(store: ObjectStore, version: str) -> Iterator[DamagedError]:
    """Yield an error for each file of a version that isn't what was written, by reading all of them."""
    try:
        for file in _CHANGING:
            if store.exists(name := version_file(version, file)):
                store.get(name)
        items = read_inventory(store, version)
    except DamagedError as error:
        yield error
        return
    for item in items:
        try:
            if store.digest(item.name) != item.sha256:
                yield DamagedError(f"{store.root}/{item.name} isn't what was written", item.name)
        except DamagedError as error:
            yield error


def check_index_files(workspace: Workspace, version: str, *, digests: bool = False) -> None:
    """Raise ``DamagedError`` if files of a version's embedded index are missing, cut or changed: the engine doesn't check them.

    With ``digests``, files on this machine are read too. A version that is evaluated has no inventory yet, and passes.
    """
    store, folder = workspace.store, version_file(version, INDEX_FOLDER)
    if workspace.is_taken(version):
        raise DamagedError(f"the rows of {version} aren't in the index now", version_file(version, INDEX_FILE))
    try:
        items = [item for item in read_inventory(store, version) if item.name.startswith(f"{folder}/")]
    except MissingError:
        return
    sizes = store.sizes(folder) if items else {}
    for item in items:
        intact = sizes.get(item.name) == item.bytes
        if intact and digests and not is_remote(store):
            intact = store.digest(item.name) == item.sha256
        if not intact:
            raise DamagedError(
                f"the index of {version} is damaged: {store.root}/{item.name} isn't what was built; "
                f"to build it again: inset refresh {workspace.corpus.name}",
                item.name,
            )
