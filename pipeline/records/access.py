"""The current rights of a corpus's documents: one object, moved by compare-and-swap, that every kept version obeys.

``access/CURRENT`` names ``access/<digest>.parquet``, which has a row for each set of principals with the documents of that set.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial

from backends.stores.objects import read_mutable, read_table, reading, unless_damaged
from pipeline.corpus.statements import AccessStatement, Statements
from pipeline.corpus.workspace import Workspace
from pipeline.records.ledger import indexed_sources, readable_ledger
from pipeline.records.publication import note_event, this_person
from schemas.access import NOBODY, Principals, narrowest
from schemas.base import Frozen
from schemas.errors import MissingError
from schemas.ids import sha256
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore
from schemas.reports import AccessReport, SourceAccess
from schemas.rights import Rights

FOLDER = "access"
CURRENT = f"{FOLDER}/CURRENT"


class CurrentRights(Frozen):
    """Which rights hold now, who applied them, and when."""

    digest: str
    at: datetime
    by: str


def rights_file(digest: str) -> str:
    """Name the object of some rights."""
    return f"{FOLDER}/{digest}.parquet"


def read_current(store: ObjectStore) -> CurrentRights:
    """Return which rights hold now, at the cost of one small read; without them nothing may be shown.

    Raises:
        DamagedError: None were ever applied, or the object is lost or can't be decoded.
    """
    current, _ = read_mutable(store, CURRENT, CurrentRights)
    if current is None:
        corpus = store.root.rstrip("/").rpartition("/")[2]
        raise MissingError(
            f"{store.root} has no rights of documents yet, so nobody may see any; run: inset access {corpus} --apply",
            CURRENT,
        )
    return current


def read_rights(store: ObjectStore, digest: str) -> Rights:
    """Return rights by their digest; raises ``DamagedError`` if they can't be read."""
    name = rights_file(digest)
    table = read_table(store, name)
    with reading(store, name):
        return Rights.of_table(table)


def apply_rights(
    store: ObjectStore, change: Callable[[Rights | None], Rights], *, by: str | None = None, reason: str | None = None
) -> tuple[CurrentRights, int]:
    """Make ``change`` of the rights that hold now the current ones, for every version at once; the audit log gets an event.

    Returns them, and of how many documents rights changed. ``change`` is asked again where another process came first; None
    means that there are none that can be read.
    """
    while True:
        # Rights that are damaged count as none, so that an operator can apply them afresh.
        current, etag = unless_damaged(lambda: read_mutable(store, CURRENT, CurrentRights)) or (None, store.etag(CURRENT))
        before = unless_damaged(partial(read_rights, store, current.digest)) if current is not None else None
        now = change(before)
        data = to_parquet(now.table())
        digest = sha256(data)
        if current is not None and before is not None and current.digest == digest:
            return current, 0
        changed = len(now.changed_since(before)) if before is not None else len(now)
        store.put(rights_file(digest), data)
        applied = CurrentRights(digest=digest, at=datetime.now(UTC), by=by or this_person())
        if store.swap(CURRENT, applied.model_dump_json().encode(), etag):
            # Readers may still be reading those that held until now.
            remove_rights(store, {rights_file(digest), *([rights_file(current.digest)] if current is not None else [])})
            # Another process, which applied rights just before, may have taken these for old ones.
            if not store.exists(rights_file(digest)):
                store.put(rights_file(digest), data)
            about = f"{changed} documents: {current.digest[:16] if current else 'none'} to {digest[:16]}"
            note_event(store, "access", by=applied.by, reason=reason, at=applied.at, about=about)
            return applied, changed


def remove_rights(store: ObjectStore, kept_names: Container[str]) -> None:
    """Remove rights that hold no more; the audit log keeps the history."""
    for name in store.names(FOLDER):
        if name != CURRENT and name not in kept_names:
            store.delete(name)


def update_rights(workspace: Workspace, *, by: str | None = None, reason: str | None = None) -> tuple[CurrentRights, int]:
    """Read who may read which document, and make that the current rights of all kept versions, unfinished ones included.

    A source of which nothing is said leaves its document's rights as they are. Returns and raises as ``apply_rights`` and
    ``Statements`` do.
    """

    def change(before: Rights | None) -> Rights:
        # Read after the current rights, so that of two processes none writes what an older table said.
        sources = current_sources(workspace.store)
        return Rights(_readers(sources, _stated(workspace, sources), before))

    return apply_rights(workspace.store, change, by=by, reason=reason)


def _stated(workspace: Workspace, sources: Mapping[str, Sequence[str]]) -> dict[str, AccessStatement]:
    return Statements(workspace).access(sorted({source for names in sources.values() for source in names}))


def _readers(
    sources: Mapping[str, Sequence[str]], stated: Mapping[str, AccessStatement], before: Rights | None
) -> dict[str, Principals]:
    readers = {}
    for doc_id, names in sources.items():
        earlier = before.readers(doc_id) if before is not None else NOBODY
        stated_principals = (stated[source].principals for source in names)
        readers[doc_id] = narrowest(earlier if principals is None else principals for principals in stated_principals)
    return readers


def access_report(workspace: Workspace, principals: Principals | None, globs: Sequence[str]) -> AccessReport:
    """Return who may read each source of kept versions, and why; only what ``principals`` allow, and sources that fit a glob."""
    current = read_current(workspace.store)
    rights, sources = read_rights(workspace.store, current.digest), current_sources(workspace.store)
    stated = _stated(workspace, sources)
    next_readers = _readers(sources, stated, rights)
    rows = []
    for doc_id, names in sources.items():
        # Of a document with several sources, each says why.
        why = "; ".join(stated[name].where if len(names) == 1 else f"{name}: {stated[name].where}" for name in names)
        readers = rights.readers(doc_id)
        rows += [
            SourceAccess(
                source=source,
                doc_id=doc_id,
                principals=sorted(readers),
                why=why,
                next_principals=sorted(next_readers[doc_id]) if next_readers[doc_id] != readers else None,
            )
            for source in names
            if not globs or any(fnmatchcase(source, glob) for glob in globs)
            if principals is None or rights.allows(doc_id, principals)
        ]
    rows.sort(key=lambda row: row.source)
    return AccessReport(corpus=workspace.corpus.name, at=current.at, by=current.by, documents=len(sources), sources=rows)


def current_sources(store: ObjectStore) -> dict[str, tuple[str, ...]]:
    """Return the sources of each document of any kept version: those of the newest version that has it."""
    sources: dict[str, tuple[str, ...]] = {}
    for version in store.folders("versions"):
        sources |= indexed_sources(readable_ledger(store, version))
    return sources
