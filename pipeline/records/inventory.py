"""What a version needs of its store, object by object: how a damaged version is recognised.

A finished version lists its objects with their sizes, and the files of its own folder with their digests too; all others carry
their checksums, or have them for a name. One listing of the store then says whether anything is missing or cut, and reading says
whether anything changed.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.objects import read_table
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import INDEX_FOLDER, Workspace
from pipeline.records.damage_note import note_damage
from pipeline.records.evidence import PartWriter
from pipeline.records.publication import manifest_name, readable_manifest
from pipeline.records.shared_objects import OBJECTS, SharedObjects
from schemas.errors import DamagedError, MissingError
from schemas.ids import sha256, version_file
from schemas.parquet import rows_of, schema_of, table_of, to_parquet
from schemas.ports import ObjectStore

FILE = "inventory.parquet"
"""Lists the files of the version's own folder; those among them that list shared objects lie in ``SHARED``."""

SHARED = "inventory"

_LATER = ("manifest.json", "override.json", FILE)
"""What comes into a version's folder after its inventory was taken."""


@dataclass(frozen=True, slots=True)
class Item:
    """An object that a version needs, by its stored bytes; ``sha256`` is there for files of the version's own folder."""

    name: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Damage:
    """An object that isn't what a version needs."""

    name: str
    fault: str


def write_inventory(store: ObjectStore, version: str, names: Iterable[str]) -> str:
    """Keep the list of what a version needs, as it lies in the store now.

    Args:
        store: The corpus's store.
        version: A version that is complete but for its manifest.
        names: Shared objects that it needs.

    Returns:
        Its SHA-256, for the manifest.
    """
    shared = PartWriter(store, version_file(version, SHARED), OBJECTS)
    with TemporaryTables() as tables:
        # One that is needed and isn't stored is listed all the same, and found missing at the next look.
        for part in SharedObjects(tables, store).needed(names):
            shared.add(part)
    shared.close()
    own = store.sizes(version_file(version, ""))
    later = {version_file(version, name) for name in _LATER}
    items = [Item(name, size, store.digest(name)) for name, size in sorted(own.items()) if name not in later]
    data = to_parquet(table_of(Item, items))
    store.replace(version_file(version, FILE), data)
    return sha256(data)


def read_inventory(store: ObjectStore, version: str) -> Iterator[Item] | None:
    """Return what a version needs; None where it was finished before inventories were kept.

    Raises:
        DamagedError: The list can't be read: of its own files at once, of shared objects when their turn comes.
    """
    own = read_own(store, version)
    return None if own is None else chain((Item(*row, None) for row in _shared(store, version, own)), own)


def read_own(store: ObjectStore, version: str) -> tuple[Item, ...] | None:
    """Return the files of a version's own folder; None where it was finished before inventories were kept."""
    table = _listed(store, version)
    return None if table is None else rows_of(Item, table.filter(pc.is_valid(table.column("sha256"))))


def _listed(store: ObjectStore, version: str) -> pa.Table | None:
    try:
        return read_table(store, version_file(version, FILE), schema_of(Item))
    except MissingError:
        return None


def _shared(store: ObjectStore, version: str, own: Iterable[Item]) -> Iterator[tuple[str, int]]:
    """Yield the names and bytes of the shared objects that a version needs, in the order of their list.

    Args:
        store: The corpus's store.
        version: A version that has an inventory.
        own: The files of its own folder.
    """
    lists = sorted(item.name for item in own if item.name.startswith(version_file(version, f"{SHARED}/")))
    listed = None if lists else _listed(store, version)
    if listed is not None:
        # Versions from before these were lists of their own have all in one.
        yield from _rows(listed.filter(pc.is_null(listed.column("sha256"))))
    for name in lists:
        yield from _rows(read_table(store, name, OBJECTS))


def _rows(objects: pa.Table) -> Iterator[tuple[str, int]]:
    columns = (objects.column(name).to_pylist() for name in OBJECTS.names)
    return zip(*columns, strict=True)


