"""The pointer to the live version, the compare-and-swap that moves it, and the audit log: who moved it, why and when."""

import getpass
import os
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from itertools import islice

from backends.stores.objects import damage, read_model, read_mutable, readable_models, unless_damaged
from pipeline.records.manifests import (
    OVERRIDE,
    REJECTION,
    last_manifest,
    manifests,
    named_manifest,
    override_hint,
    read_manifest,
    readable_manifest,
    refusals_in,
    rejection_in_words,
    state_of,
)
from schemas.errors import ContractError, DamagedError, GateError, MissingError, NotFoundError, UserError
from schemas.ids import MOMENT, sha256, version_file
from schemas.ports import ObjectStore
from schemas.reports import VersionList
from schemas.versions import Action, AuditEvent, Lease, Manifest, Override, Pointer

_FOLDER = "audit"


def write_event(store: ObjectStore, event: AuditEvent) -> None:
    """Add an event; writing one twice leaves one."""
    data = event.model_dump_json().encode()
    # Names sort by time; the digest tells apart what happens in the same microsecond.
    store.put(f"{_FOLDER}/{event.at:{MOMENT}}-{sha256(data)[:8]}.json", data)


def read_events(store: ObjectStore, limit: int) -> list[AuditEvent]:
    """Return the latest events, newest first, without damaged ones."""
    return [*islice(readable_models(store, reversed(store.names(_FOLDER)), AuditEvent), limit)]


def this_person() -> str:
    """Return the name of the operating system's user, or its number if it has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


LIVE = "LIVE"

_MOVES_READ = 20
"""Latest events of the audit log in which the last move is looked for."""


def read_pointer(store: ObjectStore, *, fresh: bool = False) -> Pointer | None:
    """Return the pointer; None if nothing is published. A damaged one, or a lost one that the audit log knows, raises.

    Inside a step of a refresh it is read once, unless ``fresh``.
    """
    return _read_pointer(store, fresh=fresh)[0]


def readable_pointer(store: ObjectStore) -> Pointer | None:
    """Return the pointer; None if there is none, or it is damaged."""
    return unless_damaged(lambda: read_pointer(store))


def _read_pointer(store: ObjectStore, *, fresh: bool = True) -> tuple[Pointer | None, str | None]:
    pointer, etag = read_mutable(store, LIVE, Pointer, fresh=fresh)
    # The pointer is looked up again, since the first publication may have come after it was read.
    if pointer is None and _last_move(store)[0] is not None and store.etag(LIVE) is None:
        raise damage(MissingError, store.root, LIVE, "is missing")
    return pointer, etag


def _write_pointer(store: ObjectStore, pointer: Pointer, etag: str | None) -> bool:
    """Write the pointer and its audit event if the ETag still matches; return whether it did."""
    live = readable_pointer(store)
    _log_move(store, live)  # its writer may have been killed
    if live is not None and live.moved is not None and pointer.moved is not None and pointer.moved != live.moved:
        # The audit log is sorted by time, in which a move follows the one before, whatever the clocks of two machines say.
        at = max(pointer.moved.at, live.moved.at + timedelta(microseconds=1))
        since = at if pointer.since == pointer.moved.at else pointer.since
        pointer = pointer.model_copy(update={"since": since, "moved": pointer.moved.model_copy(update={"at": at})})
    is_written = store.swap(LIVE, pointer.model_dump_json().encode(), etag)
    if is_written:
        _log_move(store, pointer)
    return is_written


def _log_move(store: ObjectStore, pointer: Pointer | None) -> None:
    if pointer is not None and pointer.moved is not None:
        write_event(store, pointer.moved)


def restore_pointer(store: ObjectStore, corpus: str, fence: int) -> None:
    """Write a damaged or lost pointer again, by the audit log's last move. Call it under the lease, which has the ``fence``.

    Raises:
        UserError: The log has no move to a version that can be read, so an operator has to name the live version.
    """
    try:
        pointer = read_pointer(store)
    except DamagedError as error:
        last, is_held = _last_move(store)
        reason = error.message.partition(";")[0]
        if last is None or readable_manifest(store, last.to_version) is None:
            version_names = ", ".join(manifest.version for manifest in manifests(store)[:5]) or "none that can be read"
            raise UserError(
                f"{reason}, and the audit log names no version that can be read; say which version is live: "
                f"inset publish {corpus} VERSION (there are: {version_names})"
            ) from error
        # An event that only set or ended a hold names one version twice, so the version before is unknown.
        restored = Pointer(
            version=last.to_version,
            previous=last.from_version if last.from_version != last.to_version else None,
            since=last.at,
            held=is_held,
            fence=fence,
            moved=_move_event("repair", last.to_version, last.to_version, reason=reason),
        )
        _write_pointer(store, restored, store.etag(LIVE))
    else:
        _log_move(store, pointer)  # its writer may have been killed


def _last_move(store: ObjectStore) -> tuple[AuditEvent | None, bool]:
    """Return the audit log's last event that made a version live, None where there is none, and whether it is held since."""
    moves = [event for event in read_events(store, _MOVES_READ) if event.moved and event.action != "repair"]
    # A deletion replaces a version, and leaves the hold.
    by_people = (event.action == "rollback" for event in moves if event.action != "forget")
    return next(iter(moves), None), next(by_people, False)


