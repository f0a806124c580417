"""Find stored objects that can't be read or aren't what was written, and delete them: the stages make them again.

Originals, the pointer and the audit log are the truth; everything else is derived. A damaged live version is built afresh.
"""

import contextlib
from collections.abc import Iterable, Iterator

from backends.stores.objects import attempt, check_object, unless_damaged
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import CACHES
from pipeline.records.converted import converted_otherwise
from pipeline.records.descriptions import drawn_cache
from pipeline.records.evidence import evidence_parts, page_rows, placement_parts
from pipeline.records.lease import LEASE
from pipeline.records.ledger import quarantine_file, read_failures, readable_ledger
from pipeline.records.manifests import changed, manifest_name, missing_or_cut, readable_manifest
from pipeline.records.publication import LIVE, drop_previous, read_pointer, readable_pointer
from pipeline.records.retention import KINDS, objects_of, vectors_of_version
from pipeline.records.row_parts import DOCUMENTS
from schemas.errors import DamagedError, MissingError
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.stages import Report, silent

_PLACED = ["doc_id", "figure_id"]
_MADE = tuple(kind for kind in KINDS if kind != "documents")


def find_damage(workspace: Workspace, *, deep: bool = False, report: Report = silent) -> dict[str, DamagedError]:
    """Return an error for each damaged object of finished versions, and of what they share, by name.

    Listings show what is missing or cut; with ``deep`` every object is read. A folder that can't be read raises
    ``UserError``.
    """
    store = workspace.store
    pointer = readable_pointer(store)
    finished = [version for version in store.folders("versions") if store.exists(manifest_name(version))]
    finished += [lost_version for lost_version in _lost_versions(store) if lost_version not in finished]
    errors = [*_unreadable_objects(store, (LIVE, LEASE), optional=True)]
    live = readable_manifest(store, pointer.version) if pointer else None
    errors += _unreadable_objects(store, [quarantine_file(live.run_id)]) if live else ()
    errors += [error] if live and (error := attempt(lambda: read_failures(store, live))[1]) else []
    if deep:
        errors += _unreadable_objects(store, (name for kind in CACHES for name in store.names(kind)))
        errors += _unreadable_objects(store, _as_far_as_read(vectors_of_version(store, live))) if live else ()
    stored = {name for kind in KINDS for name, _ in store.listing(kind)}
    checked_objects: set[str] = set()
    for read_count, version in enumerate(finished):
        report("read versions", read_count, len(finished))
        errors += _unreadable_objects(store, [manifest_name(version)])
        errors += missing_or_cut(store, version)
        errors += changed(store, version) if deep else ()
        manifest = readable_manifest(store, version)
        needed_objects = _as_far_as_read(objects_of(workspace, manifest)) if manifest else ()
        unchecked_objects = {*needed_objects} - checked_objects
        errors += _unreadable_objects(store, sorted(unchecked_objects if deep else unchecked_objects - stored))
        checked_objects |= unchecked_objects
    report("read versions", len(finished), len(finished))
    return {error.name: error for error in errors}


def is_live_damaged(workspace: Workspace) -> bool:
    """Return whether files or failures of the live version are missing, or files cut; False where the corpus is held."""
    pointer = read_pointer(workspace.store)
    if pointer is None or pointer.held:
        return False
    manifest = readable_manifest(workspace.store, pointer.version)
    if manifest is None or not workspace.store.exists(quarantine_file(manifest.run_id)):
        return True
    return any(missing_or_cut(workspace.store, pointer.version))