def missing_or_cut(store: ObjectStore, version: str, shared: SharedObjects) -> Iterator[Damage]:
    """Yield what of a version's objects is missing or cut, by listings; what has another size and is whole was made again.

    Args:
        store: The corpus's store.
        version: A finished version.
        shared: The shared objects of the store.
    """
    try:
        own = read_own(store, version)
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    if own is None and (manifest := readable_manifest(store, version)) is not None and manifest.inventory:
        name = version_file(version, FILE)
        yield Damage(name, f"{store.root}/{name} is missing")
    sizes = store.sizes(version_file(version, ""))
    for item in own or ():
        if sizes.get(item.name) != item.bytes:
            yield _size_damage(store, item.name, item.bytes, sizes.get(item.name))
    try:
        differing = list(shared.differing(_shared(store, version, own or ())))
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    for name, size, found in differing:
        if found is None or not _is_whole(store, name):
            yield _size_damage(store, name, size, found)


def _size_damage(store: ObjectStore, name: str, size: int, found: int | None) -> Damage:
    fault = "is missing" if found is None else f"has {found} bytes instead of {size}"
    return Damage(name, f"{store.root}/{name} {fault}")


def _is_whole(store: ObjectStore, name: str) -> bool:
    try:
        store.get(name)
    except DamagedError:
        return False
    return True


def changed(store: ObjectStore, version: str) -> Iterator[Damage]:
    """Yield what of a version's own files isn't what was written, by reading all of them."""
    try:
        for name in (manifest_name(version), version_file(version, "override.json")):
            if store.exists(name):
                store.get(name)
        items = read_own(store, version)
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    for item in items or ():
        yield from _changed(store, item)


def _changed(store: ObjectStore, item: Item) -> Iterator[Damage]:
    try:
        if store.digest(item.name) != item.sha256:
            yield Damage(item.name, f"{store.root}/{item.name} isn't what was written")
    except DamagedError as error:
        yield Damage(item.name, error.message)


def check_index_files(workspace: Workspace, version: str, *, digests: bool = False, skip: Container[str] = ()) -> None:
    """Raise where the files of a version's embedded index aren't what was built: the engine itself doesn't look.

    Args:
        workspace: The corpus.
        version: A finished version.
        digests: Read the files too where they lie on this machine, and don't only compare sizes.
        skip: Files that are left out.

    Raises:
        DamagedError: A file is missing, cut or changed.
    """
    store = workspace.store
    items = [item for item in _index_files(store, version) if item.name not in skip]
    sizes = store.sizes(version_file(version, INDEX_FOLDER)) if items else {}
    for item in items:
        whole = sizes.get(item.name) == item.bytes
        if whole and digests and "://" not in store.root:
            whole = store.digest(item.name) == item.sha256
        if not whole:
            raise _index_damaged(workspace, version, item)


def linked_index_files(store: ObjectStore, version: str, parent: str) -> dict[str, Item]:
    """Return the files of a version's index that are its parent's under a second name, each as the parent's inventory lists it.

    There are some where the index was derived on a file system that has links.
    """
    if "://" in store.root:
        return {}
    root, own = Path(store.root), {_path_in_table(name): name for name in store.names(version_file(version, INDEX_FOLDER))}
    same = {
        name: own[place]
        for name in store.names(version_file(parent, INDEX_FOLDER))
        if (place := _path_in_table(name)) in own and (root / own[place]).samefile(root / name)
    }
    # A damaged inventory of the parent's is in nobody's way who has nothing of it.
    items = _index_files(store, parent) if same else ()
    return {same[item.name]: item for item in items if item.name in same}


def check_linked_index_files(workspace: Workspace, version: str, parent: str) -> None:
    """Raise where a version that has an inventory took a damaged file over from its parent's index; it is noted.

    Raises:
        DamagedError: It did; nothing is derived from that parent any more.
    """
    store = workspace.store
    own = {item.name: item.sha256 for item in read_own(store, version) or ()}
    for name, item in linked_index_files(store, version, parent).items():
        if own[name] != item.sha256:
            note_damage(store, [item.name])
            raise _index_damaged(workspace, parent, item)


def _index_files(store: ObjectStore, version: str) -> list[Item]:
    return [
        item for item in read_own(store, version) or () if item.name.startswith(f"{version_file(version, INDEX_FOLDER)}/")
    ]


def _path_in_table(name: str) -> str:
    """Return a file's place within the engine's table, which is called otherwise in each version."""
    return name.split(f"/{INDEX_FOLDER}/", 1)[1].partition("/")[2]


def _index_damaged(workspace: Workspace, version: str, item: Item) -> DamagedError:
    return DamagedError(
        f"the index of {version} is damaged: {workspace.store.root}/{item.name} isn't what was built; "
        f"to build it again: inset refresh {workspace.corpus.name}",
        item.name,
    )
