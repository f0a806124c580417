"""Find damage of a store, and remove it so that a refresh makes it again.

Damage is found by listings and a sample, or by reading everything with ``deep``. Under a refresh's lease, damaged work of
documents, cache shards and versions that aren't live are deleted. A damaged live version stays until a new one replaces it.
"""

import contextlib
import heapq
import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from backends.stores.objects import is_remote
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import CACHES, RecordCache
from pipeline.records.caption_targets import drawn_cache
from pipeline.records.damage_note import NOTED, DamageNote, read_damage_note
from pipeline.records.descriptions import SPENT
from pipeline.records.evidence import evidence_parts, page_rows, placement_parts
from pipeline.records.inventory import Damage, Item, changed, missing_or_cut, read_inventory, read_own
from pipeline.records.lease import LEASE
from pipeline.records.needs import NeededRecords
from pipeline.records.publication import (
    COPY,
    LIVE,
    drop_previous,
    manifest_name,
    read_manifest,
    read_pointer,
    readable_manifest,
    readable_pointer,
    repair_pointer,
)
from pipeline.records.retention import removable_versions
from pipeline.records.shared_objects import KINDS, SharedObjects
from pipeline.records.vectors import open_vectors, passages
from pipeline.upkeep.retain import sweep
from schemas.documents import Kind, Segmented
from schemas.errors import DamagedError, MissingError
from schemas.parquet import schema_of
from schemas.ports import ObjectStore
from schemas.progress import Report, silent
from schemas.versions import Pointer

SAMPLE_BYTES = 64 << 20
"""Bytes of the live version's objects that a refresh reads; all of a small store."""
SAMPLE_REQUESTS = 200
"""Most of those objects where each is a request, of a store in S3."""


@dataclass
class Damages:
    """Damage of each kept version, and of objects that no version lists."""

    versions: dict[str, list[Damage]] = field(default_factory=dict)
    loose: list[Damage] = field(default_factory=list)

    def all(self) -> list[Damage]:
        """Return every damaged object once."""
        found = {damage.name: damage for damage in self.loose}
        found |= {damage.name: damage for damages in self.versions.values() for damage in damages}
        return [found[name] for name in sorted(found)]


def find_damage(workspace: Workspace, *, deep: bool = False, report: Report = silent) -> Damages:
    """Return the damage of kept versions and shared objects.

    With ``deep`` every object is read; without, listings are compared, and noted objects and a sample are read.

    Raises:
        UserError: A folder of the store can't be read.
        TransientError: The store doesn't answer.
    """
    with TemporaryTables() as tables:
        return _find_damage(workspace, tables, deep=deep, report=report)


def _find_damage(workspace: Workspace, tables: TemporaryTables, *, deep: bool, report: Report) -> Damages:
    store = workspace.store
    found = Damages(loose=list(_unreadable(store, (LIVE, COPY, LEASE, NOTED, SPENT), optional=True)))
    shared = SharedObjects(tables, store)
    kept = _kept(workspace)
    pointer = readable_pointer(store)
    live = pointer.version if pointer else None
    broken: dict[str, Damage] = {}
    if deep:
        shards = [name for kind in CACHES for name in store.names(kind)]
        found.loose += _unreadable(store, shards)
        found.loose += _missing_vectors(workspace, live)
    for done, version in enumerate(kept, 1):
        report("read versions", done - 1, len(kept))
        cut = missing_or_cut(store, version, shared)
        found.versions[version] = _of_version(workspace, version, cut, broken, deep=deep, live=version == live)
    report("read versions", len(kept), len(kept))
    found.versions |= _previous_gone(store)
    noted = list(_noted_damage(workspace, live))
    found.loose += [damage for damage in noted if not damage.name.startswith("versions/")]
    for version in kept if noted else ():
        needed = _needed(store, version, {damage.name for damage in noted})
        found.versions[version] += [
            damage for damage in noted if damage.name.startswith(f"versions/{version}/") or damage.name in needed
        ]
    found.versions = {version: damages for version, damages in found.versions.items() if damages}
    return found


def _previous_gone(store: ObjectStore) -> dict[str, list[Damage]]:
    """Return the missing manifest of the pointer's previous version."""
    pointer = readable_pointer(store)
    if pointer is not None and pointer.previous and not store.exists(name := manifest_name(pointer.previous)):
        return {pointer.previous: [Damage(name, f"{store.root}/{name} is missing")]}
    return {}


