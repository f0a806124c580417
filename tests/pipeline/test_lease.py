"""The lease: one refresh at a time."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends.stores import open_store
from pipeline.lease import LEASE, acquire, holding, release, still_held
from schemas.errors import UserError
from schemas.ports import ObjectStore
from schemas.versions import Lease


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def _write(store: ObjectStore, lease: Lease) -> None:
    found = store.read_mutable(LEASE)
    assert store.swap(LEASE, lease.model_dump_json().encode(), found[1] if found else None)


def test_a_second_run_is_told_who_holds_the_lease(store: ObjectStore) -> None:
    acquire(store, "one", tied_to_process=True)
    with pytest.raises(UserError, match="run 'one' is refreshing"):
        acquire(store, "two", tied_to_process=True)


def test_a_run_re_enters_its_own_lease_and_keeps_its_fence(store: ObjectStore) -> None:
    first = acquire(store, "one", tied_to_process=False)
    again = acquire(store, "one", tied_to_process=False)
    assert again.fence == first.fence
    assert still_held(store, first)


def test_a_released_lease_goes_to_the_next_run_with_a_larger_fence(store: ObjectStore) -> None:
    with holding(store, "one", tied_to_process=True) as first:
        pass
    release(store, "one")
    second = acquire(store, "two", tied_to_process=True)
    assert second.fence > first.fence
    assert not still_held(store, first)


def test_a_dead_holder_on_this_machine_is_replaced_at_once(store: ObjectStore) -> None:
    code = (
        "import sys; from backends.stores import open_store; from pipeline.lease import acquire;"
        "acquire(open_store(sys.argv[1]), 'dead', tied_to_process=True)"
    )
    subprocess.run([sys.executable, "-c", code, store.root], check=True)
    assert acquire(store, "two", tied_to_process=True).run_id == "two"


def test_a_holder_elsewhere_is_replaced_only_after_its_term(store: ObjectStore) -> None:
    elsewhere = Lease(run_id="far", fence=3, until=datetime.now(UTC) + timedelta(minutes=1), host="far", pid=1)
    _write(store, elsewhere)
    with pytest.raises(UserError, match="far"):
        acquire(store, "two", tied_to_process=True)
    _write(store, elsewhere.model_copy(update={"until": datetime.now(UTC) - timedelta(seconds=1)}))
    assert acquire(store, "two", tied_to_process=True).fence == 4
