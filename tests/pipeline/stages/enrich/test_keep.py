"""Records are written as they come."""

from collections.abc import Sequence

import pytest

from pipeline.stages.enrich.keep import Writer
from tests.ray_cluster import wait_until


def test_what_comes_is_written_though_nothing_else_comes() -> None:
    written: list[int] = []
    with Writer(written.extend, every_s=0.01) as writer:
        writer.add([1])
        wait_until(lambda: written == [1], "the first")
        writer.add([2, 3])
        wait_until(lambda: written == [1, 2, 3], "the others")
    assert written == [1, 2, 3]


def test_the_rest_is_written_at_the_end_also_after_an_error() -> None:
    written: list[int] = []
    with Writer(written.extend, every_s=1000) as writer:
        writer.add([1])
    with pytest.raises(ZeroDivisionError), Writer(written.extend, every_s=1000) as writer:
        writer.add(2 // divisor for divisor in (1, 2, 0))
    assert written == [1, 2, 1]


def test_what_cannot_be_written_ends_the_work_and_is_tried_once_more() -> None:
    tried: list[Sequence[int]] = []

    def write(records: Sequence[int]) -> None:
        tried.append(records)
        if len(tried) == 1:
            raise OSError("the disk is full")

    def work(writer: Writer[int]) -> None:
        writer.add([1])
        wait_until(lambda: tried, "a try")
        wait_until(lambda: writer.add([]), "an error")

    with pytest.raises(OSError, match="full"), Writer(write, every_s=0.01) as writer:
        work(writer)
    assert tried == [[1], [1]]
