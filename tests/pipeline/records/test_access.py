"""The current rights: one object, moved by compare-and-swap."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from pipeline.records.access import CURRENT, apply_rights, read_current, read_rights
from pipeline.records.publication import read_events
from schemas.errors import MissingError
from schemas.ports import ObjectStore
from schemas.rights import Rights

BOTH = Rights({"a": frozenset({"everyone"}), "b": frozenset({"group:service"})})
ONE = Rights({"a": frozenset(), "b": frozenset({"group:service"})})


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "manuals"))


def test_nothing_may_be_shown_before_rights_are_applied(store: ObjectStore) -> None:
    with pytest.raises(MissingError, match="inset access manuals --apply"):
        read_current(store)


def test_applied_rights_hold_and_have_a_history(store: ObjectStore) -> None:
    assert apply_rights(store, lambda before: BOTH, by="ada")[1] == 2
    applied, changed = apply_rights(store, lambda before: ONE, by="ada", reason="withdrawn")
    assert changed == 1
    assert read_current(store) == applied
    assert dict(read_rights(store, applied.digest)) == dict(ONE)
    events = read_events(store, 9)
    assert [(event.action, event.by, event.reason) for event in events] == [
        ("access", "ada", "withdrawn"),
        ("access", "ada", None),
    ]
    assert events[0].about is not None
    assert events[0].about.startswith("1 documents: ")


def test_equal_rights_change_nothing(store: ObjectStore) -> None:
    first, _ = apply_rights(store, lambda before: BOTH)
    assert apply_rights(store, lambda before: BOTH) == (first, 0)
    assert len(read_events(store, 9)) == 1


def test_of_two_changes_at_once_the_later_sees_the_earlier(store: ObjectStore) -> None:
    snapshots = []

    def change(before: Rights | None) -> Rights:
        snapshots.append(None if before is None else dict(before))
        if len(snapshots) == 1:
            apply_rights(store, lambda _: BOTH)
        return ONE

    apply_rights(store, change)
    assert snapshots == [None, dict(BOTH)]


def test_damaged_rights_show_nothing_and_can_be_applied_again(store: ObjectStore) -> None:
    applied, _ = apply_rights(store, lambda before: BOTH)
    store.delete(f"access/{applied.digest}.parquet")
    with pytest.raises(MissingError, match="inset access manuals --apply"):
        read_rights(store, applied.digest)
    apply_rights(store, lambda before: BOTH)
    assert dict(read_rights(store, read_current(store).digest)) == dict(BOTH)
    store.delete(CURRENT)
    with pytest.raises(MissingError):
        read_current(store)
    apply_rights(store, lambda before: BOTH)
    assert read_current(store).digest == applied.digest
