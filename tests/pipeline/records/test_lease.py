"""The lease: one refresh at a time."""

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends.stores.object_store import FolderStore, open_store
from pipeline.records.lease import LEASE, TERM, acquire, holding, release, renew, still_held
from pipeline.records.publication import LIVE
from schemas.errors import TransientError
from schemas.ports import ObjectStore
from schemas.versions import Lease, Pointer


def _make_older(store: ObjectStore, age: timedelta) -> None:
    path = Path(store.root) / LEASE
    written = path.stat().st_mtime - age.total_seconds()
    os.utime(path, (written, written))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def _write(store: ObjectStore, lease: Lease) -> None:
    current = store.read_mutable(LEASE)
    assert store.swap(LEASE, lease.model_dump_json().encode(), current[1] if current else None)


def test_a_second_run_is_told_who_holds_the_lease(store: ObjectStore) -> None:
    acquire(store, "one", tied_to_process=True)
    with pytest.raises(TransientError, match="run 'one' is using this corpus"):
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


def test_renewing_extends_the_term_of_a_held_lease(store: ObjectStore) -> None:
    lease = acquire(store, "one", tied_to_process=False)
    _write(store, lease.model_copy(update={"until": datetime.now(UTC) + timedelta(seconds=1)}))
    assert renew(store, "one")
    current = store.read_mutable(LEASE)
    assert current is not None
    assert Lease.model_validate_json(current[0]).until > datetime.now(UTC) + timedelta(minutes=4)


def test_the_renewer_of_a_dying_task_does_not_take_a_released_lease_again(store: ObjectStore) -> None:
    lease = acquire(store, "one", tied_to_process=False)
    release(store, "one")
    assert not renew(store, "one")
    assert not still_held(store, lease)
    second = acquire(store, "two", tied_to_process=False)
    assert not renew(store, "one")
    assert still_held(store, second)


class _RenewedOnce(FolderStore):
    """A store in which ``lease`` is renewed once, right before another write."""

    lease: Lease | None = None

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        lease, self.lease = self.lease, None
        if lease is not None:
            assert renew(self, lease.run_id)
        return super().swap(name, data, expected)


def test_a_lease_is_released_though_it_is_renewed_meanwhile(tmp_path: Path) -> None:
    store = _RenewedOnce(tmp_path)
    lease = acquire(store, "one", tied_to_process=False)
    store.lease = lease
    release(store, "one")
    assert store.lease is None
    assert not still_held(store, lease)


def test_releasing_removes_the_holder_whatever_the_clock_does_since(store: ObjectStore) -> None:
    first = acquire(store, "one", tied_to_process=False)
    release(store, "one")
    current = store.read_mutable(LEASE)
    assert current is not None
    released = Lease.model_validate_json(current[0])
    assert (released.run_id, released.host, released.fence) == ("", "", first.fence)
    # As if the clock had been set back by an hour since.
    _write(store, released.model_copy(update={"until": datetime.now(UTC) + timedelta(hours=1)}))
    assert acquire(store, "two", tied_to_process=True).fence == first.fence + 1


@pytest.mark.parametrize("ahead", [timedelta(hours=-1), timedelta(hours=3), timedelta(days=4000)])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_holder_keeps_its_lease_for_a_term_whatever_its_clock_says(
    store: ObjectStore, ahead: timedelta, elsewhere: bool
) -> None:
    held = acquire(store, "one", tied_to_process=True)
    _write(store, held.model_copy(update={"until": held.until + ahead} | ({"host": "far"} if elsewhere else {})))
    with pytest.raises(TransientError, match="run 'one' is using this corpus"):
        acquire(store, "two", tied_to_process=True)
    _make_older(store, TERM)
    assert acquire(store, "two", tied_to_process=True).fence == held.fence + 1


def test_who_waits_reads_host_process_and_dates(store: ObjectStore) -> None:
    first = acquire(store, "one", tied_to_process=True)
    lease = acquire(store, "one", tied_to_process=True)
    assert lease.since == first.since is not None
    with pytest.raises(TransientError) as caught:
        acquire(store, "two", tied_to_process=True)
    (message,) = caught.value.args
    assert (
        f"on host {socket.gethostname()}, process {os.getpid()}, since {lease.since:%Y-%m-%d %H:%M:%S} UTC, "
        f"and holds it until {lease.until:%Y-%m-%d %H:%M:%S} UTC at least; wait for it"
    ) in message
    assert lease.host.partition("@")[2] not in message, "the boot id means nothing to people"


def test_a_lease_of_an_earlier_release_is_read(store: ObjectStore) -> None:
    old = Lease(run_id="far", fence=3, until=datetime.now(UTC) + timedelta(minutes=1), host="far@boot")
    assert store.swap(LEASE, old.model_dump_json(exclude={"since"}).encode(), None)
    with pytest.raises(TransientError, match="using this corpus on host far, and holds it until"):
        acquire(store, "two", tied_to_process=True)


@pytest.mark.parametrize("damage", [b"", b'{"run_id":"one","fe', b"\xff\xfe", b"[1]"])
def test_a_damaged_lease_holds_no_one_and_the_fence_still_grows(store: ObjectStore, damage: bytes) -> None:
    pointer = Pointer(version="v", previous=None, since=datetime.now(UTC), fence=7)
    assert store.swap(LIVE, pointer.model_dump_json().encode(), None)
    first = acquire(store, "one", tied_to_process=False)
    (Path(store.root) / LEASE).write_bytes(damage)
    assert not still_held(store, first)
    release(store, "one")
    second = acquire(store, "two", tied_to_process=False)
    assert (second.run_id, second.fence) == ("two", 8)
    assert still_held(store, second)


def test_a_lost_lease_is_no_reason_never_to_publish_again(store: ObjectStore) -> None:
    pointer = Pointer(version="v", previous=None, since=datetime.now(UTC), fence=7)
    assert store.swap(LIVE, pointer.model_dump_json().encode(), None)
    assert acquire(store, "two", tied_to_process=False).fence == 8


def test_a_dead_holder_on_this_machine_is_replaced_at_once(store: ObjectStore) -> None:
    code = (
        "import sys; from backends.stores.object_store import open_store; from pipeline.records.lease import acquire;"
        "acquire(open_store(sys.argv[1]), 'dead', tied_to_process=True)"
    )
    subprocess.run([sys.executable, "-c", code, store.root], check=True)
    assert acquire(store, "two", tied_to_process=True).run_id == "two"


def test_a_holder_elsewhere_is_replaced_only_after_its_term(store: ObjectStore) -> None:
    elsewhere = Lease(run_id="far", fence=3, until=datetime.now(UTC) + timedelta(minutes=1), host="far", pid=1)
    _write(store, elsewhere)
    with pytest.raises(TransientError, match="far"):
        acquire(store, "two", tied_to_process=True)
    _make_older(store, TERM)
    assert acquire(store, "two", tied_to_process=True).fence == 4
