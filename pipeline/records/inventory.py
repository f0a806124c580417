"""The inventory of a version: the objects that it needs, which shows whether any is damaged.

It lists shared objects with their sizes, and the version's own files with their digests too. Listing the store shows what is
missing or cut; reading shows what changed, since shared objects carry their own checksums.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from backends.stores.objects import is_remote, read_table
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import INDEX_FOLDER, Workspace
from pipeline.records.damage_note import note_damage
from pipeline.records.evidence import PartWriter
from pipeline.records.publication import manifest_name
from pipeline.records.shared_objects import OBJECTS, SharedObjects
from schemas.errors import DamagedError, MissingError
from schemas.ids import sha256, version_file
from schemas.parquet import rows_of, schema_of, table_of, to_parquet
from schemas.ports import ObjectStore

FILE = "inventory.parquet"
"""Lists the files of the version's folder, those in ``SHARED`` included; these list the shared objects."""

SHARED = "inventory"

_LATER = ("manifest.json", "override.json", "gates.json", FILE)
"""Files that are written after the inventory."""


@dataclass(frozen=True, slots=True)
class Item:
    """An object that a version needs, by its stored bytes; shared objects have no ``sha256``."""

    name: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Damage:
    """A damaged or missing object."""

    name: str
    fault: str


def write_inventory(store: ObjectStore, version: str, names: Iterable[str]) -> str:
    """Write the list of objects that a version needs, from the state of the store.

    The version lacks only its manifest; ``names`` are the shared objects that it needs.

    Returns:
        The list's SHA-256, for the manifest.
    """
    shared = PartWriter(store, version_file(version, SHARED), OBJECTS)
    with TemporaryTables() as tables:
        # Objects that are not in the store are listed too, so that the next check reports them.
        for part in SharedObjects(tables, store).needed(names):
            shared.add(part)
    shared.close()
    own = store.sizes(version_file(version, ""))
    later = {version_file(version, name) for name in _LATER}
    items = [Item(name, size, store.digest(name)) for name, size in sorted(own.items()) if name not in later]
    data = to_parquet(table_of(Item, items))
    store.replace(version_file(version, FILE), data)
    return sha256(data)


def read_inventory(store: ObjectStore, version: str) -> Iterator[Item]:
    """Return all objects that a version needs.

    Raises:
        DamagedError: A list can't be read; those of shared objects are read as the iterator gets there.
    """
    own = read_own(store, version)
    return chain((Item(*row, None) for row in _shared(store, own)), own)


def read_own(store: ObjectStore, version: str) -> tuple[Item, ...]:
    """Return the files of a version's own folder.

    Raises:
        DamagedError: The list can't be read.
    """
    return rows_of(Item, read_table(store, version_file(version, FILE), schema_of(Item)))


def _shared(store: ObjectStore, own: Iterable[Item]) -> Iterator[tuple[str, int]]:
    """Yield names and sizes of the shared objects that a version needs, from its own files that list them."""
    for name in sorted(item.name for item in own if f"/{SHARED}/" in item.name):
        objects = read_table(store, name, OBJECTS)
        yield from zip(*(objects.column(column).to_pylist() for column in OBJECTS.names), strict=True)


def missing_or_cut(store: ObjectStore, version: str, shared: SharedObjects) -> Iterator[Damage]:
    """Yield the objects of a version that are missing or cut, by listings.

    Objects of another size that can be read were written again, and are intact.
    """
    try:
        own = read_own(store, version)
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    sizes = store.sizes(version_file(version, ""))
    for item in own:
        if sizes.get(item.name) != item.bytes:
            yield _size_damage(store, item.name, item.bytes, sizes.get(item.name))
    try:
        differing = list(shared.differing(_shared(store, own)))
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    for name, size, found in differing:
        if found is None or not _is_intact(store, name):
            yield _size_damage(store, name, size, found)


def _size_damage(store: ObjectStore, name: str, size: int, found: int | None) -> Damage:
    fault = "is missing" if found is None else f"has {found} bytes instead of {size}"
    return Damage(name, f"{store.root}/{name} {fault}")


def _is_intact(store: ObjectStore, name: str) -> bool:
    try:
        store.get(name)
    except DamagedError:
        return False
    return True


def changed(store: ObjectStore, version: str) -> Iterator[Damage]:
    """Yield the own files of a version that changed, by reading all of them."""
    try:
        for name in (manifest_name(version), version_file(version, "override.json")):
            if store.exists(name):
                store.get(name)
        items = read_own(store, version)
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    for item in items:
        yield from _changed(store, item)


def _changed(store: ObjectStore, item: Item) -> Iterator[Damage]:
    try:
        if store.digest(item.name) != item.sha256:
            yield Damage(item.name, f"{store.root}/{item.name} isn't what was written")
    except DamagedError as error:
        yield Damage(item.name, error.message)


def check_index_files(workspace: Workspace, version: str, *, digests: bool = False, skip: Container[str] = ()) -> None:
    """Raise where files of a version's embedded index changed; the engine doesn't check them.

    With ``digests``, files on this machine are read too; files in ``skip`` are not checked.

    Raises:
        DamagedError: A file is missing, cut or changed.
    """
    store = workspace.store
    items = [item for item in _index_files(store, version) if item.name not in skip]
    sizes = store.sizes(version_file(version, INDEX_FOLDER)) if items else {}
    for item in items:
        intact = sizes.get(item.name) == item.bytes
        if intact and digests and "://" not in store.root:
            intact = store.digest(item.name) == item.sha256
        if not intact:
            raise _index_damaged(workspace, version, item)


def linked_index_files(store: ObjectStore, version: str, parent: str) -> dict[str, Item]:
    """Return the files of a version's index that are hard links to its parent's, each as the parent's inventory lists it."""
    if is_remote(store):
        return {}
    root, own = Path(store.root), {_path_in_table(name): name for name in store.names(version_file(version, INDEX_FOLDER))}
    same = {
        name: own[path]
        for name in store.names(version_file(parent, INDEX_FOLDER))
        if (path := _path_in_table(name)) in own and (root / own[path]).samefile(root / name)
    }
    # Without links, a damaged inventory of the parent doesn't matter.
    items = _index_files(store, parent) if same else ()
    return {same[item.name]: item for item in items if item.name in same}


def check_linked_index_files(workspace: Workspace, version: str, parent: str) -> None:
    """Raise, and note the damage, where a version's index has hard links to damaged files of its parent's.

    Raises:
        DamagedError: Such a file differs from the parent's inventory.
    """
    store = workspace.store
    own = {item.name: item.sha256 for item in read_own(store, version)}
    for name, item in linked_index_files(store, version, parent).items():
        if own[name] != item.sha256:
            note_damage(store, [item.name])
            raise _index_damaged(workspace, parent, item)


def _index_files(store: ObjectStore, version: str) -> list[Item]:
    """Return the index files in a version's inventory; none while it is evaluated, before it has one."""
    try:
        own = read_own(store, version)
    except MissingError:
        return []
    return [item for item in own if item.name.startswith(f"{version_file(version, INDEX_FOLDER)}/")]


def _path_in_table(name: str) -> str:
    """Return a file's path below the engine's table, whose name contains the version."""
    return name.split(f"/{INDEX_FOLDER}/", 1)[1].partition("/")[2]


def _index_damaged(workspace: Workspace, version: str, item: Item) -> DamagedError:
    return DamagedError(
        f"the index of {version} is damaged: {workspace.store.root}/{item.name} isn't what was built; "
        f"to build it again: inset refresh {workspace.corpus.name}",
        item.name,
    )