def drop_previous(store: ObjectStore, removed_versions: Collection[str]) -> None:
    """Clear the pointer's previous version if it is among those gone."""
    pointer, etag = _read_pointer(store)
    if pointer is not None and pointer.previous in removed_versions:
        _write_pointer(store, pointer.model_copy(update={"previous": None}), etag)


def replace_forgotten(store: ObjectStore, event: AuditEvent, removed_versions: Collection[str], fence: int) -> None:
    """Make the event's version live in place of one that held forgotten documents, so that readers let go of those.

    Where none did, the live version stays. Raises ``ContractError`` where another version went live meanwhile.
    """
    while True:
        pointer, etag = _read_pointer(store)
        if pointer is None:
            write_event(store, event)
            return
        if pointer.version != event.from_version:
            raise ContractError(f"{pointer.version} went live meanwhile; forget the document again")
        noted = pointer.moved
        if event.to_version == pointer.version and noted is not None and noted.documents == event.documents:
            return  # a deletion that was killed later
        now = datetime.now(UTC)
        update = {
            "version": event.to_version,
            "previous": None if pointer.previous in removed_versions else pointer.previous,
            "since": pointer.since if event.to_version == pointer.version else now,
            "fence": fence,
            "moved": event,
            "forgotten": now,
        }
        # Repeated until the swap holds, since an operator may move the pointer first.
        if _write_pointer(store, pointer.model_copy(update=update), etag):
            return


def rewrite_reasons(store: ObjectStore, change: Callable[[str], str]) -> None:
    """Change what people wrote in the audit log."""
    for name in store.names(_FOLDER):
        event = read_model(store, name, AuditEvent)
        texts = {field: change(text) for field in ("reason", "about") if (text := getattr(event, field)) is not None}
        changed = event.model_copy(update=texts)
        if changed != event:
            write_event(store, changed)
            store.delete(name)


def move_pointer(
    store: ObjectStore,
    version: str,
    *,
    expected: str | None,
    is_held: bool,
    lease: Lease | None = None,
    since: datetime,
    by: str | None = None,
    moved: AuditEvent | None = None,
) -> Pointer:
    """Make a finished version live: the only commit of a refresh. The audit log gets an event.

    ``expected`` is the version that must be live now, None if none may be; ``since`` is the time of the move.
    ``is_held`` lets later refreshes build without publishing. A publishing run gives its ``lease`` and ``by`` whom it was
    started, an operator the event ``moved``. Raises ``ContractError`` if another version was published meanwhile, or a
    later run took over the lease.
    """
    live, etag = _read_pointer(store)
    if (live.version if live else None) != expected:
        raise ContractError(
            f"{version} was not published: {live.version if live else 'nothing'} is live now, {expected or 'nothing'} was "
            f"when this refresh began; refresh again"
        )
    # An operator has no lease, and keeps the fence of the last run.
    fence = lease.fence if lease else (live.fence if live else 0)
    if live is not None and fence < live.fence:
        raise ContractError(f"{version} was not published: a later run published meanwhile; refresh again")
    if moved is None:
        moved = _move_event("refresh", expected, version, by=by, run_id=lease.run_id if lease else None, at=since)
    pointer = live or Pointer(version=version, previous=None, since=since)
    # Of a version that is live already, only the hold changes.
    changed = {} if expected == version else {"version": version, "previous": expected, "since": since}
    update = {**changed, "held": is_held, "fence": fence, "moved": moved}
    return _written(store, pointer.model_copy(update=update), etag)


