"""Records are written as they come."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from pipeline.records.cache import RecordCache
from pipeline.stages.enrich.captions import Writer
from pipeline.stages.enrich.stage import keep
from schemas.documents import Recognised
from schemas.stages import silent
from tests.waiting import wait_for


def test_records_are_kept_in_small_shards_while_they_come_and_in_few_shards_then(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    cache, peak = RecordCache(store, "looks/key", Recognised), 0

    def batches() -> Iterator[list[Recognised]]:
        nonlocal peak
        for first in range(0, 70 * 256, 256):
            yield [Recognised(f"{number}", ()) for number in range(first, first + 256)]
            peak = max(peak, len(store.names("looks")))

    keep(cache, batches(), "look", 70 * 256, silent)
    assert peak >= 69
    assert len(store.names("looks")) == 1
    assert len(RecordCache(store, "looks/key", Recognised).ids()) == 70 * 256


def test_what_comes_is_written_though_nothing_else_comes() -> None:
    stored: list[int] = []
    with Writer(stored.extend, every_s=0.01) as writer:
        writer.add([1])
        wait_for(lambda: stored == [1], "the first")
        writer.add([2, 3])
        wait_for(lambda: stored == [1, 2, 3], "the others")
    assert stored == [1, 2, 3]


def test_the_rest_is_written_at_the_end_also_after_an_error() -> None:
    stored: list[int] = []
    with Writer(stored.extend, every_s=1000) as writer:
        writer.add([1])
    with pytest.raises(ZeroDivisionError), Writer(stored.extend, every_s=1000) as writer:
        writer.add(2 // divisor for divisor in (1, 2, 0))
    assert stored == [1, 2, 1]


def test_what_cannot_be_written_ends_the_work_and_is_tried_once_more() -> None:
    tried: list[Sequence[int]] = []

    def write(records: Sequence[int]) -> None:
        tried.append(records)
        if len(tried) == 1:
            raise OSError("the disk is full")

    def work(writer: Writer[int]) -> None:
        writer.add([1])
        wait_for(lambda: tried, "a try")
        wait_for(lambda: writer.add([]), "an error")

    with pytest.raises(OSError, match="full"), Writer(write, every_s=0.01) as writer:
        work(writer)
    assert tried == [[1], [1]]
