"""Whether the question if a version goes live is decided elsewhere: by a button, by a command, or by a rollback."""

from pipeline.records.publication import read_manifest, read_pointer
from schemas.ports import ObjectStore
from schemas.versions import AuditEvent, Pointer


def decision(store: ObjectStore, version: str) -> Pointer | None:
    """Return the pointer if the question of a finished version is decided elsewhere; None while it is open.

    It is decided once the version is live, or another one than its parent, or once somebody has held the corpus since.
    """
    live, manifest = read_pointer(store, fresh=True), read_manifest(store, version)
    if live is None or manifest is None:
        return None
    moved = live.moved
    held_since = moved is not None and moved.action == "rollback" and moved.at > manifest.created
    return live if live.version != manifest.parent or held_since else None


def decision_in_words(live: Pointer, version: str) -> str:
    """Return what ``decision`` found in one line, with the person."""
    event = f": {event_in_words(live.moved)}" if live.moved is not None else ""
    if live.version == version:
        return f"{version} is live{event}"
    return f"{version} isn't published, since {live.version} is live now{event}"


def event_in_words(event: AuditEvent) -> str:
    """Return what was done by whom, when and why."""
    reason = f" ({event.reason})" if event.reason else ""
    return f"{event.action} by {event.by} at {event.at:%Y-%m-%d %H:%M} UTC{reason}"
