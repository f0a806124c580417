"""Which shared objects there are, and which of them versions need."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.inventory import SHARED, Damage, missing_or_cut, read_inventory, read_own, write_inventory
from pipeline.records.shared_objects import ABSENT, SharedObjects
from schemas.ids import sha256, version_file
from schemas.ports import ObjectStore

VERSION = "20260101T000000Z-00000000"
DOC, OTHER, FIGURE = (sha256(name) for name in (b"one", b"two", b"a figure"))
KEPT = {
    f"documents/{DOC}.pdf",
    f"parsed/{DOC}/k.parquet",
    f"figures/{FIGURE}.png",
}
SPARE = {
    f"documents/{OTHER}.pdf",
    f"parsed/{DOC}/l.parquet",
    f"parsed/{DOC}/k/pages.parquet",
    f"figures/{OTHER}.png",
}
NAMED = [f"documents/{DOC}.pdf", f"parsed/{DOC}/k.parquet", *[f"figures/{FIGURE}.png"] * 2]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """Return a store with objects that a version needs, and others."""
    made = open_store(str(tmp_path / "store"))
    for name in sorted(KEPT | SPARE):
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_bytes(name.encode())
    made.replace(version_file(VERSION, "plan.json"), b"{}")
    return made


def test_what_is_needed_and_what_is_not_are_all_there_is(store: ObjectStore) -> None:
    needed = [*NAMED, f"figures/{DOC}.png"]
    with TemporaryTables() as tables:
        objects = SharedObjects(tables, store)
        found = {row["name"]: row["bytes"] for part in objects.needed(needed) for row in part.to_pylist()}
        assert found == {name: len(name) for name in KEPT} | {f"figures/{DOC}.png": ABSENT}
        assert dict(objects.spare(needed)) == {name: len(name) for name in SPARE}


def _found(store: ObjectStore) -> list[Damage]:
    with TemporaryTables() as tables:
        return list(missing_or_cut(store, VERSION, SharedObjects(tables, store)))


def test_an_inventory_lists_what_the_version_needs_whatever_the_order_it_was_named_in(store: ObjectStore) -> None:
    first = write_inventory(store, VERSION, NAMED)
    assert {item.name for item in read_inventory(store, VERSION) or ()} >= KEPT
    assert not {item.name for item in read_inventory(store, VERSION) or ()} & SPARE
    assert write_inventory(store, VERSION, reversed(NAMED)) == first
    own = {item.name.rpartition("/")[2] for item in read_own(store, VERSION) or ()}
    assert own == {"plan.json", "rows-00001-of-00001.parquet"}


def test_what_is_missing_or_cut_is_found_by_a_listing(store: ObjectStore, tmp_path: Path) -> None:
    write_inventory(store, VERSION, NAMED)
    root = tmp_path / "store"

    def look() -> dict[str, str]:
        return {damage.name: damage.fault.partition(" ")[2] for damage in _found(store)}

    assert look() == {}
    (root / f"figures/{FIGURE}.png").unlink()
    (root / f"parsed/{DOC}/k.parquet").write_bytes(b"cut")
    (root / f"figures/{OTHER}.png").unlink()
    cut = f"parsed/{DOC}/k.parquet"
    assert look() == {f"figures/{FIGURE}.png": "is missing", cut: f"has 3 bytes instead of {len(cut)}"}
    (listed,) = store.names(version_file(VERSION, SHARED))
    store.delete(listed)
    assert look().keys() == {listed}
