"""Record of the last refresh: when it began or ended, how, and the source's listing that it planned with."""

from datetime import UTC, datetime
from typing import Literal

from backends.stores.objects import read_model
from schemas.errors import DamagedError
from schemas.frozen import Frozen
from schemas.ports import ObjectStore

_NAME = "last_refresh.json"

RefreshState = Literal["started", "retrying", "waiting", "failed", "rejected", "published", "unchanged", "held", "refused"]


class LastRefresh(Frozen):
    """The last refresh.

    Attributes:
        run_id: Its run.
        at: When it came into its state.
        state: ``started`` until it ends, ``retrying`` or ``waiting`` for an answer meanwhile; a killed one stays so.
        version: The version that it built or found.
        listing: Digest of the source's listing.
        message: Why it is tried again, has failed or was rejected, or what it asks.
        task: The task that is tried again, or asks.
        until: By when the answer, or the next try, is due.
        succeeded: End of the last refresh that neither failed nor was refused.
    """

    run_id: str
    at: datetime
    state: RefreshState
    version: str
    listing: str
    message: str = ""
    task: str = ""
    until: datetime | None = None
    succeeded: datetime | None = None


def write_last_refresh(store: ObjectStore, last_refresh: LastRefresh) -> None:
    """Replace the record."""
    store.replace(_NAME, last_refresh.model_dump_json().encode())


def read_last_refresh(store: ObjectStore) -> LastRefresh | None:
    """Return the record; None where there is none, or it can't be read."""
    try:
        return read_model(store, _NAME, LastRefresh)
    except (FileNotFoundError, DamagedError):
        return None


def note_refresh(
    store: ObjectStore,
    run_id: str,
    state: RefreshState,
    message: str = "",
    *,
    task: str = "",
    until: datetime | None = None,
) -> None:
    """Record that a refresh is tried again, waits for an answer, goes on, or has failed; the listing is kept.

    One that has published, or found nothing to publish, can only fail.
    """
    before = read_last_refresh(store) or LastRefresh(
        run_id=run_id, at=datetime.now(UTC), state=state, version="", listing=""
    )
    if before.run_id == run_id and before.state in ("published", "unchanged") and state != "failed":
        return
    changed = {"run_id": run_id, "at": datetime.now(UTC), "state": state, "message": message, "task": task, "until": until}
    write_last_refresh(store, before.model_copy(update=changed))
