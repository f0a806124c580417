"""The pointer to the live version, and the compare-and-swap that moves it."""

import contextlib
import json
from collections.abc import Collection
from datetime import UTC, datetime

from backends.stores.checksums import damage
from backends.stores.objects import read_model, reading
from pipeline.records.audit import read_events, this_person, write_event
from schemas.errors import ContractError, DamagedError, GateError, MissingError, UserError
from schemas.gates import Bounds, judge_again
from schemas.ids import version_time
from schemas.ports import ObjectStore
from schemas.release import RELEASE
from schemas.versions import (
    FORMAT,
    Action,
    AuditEvent,
    GateResult,
    Lease,
    Manifest,
    Override,
    Pointer,
    Verdicts,
    VersionList,
    VersionRow,
)

LIVE = "LIVE"

_MOVES_READ = 20
"""Latest events of the audit log in which the last move is looked for."""


def read_pointer(store: ObjectStore, *, fresh: bool = False) -> Pointer | None:
    """Return the pointer; None where nothing is published. Inside a step of a refresh it is read once, unless ``fresh``.

    Raises:
        DamagedError: The pointer is damaged, or it is missing and the audit log says that there was one.
    """
    return _read_pointer(store, fresh=fresh)[0]


def readable_pointer(store: ObjectStore) -> Pointer | None:
    """Return the pointer; None where there is none, or it is damaged."""
    try:
        return read_pointer(store)
    except DamagedError:
        return None


def _read_pointer(store: ObjectStore, *, fresh: bool = True) -> tuple[Pointer | None, str | None]:
    pointer_and_etag = store.read_mutable(LIVE, fresh=fresh)
    if pointer_and_etag is None:
        if _last_move(store) is not None and store.etag(LIVE) is None:
            raise damage(MissingError, store.root, LIVE, "is missing")
        return None, None
    check_format(store, pointer_and_etag[0])
    with reading(store, LIVE):
        return Pointer.model_validate_json(pointer_and_etag[0]), pointer_and_etag[1]


def check_format(store: ObjectStore, data: bytes) -> None:
    """Refuse a store whose pointer or lease a newer release wrote; damage of them is found elsewhere.

    Raises:
        UserError: Its format is unknown here.
    """
    with contextlib.suppress(ValueError):
        document = json.loads(data)
        if isinstance(document, dict) and isinstance(store_format := document.get("format"), int) and store_format > FORMAT:
            raise UserError(
                f"{store.root} has format {store_format}, of a newer release of Inset; this one ({RELEASE}) knows formats up to "
                f"{FORMAT}; use the newer one"
            )


def _write_pointer(store: ObjectStore, pointer: Pointer, etag: str | None) -> bool:
    """Write the pointer and its audit event if the ETag still matches; return whether it did.

    The event of the pointer before is written first, in case that writer was killed.
    """
    if (before := readable_pointer(store)) is not None:
        _log_move(store, before)
    data = pointer.model_dump_json().encode()
    if not store.swap(LIVE, data, etag):
        return False
    _log_move(store, pointer)
    return True


def _log_move(store: ObjectStore, pointer: Pointer) -> None:
    if pointer.moved is not None:
        write_event(store, pointer.moved)


def restore_pointer(store: ObjectStore, corpus: str, fence: int) -> None:
    """Write a damaged or lost pointer again, by the audit log's last move. Call it under the lease, which has the ``fence``.

    Raises:
        UserError: The log has no move to a version that can be read, so an operator has to name the live version.
    """
    try:
        pointer = read_pointer(store)
    except DamagedError as error:
        last = _last_move(store)
        reason = error.message.partition(";")[0]
        if last is None or readable_manifest(store, last.to_version) is None:
            version_names = ", ".join(manifest.version for manifest in manifests(store)[:5]) or "none that can be read"
            raise UserError(
                f"{reason}, and the audit log names no version that can be read; say which version is live: "
                f"inset publish {corpus} VERSION (there are: {version_names})"
            ) from error
        moved = _move_event("repair", last.to_version, last.to_version, reason=reason)
        previous = last.from_version if last.from_version != last.to_version else None
        is_held = last.action == "rollback"
        restored = Pointer(
            version=last.to_version, previous=previous, since=last.at, held=is_held, fence=fence, moved=moved
        )
        _write_pointer(store, restored, store.etag(LIVE))
        return
    if pointer is not None:
        _log_move(store, pointer)  # its writer may have been killed


