"""What a version needs of its store, object by object: how a damaged version is recognised.

A finished version lists its objects with their sizes, and the files of its own folder with their digests too; all others carry
their checksums, or have them for a name. One listing of the store then says whether anything is missing or cut, and reading says
whether anything changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backends.stores.objects import read_rows
from pipeline.corpus.workspace import Workspace
from pipeline.records.publication import manifest_name, readable_manifest
from schemas.errors import DamagedError, MissingError
from schemas.ids import sha256, version_file
from schemas.parquet import table_of, to_parquet
from schemas.ports import ObjectStore

KINDS = ("documents", "figures", "parsed", "structured", "tagged", "quarantine")
"""Folders whose objects versions share."""

FILE = "inventory.parquet"
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


def write_inventory(store: ObjectStore, version: str, objects: set[str], folders: set[str]) -> str:
    """Keep the list of what a version needs, as it lies in the store now.

    Args:
        store: The corpus's store.
        version: A version that is complete but for its manifest.
        objects: Shared objects that it needs, by name.
        folders: Shared folders that it needs whole.

    Returns:
        Its SHA-256, for the manifest.
    """
    sizes = shared_sizes(store)
    items = [
        Item(name, size, None)
        for name, size in sorted(sizes.items())
        if name in objects or name.rpartition("/")[0] in folders
    ]
    # One that is needed and isn't there is written down as such, and found missing at the next look.
    items += [Item(name, -1, None) for name in sorted(objects - sizes.keys())]
    own = store.sizes(version_file(version, ""))
    later = {version_file(version, name) for name in _LATER}
    items += [Item(name, size, store.digest(name)) for name, size in sorted(own.items()) if name not in later]
    data = to_parquet(table_of(Item, items))
    store.replace(version_file(version, FILE), data)
    return sha256(data)


def read_inventory(store: ObjectStore, version: str) -> tuple[Item, ...] | None:
    """Return what a version needs; None where it was finished before inventories were kept."""
    try:
        return read_rows(store, version_file(version, FILE), Item)
    except MissingError:
        return None


def shared_sizes(store: ObjectStore) -> dict[str, int]:
    """Return the bytes of every object that versions share, by name: one listing a kind."""
    return {name: size for kind in KINDS for name, size in store.sizes(kind).items()}


def missing_or_cut(store: ObjectStore, version: str, shared: Mapping[str, int]) -> Iterator[Damage]:
    """Yield what of a version's objects is missing or cut, by listings; what has another size and is whole was made again.

    Args:
        store: The corpus's store.
        version: A finished version.
        shared: What ``shared_sizes`` returned.
    """
    try:
        items = read_inventory(store, version)
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    if items is None and (manifest := readable_manifest(store, version)) is not None and manifest.inventory:
        name = version_file(version, FILE)
        yield Damage(name, f"{store.root}/{name} is missing")
    sizes = {**shared, **store.sizes(version_file(version, ""))}
    for item in items or ():
        found = sizes.get(item.name)
        if found is None:
            yield Damage(item.name, f"{store.root}/{item.name} is missing")
        elif found != item.bytes and not (item.sha256 is None and _is_whole(store, item.name)):
            yield Damage(item.name, f"{store.root}/{item.name} has {found} bytes instead of {item.bytes}")


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
        items = read_inventory(store, version)
    except DamagedError as error:
        yield Damage(error.name, error.message)
        return
    for item in items or ():
        if item.sha256 is not None:
            yield from _changed(store, item)


def _changed(store: ObjectStore, item: Item) -> Iterator[Damage]:
    try:
        if store.digest(item.name) != item.sha256:
            yield Damage(item.name, f"{store.root}/{item.name} isn't what was written")
    except DamagedError as error:
        yield Damage(item.name, error.message)


def check_index_files(workspace: Workspace, version: str, *, digests: bool = False) -> None:
    """Raise where the files of a version's embedded index aren't what was built: the engine itself doesn't look.

    Args:
        workspace: The corpus.
        version: A finished version.
        digests: Read the files too where they lie on this machine, and don't only compare sizes.

    Raises:
        DamagedError: A file is missing, cut or changed.
    """
    store, folder = workspace.store, version_file(version, "lance")
    items = [item for item in read_inventory(store, version) or () if item.name.startswith(f"{folder}/")]
    sizes = store.sizes(folder) if items else {}
    for item in items:
        whole = sizes.get(item.name) == item.bytes
        if whole and digests and "://" not in store.root:
            whole = store.digest(item.name) == item.sha256
        if not whole:
            raise DamagedError(
                f"the index of {version} is damaged: {store.root}/{item.name} isn't what was built; "
                f"to build it again: inset refresh {workspace.corpus.name}",
                item.name,
            )
