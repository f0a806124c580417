"""The pointer: what is live, and the one move that changes it."""

import getpass
from datetime import UTC, datetime

from schemas.errors import ContractError, GateError, UserError
from schemas.ports import ObjectStore
from schemas.versions import Lease, Manifest, Override, Pointer, VersionList, VersionRow

LIVE = "LIVE"


def read_pointer(store: ObjectStore) -> Pointer | None:
    """Return what is live; None where nothing was published yet."""
    found = store.read_mutable(LIVE)
    return Pointer.model_validate_json(found[0]) if found else None


def manifest_name(version: str) -> str:
    """Name a version's manifest in its store."""
    return f"versions/{version}/manifest.json"


def read_manifest(store: ObjectStore, version: str) -> Manifest | None:
    """Return a finished version's manifest; None where there is no such version, or it was never finished."""
    try:
        return Manifest.model_validate_json(store.get(manifest_name(version)))
    except FileNotFoundError:
        return None


def named_manifest(store: ObjectStore, corpus: str, version: str) -> Manifest:
    """Return the manifest of a version that somebody named.

    Raises:
        UserError: There is no such version; the message names some that there are.
    """
    manifest = read_manifest(store, version)
    if manifest is None:
        known = ", ".join(found.version for found in manifests(store)[:5]) or "none yet"
        raise UserError(f"corpus {corpus}: there is no version {version}; there are: {known}")
    return manifest


def manifests(store: ObjectStore) -> list[Manifest]:
    """Return the manifests of all finished versions, newest first."""
    found = (read_manifest(store, version) for version in reversed(store.folders("versions")))
    return [manifest for manifest in found if manifest is not None]


def move_pointer(
    store: ObjectStore, version: str, *, expected: str | None, held: bool, lease: Lease | None = None, since: datetime
) -> Pointer:
    """Make a version live. This is the only commit of a refresh.

    Args:
        store: The corpus's store.
        version: A finished version.
        expected: The version that must be live now; None where none may be.
        held: Refreshes build from now on but publish nothing.
        lease: The refresh that publishes; None for an operator's move.
        since: When.

    Raises:
        ContractError: Something else was published meanwhile, or a later run took the lease over.
    """
    found = store.read_mutable(LIVE)
    live = Pointer.model_validate_json(found[0]) if found else None
    if (live.version if live else None) != expected:
        raise ContractError(
            f"{version} was not published: {live.version if live else 'nothing'} is live now, {expected or 'nothing'} was "
            f"when this refresh began; refresh again"
        )
    fence = lease.fence if lease else (live.fence if live else 0)
    if live is not None and fence < live.fence:
        raise ContractError(f"{version} was not published: a later run published meanwhile; refresh again")
    pointer = Pointer(version=version, previous=expected, since=since, held=held, fence=fence)
    if not store.swap(LIVE, pointer.model_dump_json().encode(), found[1] if found else None):
        raise ContractError(f"{version} was not published: another publication came first; refresh again")
    return pointer


def roll_back(store: ObjectStore, corpus: str, version: str | None = None) -> Pointer:
    """Make an older version live again, and hold the corpus until ``publish``.

    Args:
        store: The corpus's store.
        corpus: Its name, for messages.
        version: Which; None means the one that was live before.

    Raises:
        UserError: Nothing is live, or there is no such version.
        GateError: The version was refused by a gate.
    """
    live = read_pointer(store)
    if live is None:
        raise UserError(f"corpus {corpus}: nothing is live, so there is nothing to roll back; publish a version first")
    target = version or live.previous
    if target is None:
        raise UserError(f"corpus {corpus}: {live.version} is the first version; there is none before it to roll back to")
    return _publish_again(store, corpus, target, live, held=True)


def publish_version(store: ObjectStore, corpus: str, version: str, *, override: str | None = None) -> Pointer:
    """Make a finished version live, and end a hold.

    Args:
        store: The corpus's store.
        corpus: Its name, for messages.
        version: Which.
        override: Why a version that gates refused goes live all the same; kept with the version.

    Raises:
        UserError: There is no such version, or the reason says nothing.
        GateError: The version was refused by a gate, and nobody overrode it.
    """
    if override is not None:
        _override(store, named_manifest(store, corpus, version), override)
    return _publish_again(store, corpus, version, read_pointer(store), held=False)


def _override(store: ObjectStore, manifest: Manifest, reason: str) -> None:
    if not reason.strip():
        raise UserError("an override needs a reason; it is what people will read about this version")
    if refusals := refusals_of(manifest):
        said = Override(reason=reason.strip(), by=getpass.getuser(), at=datetime.now(UTC), refusals=refusals)
        store.replace(_override_name(manifest.version), said.model_dump_json(indent=1).encode())


def _override_name(version: str) -> str:
    return f"versions/{version}/override.json"


def read_override(store: ObjectStore, version: str) -> Override | None:
    """Return who let a refused version pass, and why; None where nobody did."""
    try:
        return Override.model_validate_json(store.get(_override_name(version)))
    except FileNotFoundError:
        return None


def _publish_again(store: ObjectStore, corpus: str, version: str, live: Pointer | None, *, held: bool) -> Pointer:
    manifest = named_manifest(store, corpus, version)
    refusals = refusals_of(manifest)
    if refusals and read_override(store, version) is None:
        raise GateError(
            f"corpus {corpus}: {version} was refused and can't go live: {'; '.join(refusals)}",
            f'if it is to go live all the same: inset publish {corpus} {version} --override "REASON"',
        )
    if live is not None and live.version == version:
        previous = live.previous
        found = store.read_mutable(LIVE)
        pointer = live.model_copy(update={"held": held, "previous": previous})
        if not store.swap(LIVE, pointer.model_dump_json().encode(), found[1] if found else None):
            raise ContractError(f"{version}: another publication came at the same moment; look at: inset versions {corpus}")
        return pointer
    return move_pointer(store, version, expected=live.version if live else None, held=held, since=datetime.now(UTC))


def refusals_of(manifest: Manifest) -> list[str]:
    """Return why gates refused a version; [] where they hold."""
    return [gate.message for gate in manifest.gates if not gate.passed]


def list_versions(store: ObjectStore, corpus: str) -> VersionList:
    """Return every finished version of a corpus, newest first."""
    live = read_pointer(store)
    return VersionList(
        corpus=corpus,
        live=live.version if live else None,
        held=live.held if live else False,
        versions=[_row(store, manifest, live.version if live else None) for manifest in manifests(store)],
    )


def _row(store: ObjectStore, manifest: Manifest, live: str | None) -> VersionRow:
    refusals = refusals_of(manifest)
    override = read_override(store, manifest.version) if refusals else None
    return VersionRow(
        version=manifest.version,
        state="live" if manifest.version == live else "refused" if refusals and override is None else "ready",
        created=manifest.created,
        parent=manifest.parent,
        documents=manifest.counts.documents,
        quarantined=manifest.counts.quarantined,
        rows=manifest.counts.rows,
        refusals=refusals,
        override=override,
    )