def repair(workspace: Workspace) -> bool:
    """Remove damage that a refresh can make again. Call it under the lease.

    Returns:
        Whether the live version is damaged, so that a new one has to be built.

    Raises:
        UserError: The live version is unknown, or a folder of the store can't be read.
    """
    store = workspace.store
    repair_pointer(store, workspace.corpus.name)
    found, note = find_damage(workspace), read_damage_note(store)
    pointer = read_pointer(store)
    live = pointer.version if pointer else None
    is_lost = live is not None and not _is_held(pointer) and readable_manifest(store, live) is None
    if not found.all() and not note.documents:
        store.delete(NOTED)
        return is_lost
    ours = found.versions.pop(live, []) if live else []
    if _is_held(pointer):
        ours = []  # a held corpus gets no new version
    _delete_damaged(workspace, live, [*ours, *found.loose], set(note.documents))
    gone = found.versions.keys() - set(workspace.corpus.retention.pinned)
    for version in gone:
        store.delete(manifest_name(version))
    if gone:
        drop_previous(store, gone)
        sweep(workspace, except_version=live)
    store.delete(NOTED)
    # The live version's own files stay until it is replaced.
    own = sorted(damage.name for damage in ours if damage.name.startswith("versions/"))
    if own or note.documents:
        left = DamageNote(names=own, remade=note.documents)
        store.replace(NOTED, left.model_dump_json().encode())
    # Vectors that are lost can't be copied to another engine; a rebuild makes them.
    return (
        is_lost
        or bool(ours)
        or (not _is_held(pointer) and any(damage.name.startswith("vectors/") for damage in found.loose))
    )


def _kept(workspace: Workspace) -> list[str]:
    store = workspace.store
    going: set[str] = set()
    with contextlib.suppress(DamagedError):  # without a readable pointer nothing is swept
        going = set(removable_versions(workspace))
    finished = (version for version in store.folders("versions") if store.exists(manifest_name(version)))
    return [version for version in finished if version not in going or readable_manifest(store, version) is None]


def _of_version(
    workspace: Workspace, version: str, cut: Iterable[Damage], broken: dict[str, Damage], *, deep: bool, live: bool
) -> list[Damage]:
    store = workspace.store
    found = {damage.name: damage for damage in cut}
    manifest = list(_unreadable(store, [manifest_name(version)]))
    found |= {damage.name: damage for damage in manifest}
    if deep:
        found |= {damage.name: damage for damage in changed(store, version)}
    if deep or live:
        items = (item for item in _items(store, version) if item.name not in found)
        for item in items if deep else _sample(items, SAMPLE_REQUESTS if is_remote(store) else None):
            found |= {damage.name: damage for damage in _read(store, item, broken)}
    return list(found.values())


def _items(store: ObjectStore, version: str) -> Iterator[Item]:
    """Yield what a version needs, as far as its inventory can be read."""
    with contextlib.suppress(DamagedError):
        yield from read_inventory(store, version)


def _sample(items: Iterable[Item], most: int | None) -> list[Item]:
    drawn: list[tuple[float, str, Item]] = []
    left = SAMPLE_BYTES
    for item in (item for item in items if item.bytes <= SAMPLE_BYTES):
        heapq.heappush(drawn, (random.random(), item.name, item))  # noqa: S311 -- not for security
        left -= item.bytes
        while left < 0 or (most is not None and len(drawn) > most):
            left += heapq.heappop(drawn)[-1].bytes
    return [item for _, _, item in drawn]


def _read(store: ObjectStore, item: Item, broken: dict[str, Damage]) -> Iterator[Damage]:
    if item.name in broken:
        yield broken[item.name]
        return
    if item.sha256 is not None:
        try:
            same = store.digest(item.name) == item.sha256
            found = [] if same else [Damage(item.name, f"{store.root}/{item.name} isn't what was written")]
        except DamagedError as error:
            found = [Damage(item.name, error.message)]
    else:
        found = list(_unreadable(store, [item.name]))
    for damage in found:
        broken[damage.name] = damage
        yield damage


def _unreadable(store: ObjectStore, names: Iterable[str], *, optional: bool = False) -> Iterator[Damage]:
    for name in names:
        try:
            store.get(name)
        except MissingError as error:
            if not optional:
                yield Damage(name, error.message)
        except DamagedError as error:
            if isinstance(error.__cause__, PermissionError):
                raise  # unreadable for this user, which is no damage
            yield Damage(name, error.message)


