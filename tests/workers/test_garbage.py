"""Garbage is looked for less often, and as before afterwards."""

import gc

import pytest

from workers.garbage import infrequent_gc


def _fail_while_it_is_rare(before: int) -> None:
    with infrequent_gc():
        assert gc.get_threshold()[0] > before
        assert gc.isenabled()
        raise ValueError("broken")


def test_the_process_looks_as_often_as_before_whatever_happens() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(ValueError, match="broken"):
        _fail_while_it_is_rare(before[0])
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == frozen
