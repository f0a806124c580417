"""Records of finished work are found by id, in the newest shard that holds them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
import pytest

from backends.stores.object_store import open_store
from pipeline.records.cache import RecordCache
from schemas.parquet import table_of
from schemas.ports import ObjectStore


@dataclass(frozen=True)
class Numbered:
    """A record."""

    id: str
    value: int


def _records(*numbers: int) -> list[Numbered]:
    return [Numbered(f"id{number:02}", number) for number in numbers]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "store"))


def _open(store: ObjectStore) -> RecordCache[Numbered]:
    return RecordCache(store, "captions/key", Numbered)


def _values(records: Iterable[Numbered]) -> list[int]:
    return sorted(record.value for record in records)


def test_what_was_appended_is_found_by_another_process(store: ObjectStore) -> None:
    cache = _open(store)
    cache.append(_records(1, 2, 3))
    cache.append(_records(3, 4))
    for opened in (cache, _open(store)):
        assert opened.missing(["id00", "id01", "id04", "id09"]) == ["id00", "id09"]
        assert _values(opened.read(["id03", "id01", "id00"])) == [1, 3]
        assert opened.ids() == {"id01", "id02", "id03", "id04"}


@pytest.fixture
def reads(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """Count how often each object is read whole, and how often it is opened to read a part."""
    whole_reads, parts = Counter[str](), Counter[str]()
    get, opening = type(store).get, type(store).open

    def counted(self: ObjectStore, name: str) -> bytes:
        whole_reads[name] += 1
        return get(self, name)

    def counted_too(self: ObjectStore, name: str) -> BinaryIO:
        parts[name] += 1
        return opening(self, name)

    monkeypatch.setattr(type(store), "get", counted)
    monkeypatch.setattr(type(store), "open", counted_too)
    return whole_reads, parts


def test_each_shard_is_read_once_and_only_where_a_record_is_wanted(
    store: ObjectStore, reads: tuple[Counter[str], Counter[str]]
) -> None:
    cache = _open(store)
    for first in range(0, 90, 10):
        cache.append(_records(*range(first, first + 10)))
    whole_reads, names = reads
    cache = _open(store)
    assert _values(cache.read(["id33", "id35"])) == [33, 35]
    assert (len(names), len(whole_reads)) == (9, 1)
    for number in range(0, 90, 3):
        assert _values(cache.read([f"id{number:02}", f"id{89 - number:02}"])) == sorted({number, 89 - number})
    assert cache.read(["id99"]) == ()
    for number in range(90):
        assert cache.missing([f"id{number:02}", "id99"]) == ["id99"]
    assert (whole_reads.total(), names.total()) == (9, 9)
    cache.close()
    assert _values(cache.read(["id00"])) == [0]
    assert whole_reads.total() == 10


def test_records_are_found_in_which_ever_order_shards_are_written_and_looked_at(store: ObjectStore) -> None:
    numbers = list(range(100))
    first, second = _open(store), _open(store)
    for start in (0, 20, 60):
        first.append(_records(*numbers[start : start + 20]))
        assert first.missing(["id99"]) == ["id99"]
    assert _values(second.read(["id05"])) == [5]
    second.append(_records(*numbers[80:]))
    second.remove(["id03", "id65"])
    second.append(_records(*numbers[40:60]))
    for cache in (second, _open(store)):
        assert cache.missing(f"id{number:02}" for number in numbers) == ["id03", "id65"]
        remaining = [number for number in numbers if number not in (3, 65)]
        assert _values(cache.read([f"id{number:02}" for number in numbers])) == remaining


def test_many_small_shards_are_joined_and_large_ones_stay(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.records.cache._SMALL_SHARDS", 3)
    cache = _open(store)
    for first in range(0, 50, 10):
        cache.append(_records(*range(first, first + 10)))
    shards = store.names(cache.folder)
    monkeypatch.setattr("pipeline.records.cache._SMALL_BYTES", min(store.sizes(cache.folder).values()))
    _open(store).compact()
    assert store.names(cache.folder) == shards
    monkeypatch.undo()
    monkeypatch.setattr("pipeline.records.cache._SMALL_SHARDS", 3)
    _open(store).compact()
    assert len(store.names(cache.folder)) == 1
    assert len(_open(store).ids()) == 50


def test_a_damaged_shard_holds_no_record_and_goes_with_the_next_one(store: ObjectStore) -> None:
    cache = _open(store)
    cache.append(_records(1, 2))
    damaged = Path(store.root, *store.names(cache.folder))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    for cache in (_open(store), _open(store), _open(store)):
        assert cache.read(["id01"]) == ()
        assert cache.ids() == set()
        assert cache.missing(["id01"]) == ["id01"]
    cache.append(_records(1))
    assert not damaged.exists()
    assert _values(_open(store).read(["id01", "id02"])) == [1]


def test_a_record_is_read_from_an_older_shard_where_the_newest_that_holds_it_is_damaged(store: ObjectStore) -> None:
    cache = _open(store)
    cache.append(_records(1, 2))
    cache.append(_records(2, 3))
    newest = Path(store.root, store.names(cache.folder)[-1])
    data = bytearray(newest.read_bytes())
    column = pq.ParquetFile(newest).metadata.row_group(0).column(1)  # after the ids, which alone are read at first
    data[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size // 2] ^= 1
    newest.write_bytes(bytes(data))
    assert _values(_open(store).read(["id01", "id02", "id03"])) == [1, 2]


def test_what_is_forgotten_is_missing_and_other_shards_stay_as_they_are(store: ObjectStore) -> None:
    cache = _open(store)
    for numbers in ((1, 2, 3), (4, 5), (5, 6), (7,)):
        cache.append(_records(*numbers))
    before = store.names(cache.folder)
    cache.remove(["id02", "id05", "id09"])
    for opened in (cache, _open(store)):
        assert opened.ids() == {"id01", "id03", "id04", "id06", "id07"}
        assert opened.missing(["id02", "id05", "id06"]) == ["id02", "id05"]
        assert [name for name in before if name in store.names(cache.folder)] == before[-1:]
    cache.remove(["id01", "id03", "id04", "id06", "id07"])
    assert _open(store).ids() == set()


def test_shards_are_joined_as_far_as_their_bytes_go(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _open(store)
    for first in range(0, 60, 10):
        cache.append(_records(*range(first, first + 10)))
    monkeypatch.setattr("pipeline.records.cache._BYTES_A_SHARD", 2 * table_of(Numbered, _records(*range(9))).nbytes)
    cache.remove([f"id{first:02}" for first in range(0, 60, 10)])
    assert len(store.names("captions/key")) == 3
    assert len(_open(store).ids()) == 54
