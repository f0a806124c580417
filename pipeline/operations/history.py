"""The versions of a corpus, a page at a time: how each was judged, and what changed between two of them."""

from collections.abc import Sequence
from functools import lru_cache

from backends.stores.objects import read_model, unless_damaged
from pipeline.corpus.workspace import open_workspace
from pipeline.records.differences import compare_versions
from pipeline.records.manifests import named_manifest, state_and_manifest
from pipeline.records.notes import read_notes
from pipeline.records.publication import readable_pointer
from schemas.gates import GateResult
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.reports import VersionDiff, VersionRow
from schemas.stages import ON_A_VERSION
from schemas.versions import AuditEvent, Pointer


class VersionEntry(VersionRow):
    """A version in the history.

    Attributes:
        money: What its run spent on models, published or not.
        seconds: What the stages of its run took, together; None of an unfinished one.
        moved: The latest event of the audit log that made it live; None where that is too long ago.
    """

    gates: Sequence[GateResult] = ()
    money: float | None = None
    seconds: float | None = None
    moved: AuditEvent | None = None


def version_names(store: ObjectStore) -> list[str]:
    """Return the names of all versions, unfinished ones included, newest first, without reading them."""
    return store.folders("versions")[::-1]


def history(store: ObjectStore, names: Sequence[str], events: Sequence[AuditEvent] = ()) -> list[VersionEntry]:
    """Return some versions in the order of their names; one that is damaged is an entry all the same.

    ``events`` are those of the audit log, newest first, that say who made which version live.
    """
    pointer = readable_pointer(store)
    moved = {event.to_version: event for event in reversed(events) if event.moved}
    return [_entry(store, name, pointer).model_copy(update={"moved": moved.get(name)}) for name in names]


def _entry(store: ObjectStore, version: str, pointer: Pointer | None) -> VersionEntry:
    row, manifest = state_and_manifest(store, version, pointer)
    entry = VersionEntry(**dict(row))
    if manifest is not None:
        return entry.model_copy(
            update={
                "gates": manifest.gates,
                "money": sum(cost.money for cost in manifest.spent.values()),
                "seconds": sum(manifest.timings_s.values()),
            }
        )
    # Parsing spends nothing, and may have thousands of notes.
    notes = unless_damaged(lambda: read_notes(store, version, ON_A_VERSION)) if row.state == "unfinished" else None
    money = sum(cost.money for note in (notes or {}).values() for cost in note.spent.values())
    return entry.model_copy(update={"money": money if notes is not None else None})


def changes(file: str, store: ObjectStore, base: str, version: str) -> VersionDiff:
    """Return what changed from one finished version to another.

    Where ``base`` is the version's parent, what its refresh stored is returned, which takes one read.

    Raises:
        UserError: There is no such version.
        TransientError: A version can't be read.
    """
    manifest = named_manifest(store, store.root.rpartition("/")[2], version)
    # What it was made of may be there where it is damaged.
    stored = unless_damaged(lambda: read_model(store, version_file(version, "diff.json"), VersionDiff))
    if manifest.parent == base and stored is not None:
        return stored
    return _cached_diff(file, base, version)


@lru_cache(maxsize=32)
def _cached_diff(file: str, base: str, version: str) -> VersionDiff:
    """Versions never change, so that two of them are compared once."""
    return compare_versions(open_workspace(file), base, version)
