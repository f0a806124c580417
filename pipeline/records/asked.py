"""What readers asked: below ``asked/<version>/`` an object for each day and process of the service, which replaces its own."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from backends.stores.objects import read_model, unless_damaged
from pipeline.records.feedback import ASKED
from schemas.asked import AskedOfDay
from schemas.ports import ObjectStore


def write_asked(store: ObjectStore, process: str, asked_of_day: AskedOfDay) -> None:
    """Replace what a process has counted of a day."""
    store.replace(
        f"{ASKED}/{asked_of_day.version}/{asked_of_day.day:%Y%m%d}-{process}.json", asked_of_day.model_dump_json().encode()
    )


def read_asked(store: ObjectStore, days: int) -> Iterator[AskedOfDay]:
    """Yield what was counted on the last days, without damaged objects."""
    since = f"{datetime.now(UTC) - timedelta(days=days):%Y%m%d}"
    for name in store.names(ASKED):
        if (
            name.rpartition("/")[2] > since
            and (asked_of_day := unless_damaged(partial(read_model, store, name, AskedOfDay))) is not None
        ):
            yield asked_of_day
