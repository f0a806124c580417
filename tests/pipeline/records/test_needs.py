"""Which records of a cache versions need."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.cache import RecordCache
from pipeline.records.retention import NeededRecords
from schemas.documents import Recognised


def _names(*numbers: int) -> list[str]:
    return [f"{number:040}" for number in numbers]


def _cache(folder: Path, *shards: tuple[int, ...]) -> RecordCache[Recognised]:
    cache = RecordCache(open_store(str(folder)), "recognised/k", Recognised)
    for numbers in shards:
        cache.append([Recognised(name, ()) for name in _names(*numbers)])
    return cache


@pytest.fixture
def needed(tmp_path: Path, tables: TemporaryTables) -> NeededRecords:
    """Return what is needed of a cache that has a record twice, some to spare, and lacks two."""
    cache = _cache(tmp_path / "here", tuple(range(300)), (7, 8, 300, 301))
    needed_records = NeededRecords(cache, tables)
    needed_records.add(_names(*range(200), 400))
    needed_records.add(_names(5, 301, 400, 401))
    return needed_records


def test_records_are_to_spare_once_each(needed: NeededRecords) -> None:
    assert sorted(needed.spare()) == _names(*range(200, 301))
