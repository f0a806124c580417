"""The lease of a corpus: one run at a time may refresh it; its tasks re-enter the lease."""

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from backends.stores.objects import read_mutable, unless_damaged
from pipeline.records.publication import readable_pointer
from schemas.errors import TransientError, UserError
from schemas.ports import ObjectStore
from schemas.versions import Lease


class HeldError(TransientError):
    """Another run holds the lease."""


LEASE = "LEASE"
TERM = timedelta(minutes=5)
RENEWED_EVERY = TERM / 5
_TIME = "%Y-%m-%d %H:%M:%S"


def _now() -> datetime:
    return datetime.now(UTC)


def _host() -> str:
    """Name this machine and its boot: a process id means nothing on another machine or after a restart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        boot = str(int(psutil.boot_time()))
    return f"{socket.gethostname()}@{boot}"


@contextlib.contextmanager
def alone(store: ObjectStore, task: str) -> Iterator[Lease]:
    """Hold the lease during a block of this process, for a task that is no refresh; raises as ``acquire`` does."""
    run_id = f"{task}-{uuid.uuid4().hex[:12]}"
    with holding(store, run_id, tied_to_process=True) as lease:
        try:
            yield lease
        finally:
            release(store, run_id)


def acquire(store: ObjectStore, run_id: str, *, tied_to_process: bool) -> Lease:
    """Take the lease, or re-enter it; raises ``HeldError`` if another run holds it, or took it at the same moment.

    A holder is replaced whose process on this machine is dead, or that didn't renew its lease for a term, by the store's
    clock: those of two machines may differ. ``tied_to_process``: the run ends with this process, unlike an Airflow run.
    """
    current, etag = _read(store)
    if current is not None and current.run_id != run_id and _is_alive(store, current):
        raise HeldError(
            f"{store.root}: run {current.run_id!r} is using this corpus {_whereabouts(current)}, and holds it until "
            f"{_now() + TERM - timedelta(seconds=store.age_s(LEASE) or 0):{_TIME}} UTC at least; wait for it, or stop it first"
        )
    # A new run gets a larger fence than all before, by which ``move_pointer`` refuses a run that lost its lease unnoticed.
    own_lease = current if current is not None and current.run_id == run_id else None
    lease = Lease(
        run_id=run_id,
        fence=own_lease.fence if own_lease else _last_fence(store, current) + 1,
        until=_now() + TERM,
        host=_host(),
        pid=os.getpid() if tied_to_process else None,
        since=own_lease.since if own_lease else _now(),
    )
    if not store.swap(LEASE, lease.model_dump_json().encode(), etag):
        raise HeldError(f"{store.root}: another run took the lease at the same moment; try again")
    return lease


def _whereabouts(lease: Lease) -> str:
    """Say where a lease's holder runs and since when; its boot id means nothing to people."""
    process = f", process {lease.pid}" if lease.pid is not None else ""
    since = f", since {lease.since:{_TIME}} UTC" if lease.since is not None else ""
    return f"on host {lease.host.partition('@')[0]}{process}{since}"


def renew(store: ObjectStore, run_id: str) -> bool:
    """Extend the term of the lease if this run still holds it, and return whether it does: a released lease stays free."""
    current, etag = _read(store)
    if current is None or current.run_id != run_id:
        return False
    extended = current.model_copy(update={"until": _now() + TERM})
    return store.swap(LEASE, extended.model_dump_json().encode(), etag)


def release(store: ObjectStore, run_id: str) -> None:
    """Release the lease if this run holds it, whoever renews it meanwhile; its fencing number is kept."""
    while True:
        current, etag = _read(store)
        if current is None or current.run_id != run_id:
            return
        free = Lease(run_id="", fence=current.fence, until=_now(), host="")
        if store.swap(LEASE, free.model_dump_json().encode(), etag):
            return


@contextlib.contextmanager
def holding(store: ObjectStore, run_id: str, *, tied_to_process: bool) -> Iterator[Lease]:
    """Hold the lease during a block, renewed in the background; it is not released at the end."""
    lease = acquire(store, run_id, tied_to_process=tied_to_process)
    block_ended = threading.Event()

    def renew_until_done() -> None:
        while not block_ended.wait(RENEWED_EVERY.total_seconds()):
            # The term outlasts a failed renewal, and publishing checks the fence.
            with contextlib.suppress(TransientError, UserError):
                renew(store, run_id)

    renewer = threading.Thread(target=renew_until_done, name="lease", daemon=True)
    renewer.start()
    try:
        yield lease
    finally:
        block_ended.set()
        renewer.join()


def still_held(store: ObjectStore, lease: Lease) -> bool:
    """Return whether a run still holds its lease."""
    current, _ = _read(store)
    return current is not None and (current.run_id, current.fence) == (lease.run_id, lease.fence)


def _read(store: ObjectStore) -> tuple[Lease | None, str | None]:
    """Return the lease and its ETag. A damaged lease counts as free: its holder can't publish without its fence."""
    return unless_damaged(lambda: read_mutable(store, LEASE, Lease)) or (None, store.etag(LEASE))


def _last_fence(store: ObjectStore, lease: Lease | None) -> int:
    """Return the largest known fencing number: the lease's or the pointer's, if the lease was lost."""
    live = readable_pointer(store)
    return max(lease.fence if lease else 0, live.fence if live else 0)


def _is_alive(store: ObjectStore, lease: Lease) -> bool:
    """Return whether a lease has a holder that wrote it less than a term ago."""
    if not lease.run_id:
        return False
    if lease.pid is not None and lease.host == _host() and not psutil.pid_exists(lease.pid):
        return False
    age_s = store.age_s(LEASE)
    return age_s is not None and age_s < TERM.total_seconds()