def _last_move(store: ObjectStore) -> AuditEvent | None:
    """Return the audit log's last event that made a version live; None where there is none."""
    events = read_events(store, _MOVES_READ)
    return next((event for event in events if event.action not in ("forget", "repair") and event.to_version), None)


def drop_previous(store: ObjectStore, removed_versions: Collection[str]) -> None:
    """Clear the pointer's previous version if it is among those gone."""
    pointer, etag = _read_pointer(store)
    if pointer is not None and pointer.previous in removed_versions:
        _write_pointer(store, pointer.model_copy(update={"previous": None}), etag)


def note_rewritten(store: ObjectStore, event: AuditEvent) -> None:
    """Note in the pointer and the audit log that documents were deleted from versions, so that readers open them again."""
    while True:
        pointer, etag = _read_pointer(store)
        if pointer is None:
            write_event(store, event)
            return
        moved = event.model_copy(update={"from_version": pointer.version, "to_version": pointer.version})
        if _write_pointer(store, pointer.model_copy(update={"moved": moved, "rewritten": datetime.now(UTC)}), etag):
            return


def manifest_name(version: str) -> str:
    """Name a version's manifest in its store."""
    return f"versions/{version}/manifest.json"


def read_manifest(store: ObjectStore, version: str) -> Manifest | None:
    """Return a finished version's manifest, with its latest verdicts; None where the version is unknown or unfinished.

    Raises:
        DamagedError: It can't be read.
    """
    try:
        manifest = read_model(store, manifest_name(version), Manifest)
    except FileNotFoundError:
        return None
    if not refusals_of(manifest):
        return manifest
    try:
        return manifest.model_copy(update={"gates": read_model(store, _verdicts_name(version), Verdicts).gates})
    except DamagedError:  # missing, or written again by the next refresh
        return manifest


def _verdicts_name(version: str) -> str:
    return f"versions/{version}/gates.json"


def judge_gates_anew(store: ObjectStore, version: str, bounds: Bounds) -> list[GateResult]:
    """Return the verdicts on a finished version by the present bounds: of refusals whose bound changed, from their value."""
    return [judge_again(gate, bounds) for gate in read_model(store, manifest_name(version), Manifest).gates]


def keep_verdicts(store: ObjectStore, version: str, bounds: Bounds) -> None:
    """Keep the verdicts by the present bounds, unless an operator let the version pass. Call it under the lease."""
    manifest = read_manifest(store, version)
    if manifest is None or read_override(store, version) is not None:
        return
    gates = judge_gates_anew(store, version, bounds)
    if gates != manifest.gates:
        store.replace(_verdicts_name(version), Verdicts(gates=gates).model_dump_json(indent=1).encode())


def readable_manifest(store: ObjectStore, version: str | None) -> Manifest | None:
    """Return a finished version's manifest; None where none can be read."""
    try:
        return read_manifest(store, version) if version else None
    except DamagedError:
        return None


def named_manifest(store: ObjectStore, corpus: str, version: str) -> Manifest:
    """Return the manifest of a version.

    Raises:
        UserError: There is no such version; the message names some that exist.
    """
    manifest = read_manifest(store, version)
    if manifest is None:
        version_names = ", ".join(existing.version for existing in manifests(store)[:5]) or "none yet"
        raise UserError(f"corpus {corpus}: there is no version {version}; there are: {version_names}")
    return manifest


def manifests(store: ObjectStore) -> list[Manifest]:
    """Return the manifests of all finished versions, newest first, without damaged ones."""
    stored = (readable_manifest(store, version) for version in reversed(store.folders("versions")))
    return [manifest for manifest in stored if manifest is not None]


