"""The audit log: who moved the live version, why and when. One object an event, written once and never removed."""

import getpass
import os

from backends.stores.objects import read_model
from schemas.errors import DamagedError
from schemas.ids import sha256
from schemas.ports import ObjectStore
from schemas.versions import AuditEvent

__all__ = ["AuditEvent", "read_events", "this_person", "write_event"]

_FOLDER = "audit"


def write_event(store: ObjectStore, event: AuditEvent) -> None:
    """Add an event; writing one twice leaves one."""
    data = event.model_dump_json().encode()
    # Names sort by time; the digest tells apart what happens in the same microsecond.
    store.put(f"{_FOLDER}/{event.at:%Y%m%dT%H%M%S.%fZ}-{sha256(data)[:8]}.json", data)


def read_events(store: ObjectStore, limit: int) -> list[AuditEvent]:
    """Return the latest events, newest first, without damaged ones."""
    events: list[AuditEvent] = []
    for name in reversed(store.names(_FOLDER)):
        if len(events) == limit:
            break
        try:
            events.append(read_model(store, name, AuditEvent))
        except DamagedError:
            continue
    return events


def this_person() -> str:
    """Return the name of the operating system's user, or its number where it has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