def discard(workspace: Workspace, names: Iterable[str]) -> None:
    """Delete damaged derived objects, and what would keep their stages from making them again, under the lease.

    A version that isn't live goes as a whole, unless it is pinned.
    """
    store, pointer = workspace.store, readable_pointer(workspace.store)
    live = pointer.version if pointer else None
    documents: set[str] = set()
    for name in names:
        kind, _, path_in_kind = name.partition("/")
        version = path_in_kind.partition("/")[0]
        if kind == "versions" and version != live:
            if version not in workspace.corpus.retention.pinned:
                store.delete(manifest_name(version))
                if pointer is not None:
                    drop_previous(store, {version})
            continue
        if kind in ("documents", "converted", "parsed", "structured"):
            documents.add(version.partition(".")[0])
        elif kind == "vectors" and live:  # rows that are taken over aren't embedded again
            store.delete(version_file(live, DOCUMENTS))
        # Figures come from parses and from segments of scans, so the documents that have one are made again.
        elif kind == "figures" and live:
            documents |= _documents_with(store, live, path_in_kind.removesuffix(".png"))
        # Originals stay, since a parse writes one again if it can read the source.
        if kind in (*_MADE, "versions") or (kind in CACHES and name.endswith(".parquet")):
            store.delete(name)
    make_again(workspace, documents)


def convert_again(workspace: Workspace) -> None:
    """Delete the parses of live documents that another release of their converter would convert now, under the lease."""
    pointer = readable_pointer(workspace.store)
    if pointer is not None:
        ledger = readable_ledger(workspace.store, pointer.version)
        make_again(workspace, {*converted_otherwise(workspace.store, pointer.version, ledger)})


def make_again(workspace: Workspace, documents: set[str]) -> None:
    """Delete the parses of documents and what is made of them, so that the next refresh makes them again, under the lease."""
    store = workspace.store
    if documents and (cache := drawn_cache(workspace)) is not None:
        cache.remove({name for name in cache.ids() if name.rpartition("/")[0] in documents})
    for document in sorted(documents):
        for name in [*store.names(f"structured/{document}"), *store.names(f"parsed/{document}")]:
            store.delete(name)


def discard_lost_versions(workspace: Workspace) -> None:
    """Discard versions that can't be gone back to: their files are missing or cut. Call it under the lease."""
    store, pointer = workspace.store, readable_pointer(workspace.store)
    # Rows that the live version lacks too are made again with it.
    made_again = {error.name for error in missing_or_cut(store, pointer.version)} if pointer else set()
    for version in [*store.folders("versions"), *_lost_versions(store)]:
        name = manifest_name(version)
        if (pointer is None or version != pointer.version) and store.exists(name):
            errors = [*_unreadable_objects(store, [name]), *missing_or_cut(store, version)]
            if any(error.name not in made_again for error in errors):
                discard(workspace, [name])
    if pointer is not None and (lost := _lost_versions(store)):
        drop_previous(store, lost)


def _lost_versions(store: ObjectStore) -> list[str]:
    """Return the pointer's previous version where its manifest is missing."""
    pointer = readable_pointer(store)
    previous = pointer.previous if pointer else None
    return [previous] if previous and not store.exists(manifest_name(previous)) else []


def _as_far_as_read(names: Iterable[str]) -> Iterator[str]:
    """Yield what a version needs, as far as its rows can be read."""
    with contextlib.suppress(DamagedError):
        yield from names


def _unreadable_objects(store: ObjectStore, names: Iterable[str], *, optional: bool = False) -> Iterator[DamagedError]:
    for name in names:
        try:
            check_object(store, name)
        except MissingError as error:
            if not optional:
                yield error
        except DamagedError as error:
            if isinstance(error.__cause__, PermissionError):
                raise  # unreadable for this user, which isn't damage
            yield error


def _documents_with(store: ObjectStore, version: str, figure: str) -> set[str]:
    """Return the documents that contain a figure, or of which it is a page; all where that can't be read."""

    def read() -> set[str]:
        pages = (row for part in evidence_parts(store, version) for row in page_rows(part))
        placed = (row for part in placement_parts(store, version) for row in part.select(_PLACED).to_pylist())
        documents = {doc_id for doc_id, _, picture in pages if picture == figure}
        return documents | {row["doc_id"] for row in placed if row["figure_id"] == figure}

    documents = unless_damaged(read)
    return set(store.folders("parsed")) if documents is None else documents
