"""Record of the last refresh: when it began or ended, how, and the source's listing that it planned with."""

from datetime import datetime
from typing import Literal

from backends.stores.objects import read_model
from schemas.errors import DamagedError
from schemas.frozen import Frozen
from schemas.ports import ObjectStore

_NAME = "last_refresh.json"

RefreshState = Literal["started", "published", "unchanged", "held", "refused"]


class LastRefresh(Frozen):
    """The last refresh.

    Attributes:
        run_id: Its run.
        at: When it came into its state.
        state: ``started`` until it ends; a killed or failed one stays so.
        version: The version that it built or found.
        listing: Digest of the source's listing.
        succeeded: End of the last refresh that neither failed nor was refused.
    """

    run_id: str
    at: datetime
    state: RefreshState
    version: str
    listing: str
    succeeded: datetime | None = None


def write_last_refresh(store: ObjectStore, made: LastRefresh) -> None:
    """Replace the record."""
    store.replace(_NAME, made.model_dump_json().encode())


def read_last_refresh(store: ObjectStore) -> LastRefresh | None:
    """Return the record; None where there is none, or it can't be read."""
    try:
        return read_model(store, _NAME, LastRefresh)
    except (FileNotFoundError, DamagedError):
        return None
