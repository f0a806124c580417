"""Who may refresh a corpus: one run at a time, re-entered by each of its tasks."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psutil

from schemas.errors import TransientError, UserError
from schemas.ports import ObjectStore
from schemas.versions import Lease

LEASE = "LEASE"
TERM = timedelta(minutes=5)


def _now() -> datetime:
    return datetime.now(UTC)


def _host() -> str:
    """Name this machine's boot: a process id means nothing on another machine, nor after a restart."""
    return f"{socket.gethostname()}@{int(psutil.boot_time())}"


def acquire(store: ObjectStore, run_id: str, *, tied_to_process: bool) -> Lease:
    """Take the lease, or re-enter it.

    A holder whose process on this machine is dead is replaced at once, any other when its term has run out.

    Args:
        store: The corpus's store.
        run_id: Who asks; the same run may ask again from another process.
        tied_to_process: The run lives and dies with this process; an Airflow run doesn't.

    Raises:
        UserError: Another run holds the lease.
        TransientError: Another run took it at the same moment.
    """
    found = store.read_mutable(LEASE)
    held = Lease.model_validate_json(found[0]) if found else None
    if held is not None and held.run_id != run_id and _alive(held):
        raise UserError(
            f"{store.root}: run {held.run_id!r} is refreshing this corpus since before {held.until:%H:%M:%S} UTC; "
            f"wait for it, or stop it first"
        )
    fence = (held.fence if held else 0) + (0 if held and held.run_id == run_id else 1)
    lease = Lease(
        run_id=run_id, fence=fence, until=_now() + TERM, host=_host(), pid=os.getpid() if tied_to_process else None
    )
    if not store.swap(LEASE, lease.model_dump_json().encode(), found[1] if found else None):
        raise TransientError(f"{store.root}: another run took the lease at the same moment; try again")
    return lease


def release(store: ObjectStore, run_id: str) -> None:
    """Give the lease back; nothing happens when somebody else holds it. The fencing number is kept."""
    found = store.read_mutable(LEASE)
    if found is None:
        return
    held = Lease.model_validate_json(found[0])
    if held.run_id == run_id:
        store.swap(LEASE, held.model_copy(update={"until": _now(), "pid": None}).model_dump_json().encode(), found[1])


@contextlib.contextmanager
def holding(store: ObjectStore, run_id: str, *, tied_to_process: bool) -> Iterator[Lease]:
    """Hold the lease during a block, renewed in the background; it is not given back at the end."""
    lease = acquire(store, run_id, tied_to_process=tied_to_process)
    done = threading.Event()

    def renew() -> None:
        while not done.wait(TERM.total_seconds() / 5):
            # A failed renewal is not the end: the term is long, and publishing checks the fence.
            with contextlib.suppress(TransientError, UserError):
                acquire(store, run_id, tied_to_process=tied_to_process)

    renewer = threading.Thread(target=renew, name="lease", daemon=True)
    renewer.start()
    try:
        yield lease
    finally:
        done.set()
        renewer.join()


def still_held(store: ObjectStore, lease: Lease) -> bool:
    """Say whether nobody took the lease over since."""
    found = store.read_mutable(LEASE)
    if found is None:
        return False
    held = Lease.model_validate_json(found[0])
    return (held.run_id, held.fence) == (lease.run_id, lease.fence)


def _alive(lease: Lease) -> bool:
    if lease.until <= _now():
        return False
    on_this_machine = lease.pid is not None and lease.host == _host()
    return psutil.pid_exists(lease.pid) if on_this_machine and lease.pid is not None else True