def _is_held(pointer: Pointer | None) -> bool:
    return pointer is not None and pointer.held


def _missing_vectors(workspace: Workspace, version: str | None) -> Iterator[Damage]:
    """Yield the vector cache of each space that lacks vectors of a version."""
    try:
        manifest = read_manifest(workspace.store, version) if version else None
        if version is None or manifest is None:
            return
        for vectors in open_vectors(workspace.store, manifest.spaces):
            with TemporaryTables() as tables:
                needed = NeededRecords(vectors.cache, tables)
                for part in evidence_parts(workspace.store, version):
                    needed.add(vectors.contents(passages(part)))
                missing = needed.missing()
            if missing:
                error = vectors.cache.missing_records(missing)
                yield Damage(error.name, error.message)
    except DamagedError:
        return


def _noted_damage(workspace: Workspace, live: str | None) -> Iterator[Damage]:
    store = workspace.store
    for name in read_damage_note(store).names:
        if name.startswith("versions/"):
            version = name.split("/")[1]
            yield from _read(store, next(_own(store, version, name), Item(name, 0, None)), {})
        elif name.startswith("vectors/") and not name.endswith(".parquet"):
            yield from _missing_vectors(workspace, live)
        else:
            yield from _unreadable(store, [name], optional=not name.startswith(KINDS))


def _own(store: ObjectStore, version: str, name: str) -> Iterator[Item]:
    """Yield the inventory's item of a version's own file, where it can be read."""
    with contextlib.suppress(DamagedError):
        yield from (item for item in read_own(store, version) if item.name == name)


def _needed(store: ObjectStore, version: str, names: Collection[str]) -> set[str]:
    """Return which objects a version needs, as far as its inventory can be read."""
    found: set[str] = set()
    with contextlib.suppress(DamagedError):
        found |= {item.name for item in read_inventory(store, version) if item.name in names}
    return found


def _delete_damaged(workspace: Workspace, live: str | None, damages: Iterable[Damage], documents: set[str]) -> None:
    """Delete the finished work of documents with damage, and what else would block making it again."""
    store = workspace.store
    for damage in damages:
        kind, *rest = damage.name.split("/")
        if kind in ("documents", "parsed", "structured"):
            documents.add(rest[0].removesuffix(".pdf"))
        elif kind == "figures" and live:
            documents |= _documents_with(store, live, rest[0].removesuffix(".png"))
        if kind in (*KINDS, SPENT) or (kind in CACHES and damage.name.endswith(".parquet")):
            store.delete(damage.name)
    if documents and live:
        _forget_segments(workspace, live, documents)
        _forget_pages(workspace, documents)
    for document in sorted(documents):
        for name in [*store.names(f"structured/{document}"), *store.names(f"parsed/{document}")]:
            store.delete(name)


def _documents_with(store: ObjectStore, version: str, figure: str) -> set[str]:
    """Return the documents that contain a figure, or of which it is a page; all where that can't be read."""
    try:
        pages = (row for part in evidence_parts(store, version) for row in page_rows(part))
        whole = {doc_id for doc_id, _, picture in pages if picture == figure}
        return whole | {str(row["doc_id"]) for row in _placement_rows(store, version) if row["figure_id"] == figure}
    except DamagedError:
        return set(store.folders("parsed"))


def _forget_segments(workspace: Workspace, version: str, documents: set[str]) -> None:
    """Forget the segments of documents' scanned pages, so that their figures are cut and stored again."""
    cache = RecordCache(workspace.store, f"recognised/{workspace.keys.segmented}", schema_of(Segmented))
    try:
        rows = _placement_rows(workspace.store, version)
        scans = {str(row["figure_id"]) for row in rows if row["doc_id"] in documents and row["kind"] == Kind.SCAN}
    except DamagedError:
        scans = cache.ids()
    cache.remove(scans)


def _forget_pages(workspace: Workspace, documents: set[str]) -> None:
    """Forget the drawn pages of documents, so that their pictures are made and stored again."""
    if (cache := drawn_cache(workspace)) is not None:
        cache.remove({name for name in cache.ids() if name.rpartition("/")[0] in documents})


def _placement_rows(store: ObjectStore, version: str) -> Iterator[dict[str, str | None]]:
    for part in placement_parts(store, version):
        yield from part.select(["doc_id", "figure_id", "kind"]).to_pylist()
