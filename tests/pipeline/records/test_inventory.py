"""The files of a version: which are missing, cut or changed."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from pipeline.records.manifests import changed, missing_or_cut, read_inventory, write_inventory
from schemas.ids import version_file
from schemas.ports import ObjectStore

VERSION = "20260101T000000Z-00000000"
PARTS, PLAN, NOTE = (version_file(VERSION, name) for name in ("parts.json", "plan.json", "stages/parse.json"))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """Return a store with two files of a version, and an object beside it."""
    folder_store = open_store(str(tmp_path / "store"))
    for name in (PARTS, PLAN, NOTE, version_file(VERSION, "index.json"), "documents/other.pdf"):
        folder_store.replace(name, b"{}")
    write_inventory(folder_store, VERSION)
    folder_store.replace(version_file(VERSION, "manifest.json"), b"{}")
    return folder_store


def test_an_inventory_lists_the_files_of_its_version(store: ObjectStore) -> None:
    assert [item.name for item in read_inventory(store, VERSION)] == [PARTS, PLAN, NOTE]
    assert list(missing_or_cut(store, VERSION)) == list(changed(store, VERSION)) == []


def test_what_is_missing_or_cut_is_found_by_a_listing(store: ObjectStore) -> None:
    root = Path(store.root)
    (root / PLAN).unlink()
    (root / NOTE).write_bytes(b"cut")
    messages = {error.name: error.message for error in missing_or_cut(store, VERSION)}
    assert messages.keys() == {PLAN, NOTE}
    assert messages[PLAN].endswith("is missing")
    assert "has 3 bytes instead of" in messages[NOTE]
    store.delete(version_file(VERSION, "files.parquet"))
    assert [error.name for error in missing_or_cut(store, VERSION)] == [version_file(VERSION, "files.parquet")]


def test_what_changed_is_found_by_reading(store: ObjectStore) -> None:
    file = Path(store.root) / NOTE
    file.write_bytes(file.read_bytes()[::-1])
    assert list(missing_or_cut(store, VERSION)) == []
    assert [error.name for error in changed(store, VERSION)] == [NOTE]
