"""The current rights of a corpus's documents: one object, moved by compare-and-swap, that every kept version obeys.

``access/CURRENT`` names ``access/<digest>.parquet``, which has a row for each set of principals with the documents of that set.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from backends.stores.objects import read_table, reading, unless_damaged
from pipeline.records.publication import note_event, readable_pointer, this_person
from schemas.access import Rights
from schemas.base import Frozen
from schemas.errors import MissingError
from schemas.ids import sha256
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore

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
    current = _current(store)
    if current is None:
        corpus = store.root.rstrip("/").rpartition("/")[2]
        raise MissingError(
            f"{store.root} has no rights of documents yet, so nobody may see any; run: inset access {corpus} --apply",
            CURRENT,
        )
    return current[0]


def read_rights(store: ObjectStore, digest: str) -> Rights:
    """Return rights by their digest; raises ``DamagedError`` where they can't be read."""
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
        current, etag = unless_damaged(lambda: _current(store)) or (None, store.etag(CURRENT))
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
            about = f"{changed} documents: {current.digest[:16] if current else 'none'} to {digest[:16]}"
            live = readable_pointer(store)
            note_event(store, "access", by=applied.by, reason=reason, live=live, at=applied.at, about=about)
            return applied, changed


def _current(store: ObjectStore) -> tuple[CurrentRights, str] | None:
    stored = store.read_mutable(CURRENT)
    if stored is None:
        return None
    with reading(store, CURRENT):
        return CurrentRights.model_validate_json(stored[0]), stored[1]
