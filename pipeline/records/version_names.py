"""Names that stand for a version, and why a corpus has no live one."""

from pipeline.records.publication import override_hint, read_pointer, readable_manifest, refusals_of
from schemas.errors import NotFoundError
from schemas.ports import ObjectStore
from schemas.versions import Manifest


def resolve_version(store: ObjectStore, corpus: str, name: str) -> str:
    """Return the version that ``live``, ``previous`` or ``latest`` stands for; any other name is a version's own.

    ``latest`` is the newest finished version, refused ones included.

    Raises:
        NotFoundError: No version has that name now.
        DamagedError: The pointer can't be read.
    """
    if name == "latest":
        newest = _newest_manifest(store)
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
    newest = _newest_manifest(store)
    if newest is None:
        return f"corpus {corpus}: nothing is published yet; run: inset refresh {corpus}"
    if refusals := refusals_of(newest):
        hint = override_hint(corpus, newest.version)
        return f"corpus {corpus}: nothing is published; {newest.version} was refused: {'; '.join(refusals)}; {hint}"
    return f"corpus {corpus}: nothing is live; to publish its newest version: inset publish {corpus} {newest.version}"


def _newest_manifest(store: ObjectStore) -> Manifest | None:
    stored = (readable_manifest(store, version) for version in reversed(store.folders("versions")))
    return next((manifest for manifest in stored if manifest is not None), None)