def move_pointer(
    store: ObjectStore,
    version: str,
    *,
    expected: str | None,
    is_held: bool,
    lease: Lease | None = None,
    since: datetime,
    moved: AuditEvent | None = None,
) -> Pointer:
    """Make a version live: the only commit of a refresh. The audit log gets an event.

    Args:
        store: The corpus's store.
        version: A finished version.
        expected: The version that must be live now, None where none may be.
        is_held: Later refreshes build without publishing.
        lease: The publishing run's; None for an operator.
        since: The time of the move.
        moved: An operator's event for the audit log; None for a refresh.

    Raises:
        ContractError: Another version was published meanwhile, or a later run took over the lease.
    """
    live, etag = _read_pointer(store)
    if (live.version if live else None) != expected:
        raise ContractError(
            f"{version} was not published: {live.version if live else 'nothing'} is live now, {expected or 'nothing'} was "
            f"when this refresh began; refresh again"
        )
    fence = lease.fence if lease else (live.fence if live else 0)
    if live is not None and fence < live.fence:
        raise ContractError(f"{version} was not published: a later run published meanwhile; refresh again")
    if moved is None:
        moved = _move_event("refresh", expected, version, run_id=lease.run_id if lease else None, at=since)
    pointer = Pointer(
        version=version,
        previous=expected,
        since=since,
        held=is_held,
        fence=fence,
        moved=moved,
        rewritten=live.rewritten if live else None,
    )
    if not _write_pointer(store, pointer, etag):
        raise ContractError(f"{version} was not published: another publication came first; refresh again")
    return pointer


def roll_back(
    store: ObjectStore, corpus: str, version: str | None = None, *, by: str | None = None, reason: str | None = None
) -> Pointer:
    """Make an older version live, and hold the corpus until ``publish``.

    None means the previous version. ``by`` and ``reason`` are for the audit log; the person is by default the operating
    system's user.

    Raises:
        UserError: Nothing is live, or there is no such version.
        GateError: A gate refused the version.
    """
    live = read_pointer(store)
    if live is None:
        raise UserError(f"corpus {corpus}: nothing is live, so there is nothing to roll back; publish a version first")
    target = version or live.previous
    if target is not None and version is None and readable_manifest(store, target) is None:
        target = None
    if target is None:
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

    ``override``, the reason why a refused version goes live anyway, is stored with the version. ``by`` and ``reason`` are for
    the audit log; the person is by default the operating system's user, the reason that of the override.

    Raises:
        UserError: There is no such version, or the reason is empty.
        GateError: A gate refused the version, and there is no override.
    """
    action: Action = "publish"
    if override is not None and _override(store, named_manifest(store, corpus, version), override, by):
        action, reason = "override", reason or override
    try:
        live = read_pointer(store)
    except DamagedError:
        return _replace_pointer(store, corpus, _move_event(action, None, version, by=by, reason=reason))
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


def _replace_pointer(store: ObjectStore, corpus: str, moved: AuditEvent) -> Pointer:
    """Replace a pointer that can't be read, since an operator has named the live version."""
    _publishable(store, corpus, moved.to_version)
    pointer = Pointer(version=moved.to_version, previous=None, since=moved.at, moved=moved)
    return _write_or_raise(store, corpus, pointer, store.etag(LIVE))


def _write_or_raise(store: ObjectStore, corpus: str, pointer: Pointer, etag: str | None) -> Pointer:
    if not _write_pointer(store, pointer, etag):
        raise ContractError(f"{pointer.version}: another version was published meanwhile; see: inset versions {corpus}")
    return pointer


def _override(store: ObjectStore, manifest: Manifest, reason: str, by: str | None) -> bool:
    """Store the override of a refused version; return whether there was anything to override."""
    if not reason.strip():
        raise UserError("an override needs a reason; people will read it with this version")
    refusals = refusals_in(store, manifest)
    if refusals:
        override = Override(reason=reason.strip(), by=by or this_person(), at=datetime.now(UTC), refusals=refusals)
        store.replace(_override_name(manifest.version), override.model_dump_json(indent=1).encode())
    return bool(refusals)


def _override_name(version: str) -> str:
    return f"versions/{version}/override.json"


def read_override(store: ObjectStore, version: str) -> Override | None:
    """Return the override of a refused version; None where there is none."""
    try:
        return read_model(store, _override_name(version), Override)
    except FileNotFoundError:
        return None


def _rejection_name(version: str) -> str:
    return f"versions/{version}/rejection.json"


def reject_version(store: ObjectStore, version: str, *, by: str, reason: str) -> str:
    """Store that a person rejected a version, which no refresh publishes from then on; return it in words."""
    rejection = Override(reason=reason.strip(), by=by, at=datetime.now(UTC), refusals=[])
    store.replace(_rejection_name(version), rejection.model_dump_json(indent=1).encode())
    live = readable_pointer(store)
    note_event(store, "reject", by=by, reason=reason, live=live, about=version)
    return _rejection_in_words(rejection)


