"""Records of finished work are found by id, in the newest shard that holds them."""

from pathlib import Path

import pyarrow as pa
import pytest

from backends.stores.object_store import open_store
from pipeline.records.cache import ShardedCache
from schemas.ports import ObjectStore

SCHEMA = pa.schema((pa.field("id", pa.string()), pa.field("value", pa.int64())))


def _records(*numbers: int) -> pa.Table:
    return pa.table({"id": [f"id{number:02}" for number in numbers], "value": list(numbers)}, schema=SCHEMA)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "store"))


def _open(store: ObjectStore) -> ShardedCache:
    return ShardedCache(store, "vectors/text/key", SCHEMA)


def _values(found: pa.Table) -> list[int | None]:
    return sorted(found.column("value").to_pylist(), key=lambda value: value or 0)


def test_what_was_appended_is_found_by_another_process(store: ObjectStore) -> None:
    cache = _open(store)
    cache.append(_records(1, 2, 3))
    cache.append(_records(3, 4))
    for opened in (cache, _open(store)):
        assert opened.missing(["id00", "id01", "id04", "id09"]) == ["id00", "id09"]
        assert _values(opened.read(["id03", "id01", "id00"])) == [1, 3]
        assert opened.ids() == {"id01", "id02", "id03", "id04"}


def test_only_as_many_shards_are_read_as_are_needed(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _open(store)
    for first in range(0, 40, 10):
        cache.append(_records(*range(first, first + 10)))
    opened, read = _open(store), set()
    get = type(store).get

    def counted(self: ObjectStore, name: str) -> bytes:
        read.add(name)
        return get(self, name)

    monkeypatch.setattr(type(store), "get", counted)
    assert _values(opened.read(["id33", "id35"])) == [33, 35]
    assert len(read) == 1
    assert _values(opened.read(["id01", "id39"])) == [1, 39]
    assert len(read) == 4


def test_a_damaged_shard_holds_no_record_and_goes_with_the_next_one(store: ObjectStore) -> None:
    cache = _open(store)
    cache.append(_records(1, 2))
    damaged = Path(store.root, *store.names(cache.folder))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    cache = _open(store)
    assert cache.missing(["id01"]) == ["id01"]
    cache.append(_records(1))
    assert not damaged.exists()
    assert _values(_open(store).read(["id01", "id02"])) == [1]


def test_what_is_forgotten_is_missing_and_other_shards_stay_as_they_are(store: ObjectStore) -> None:
    cache = _open(store)
    for numbers in ((1, 2, 3), (4, 5), (5, 6), (7,)):
        cache.append(_records(*numbers))
    before = store.names(cache.folder)
    cache.forget(["id02", "id05", "id09"])
    for opened in (cache, _open(store)):
        assert opened.ids() == {"id01", "id03", "id04", "id06", "id07"}
        assert opened.missing(["id02", "id05", "id06"]) == ["id02", "id05"]
        assert [name for name in before if name in store.names(cache.folder)] == before[-1:]
    cache.forget(["id01", "id03", "id04", "id06", "id07"])
    assert _open(store).ids() == set()