def roll_back(
    store: ObjectStore, corpus: str, version: str | None = None, *, by: str | None = None, reason: str | None = None
) -> Pointer:
    """Make an older version live, None meaning the previous one, and hold the corpus until ``publish``.

    ``by``, by default the operating system's user, and ``reason`` are for the audit log. Raises ``UserError`` if nothing
    is live or there is no such version, and ``GateError`` if a gate refused it.
    """
    live = read_pointer(store)
    if live is None:
        raise UserError(f"corpus {corpus}: nothing is live, so there is nothing to roll back; publish a version first")
    target = version or live.previous
    if target is None or (version is None and readable_manifest(store, target) is None):
        raise UserError(f"corpus {corpus}: {live.version} is the first version; there is none before it to roll back to")
    return _publish_again(store, corpus, live, _move_event("rollback", live.version, target, by=by, reason=reason))


def publish_version(
    store: ObjectStore,
    corpus: str,
    version: str,
    *,
    override: str | None = None,
    by: str | None = None,
    reason: str | None = None,
) -> Pointer:
    """Make a finished version live, and end a hold.

    ``override``, the reason why a refused version goes live anyway, is stored with the version. ``by``, by default the
    operating system's user, and ``reason``, by default that of the override, are for the audit log. Raises ``UserError``
    if there is no such version or the reason is empty, and ``GateError`` if a gate refused it and there is no
    override.
    """
    action: Action = "publish"
    if override is not None and _override(store, named_manifest(store, corpus, version), override, by):
        action, reason = "override", reason or override
    try:
        live = read_pointer(store)
    except DamagedError:  # replaced, since an operator has named the live version
        moved = _move_event(action, None, version, by=by, reason=reason)
        check_publishable(store, corpus, version)
        pointer = Pointer(version=version, previous=None, since=moved.at, moved=moved)
        return _written(store, pointer, store.etag(LIVE))
    moved = _move_event(action, live.version if live else None, version, by=by, reason=reason)
    return _publish_again(store, corpus, live, moved)


def _move_event(
    action: Action,
    from_version: str | None,
    to_version: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    run_id: str | None = None,
    at: datetime | None = None,
) -> AuditEvent:
    """Return an event for the audit log, now and by the operating system's user unless said otherwise."""
    return AuditEvent(
        action=action,
        at=at or datetime.now(UTC),
        by=by or this_person(),
        reason=(reason or "").strip() or None,
        run_id=run_id,
        from_version=from_version,
        to_version=to_version,
    )


def _written(store: ObjectStore, pointer: Pointer, etag: str | None) -> Pointer:
    if not _write_pointer(store, pointer, etag):
        raise ContractError(f"{pointer.version} was not published: another publication came first; refresh again")
    return pointer


def _override(store: ObjectStore, manifest: Manifest, reason: str, by: str | None) -> bool:
    """Store the override of a refused version; return whether there was anything to override."""
    if not reason.strip():
        raise UserError("an override needs a reason; people will read it with this version")
    refusals = refusals_in(store, manifest)
    if refusals:
        override = Override(reason=reason.strip(), by=by or this_person(), at=datetime.now(UTC), refusals=refusals)
        store.replace(version_file(manifest.version, OVERRIDE), override.model_dump_json(indent=1).encode())
    return bool(refusals)