def note_event(
    store: ObjectStore,
    action: Action,
    *,
    by: str,
    reason: str | None,
    live: Pointer | None,
    at: datetime | None = None,
    about: str | None = None,
    run_id: str | None = None,
) -> None:
    """Add an event that moves nothing to the audit log."""
    version = live.version if live else None
    event = _move_event(action, version, version or "", by=by, reason=reason, at=at, run_id=run_id)
    write_event(store, event.model_copy(update={"about": about}))


def _rejection_in_words(rejection: Override) -> str:
    reason = f": {rejection.reason}" if rejection.reason else ""
    return f"rejected by {rejection.by} at {rejection.at:%Y-%m-%d %H:%M} UTC{reason}"


def refusals_in(store: ObjectStore, manifest: Manifest) -> list[str]:
    """Return the failed gates with their messages, and the rejection by a person; [] where nothing refuses the version."""
    rejection = rejection_of(store, manifest.version)
    return [*refusals_of(manifest), *([rejection] if rejection else [])]


def rejection_of(store: ObjectStore, version: str) -> str | None:
    """Return who rejected a version, when and why, in words; None where nobody did."""
    name = _rejection_name(version)
    return _rejection_in_words(read_model(store, name, Override)) if store.exists(name) else None


def _publish_again(store: ObjectStore, corpus: str, live: Pointer | None, moved: AuditEvent) -> Pointer:
    version, is_held = moved.to_version, moved.action == "rollback"
    _publishable(store, corpus, version)
    if live is not None and live.version == version:
        now, etag = _read_pointer(store)
        pointer = now or live
        if pointer.held == is_held:
            return pointer
        return _write_or_raise(store, corpus, pointer.model_copy(update={"held": is_held, "moved": moved}), etag)
    return move_pointer(store, version, expected=moved.from_version, is_held=is_held, since=moved.at, moved=moved)


def _publishable(store: ObjectStore, corpus: str, version: str) -> None:
    """Raise where a version doesn't exist, or a gate refused it without an override."""
    manifest = named_manifest(store, corpus, version)
    refusals = refusals_in(store, manifest)
    if refusals and read_override(store, version) is None:
        raise GateError(
            f"corpus {corpus}: {version} was refused and can't go live: {'; '.join(refusals)}",
            override_hint(corpus, version),
        )


def override_hint(corpus: str, version: str) -> str:
    """Return the command that publishes a refused version."""
    return f'if it is to go live all the same: inset publish {corpus} {version} --override "REASON"'


def refusals_of(manifest: Manifest) -> list[str]:
    """Return the failed gates with their messages; [] where all hold."""
    return [f"{gate.gate}: {gate.message}" for gate in manifest.gates if not gate.passed]


def list_versions(store: ObjectStore, corpus: str) -> VersionList:
    """Return all finished versions of a corpus, newest first, even if the pointer is lost."""
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
            row for version in reversed(store.folders("versions")) if (row := _row(store, version, live)) is not None
        ],
    )


def _row(store: ObjectStore, version: str, live: Pointer | None) -> VersionRow | None:
    try:
        manifest = read_manifest(store, version)
        refusals = refusals_of(manifest) if manifest else []
        override = read_override(store, version) if refusals else None
    except DamagedError as error:
        return _damaged_row(version, error)
    if manifest is None:
        return None
    is_live = live is not None and version == live.version
    return VersionRow(
        version=version,
        state="live" if is_live else "refused" if refusals and override is None else "ready",
        created=manifest.created,
        parent=manifest.parent,
        documents=manifest.counts.documents,
        quarantined=manifest.counts.quarantined,
        rows=manifest.counts.rows,
        refusals=refusals,
        override=override,
    )


def _damaged_row(version: str, error: DamagedError) -> VersionRow:
    """Return the row of a version whose manifest can't be read; its refusal is the damage."""
    return VersionRow(
        version=version,
        state="damaged",
        created=version_time(version),
        parent=None,
        documents=0,
        quarantined=0,
        rows=0,
        refusals=[error.message],
    )