def reject_version(store: ObjectStore, version: str, *, by: str, reason: str) -> str:
    """Store that a person rejected a version, which no refresh publishes from then on; return it in words."""
    rejection = Override(reason=reason.strip(), by=by, at=datetime.now(UTC), refusals=[])
    store.replace(version_file(version, REJECTION), rejection.model_dump_json(indent=1).encode())
    note_event(store, "reject", by=by, reason=reason, about=version)
    return rejection_in_words(rejection)


def note_event(
    store: ObjectStore,
    action: Action,
    *,
    by: str,
    reason: str | None,
    at: datetime | None = None,
    about: str | None = None,
    run_id: str | None = None,
) -> None:
    """Add an event that moves nothing to the audit log."""
    live = readable_pointer(store)
    version = live.version if live else None
    event = _move_event(action, version, version or "", by=by, reason=reason, at=at, run_id=run_id)
    write_event(store, event.model_copy(update={"about": about}))


def _publish_again(store: ObjectStore, corpus: str, live: Pointer | None, moved: AuditEvent) -> Pointer:
    version, is_held = moved.to_version, moved.action == "rollback"
    check_publishable(store, corpus, version)
    if live is not None and (live.version, live.held) == (version, is_held):
        return live
    return move_pointer(store, version, expected=moved.from_version, is_held=is_held, since=moved.at, moved=moved)


def refusals_now(store: ObjectStore, version: str) -> list[str]:
    """Return why a version is refused, by gates or a person; [] if it isn't, is live, or somebody overrode that."""
    row = state_of(store, version, readable_pointer(store))
    return row.refusals if row.state == "refused" else []


def check_publishable(store: ObjectStore, corpus: str, version: str) -> None:
    """Raise where a version doesn't exist, or is refused."""
    named_manifest(store, corpus, version)
    if refusals := refusals_now(store, version):
        raise GateError(
            f"corpus {corpus}: {version} was refused and can't go live: {'; '.join(refusals)}",
            override_hint(corpus, version),
        )


def list_versions(store: ObjectStore, corpus: str) -> VersionList:
    """Return all versions of a corpus but unfinished ones, newest first, even if the pointer is lost."""
    problem = None
    try:
        live = read_pointer(store)
    except DamagedError as error:
        live, problem = None, error.message
    return VersionList(
        corpus=corpus,
        live=live.version if live else None,
        previous=live.previous if live else None,
        held=live.held if live else False,
        problem=problem,
        versions=[
            row
            for version in reversed(store.folders("versions"))
            if (row := state_of(store, version, live)).state != "unfinished"
        ],
    )


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


def resolve_version(store: ObjectStore, corpus: str, name: str) -> str:
    """Return the version that ``live``, ``previous`` or ``latest`` stands for; any other name is a version's own.

    ``latest`` is the newest finished version, refused ones included. Without one, raises ``NotFoundError``.
    """
    if name == "latest":
        newest = last_manifest(store)
        if newest is None:
            raise NotFoundError(nothing_live(store, corpus))
        return newest.version
    if name not in ("live", "previous"):
        return name
    pointer = read_pointer(store)
    if pointer is None:
        raise NotFoundError(nothing_live(store, corpus))
    if name == "live":
        return pointer.version
    if pointer.previous is None:
        raise NotFoundError(f"corpus {corpus}: {pointer.version} is live, and there is no version before it")
    return pointer.previous


def nothing_live(store: ObjectStore, corpus: str) -> str:
    """Return the message for a corpus without a live version: why there is none, and what to do."""
    newest = last_manifest(store)
    if newest is None:
        return f"corpus {corpus}: nothing is published yet; run: inset refresh {corpus}"
    if refusals := refusals_now(store, newest.version):
        hint = override_hint(corpus, newest.version)
        return f"corpus {corpus}: nothing is published; {newest.version} was refused: {'; '.join(refusals)}; {hint}"
    return f"corpus {corpus}: nothing is live; to publish its newest version: inset publish {corpus} {newest.version}"
