"""Stage 9: write the manifest, and move the pointer if all gates hold."""

import contextlib
from datetime import UTC, datetime

from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import holds
from pipeline.records.differences import write_diff
from pipeline.records.indexing import bring_back
from pipeline.records.lease import alone, still_held
from pipeline.records.manifests import manifest_name, read_manifest, readable_manifest, state_of, write_inventory
from pipeline.records.notes import StageNote, counts_of, read_notes, read_plan
from pipeline.records.publication import (
    move_pointer,
    publish_version,
    read_pointer,
    readable_pointer,
    resolve_version,
    roll_back,
)
from pipeline.records.retention import update_alias
from schemas.base import RELEASE
from schemas.errors import ContractError, TransientError, UserError
from schemas.ids import sha256, version_file
from schemas.stages import Report, Stage, silent
from schemas.versions import Lease, Manifest, Plan, Pointer

_WORK = (Stage.PARSE, Stage.ENRICH)


def finish(workspace: Workspace, version: str, lease: Lease) -> Manifest:
    """Write a version's manifest, after which it never changes; it doesn't go live by that.

    Raises ``ContractError`` where the lease was lost.
    """
    store = workspace.store
    if not still_held(store, lease):
        raise ContractError(f"{version} was not published: another run took the lease over; refresh again")
    manifest = read_manifest(store, version)
    if manifest is not None:
        return manifest
    plan = read_plan(store, version)
    manifest = _manifest(workspace, plan, read_notes(store, version))
    # The inventory lists the diff, and the manifest digests the inventory; without a manifest the version is unfinished.
    write_diff(store, manifest)
    inventory = write_inventory(store, version)
    manifest = manifest.model_copy(update={"inventory": inventory})
    store.put(manifest_name(version), manifest.model_dump_json(indent=1).encode())
    return manifest


def publish(workspace: Workspace, version: str, lease: Lease, *, by: str | None = None) -> bool:
    """Write a version's manifest, and make it live unless it is refused or the corpus held; return whether it is live now.

    Raises as ``finish`` does, and ``ContractError`` where another version was published meanwhile.
    """
    store = workspace.store
    manifest = finish(workspace, version, lease)
    live = read_pointer(store, fresh=True)
    # An earlier try moved the pointer, and may have been killed before the alias followed.
    if live is not None and live.version == version:
        update_alias(workspace)
        return True
    if state_of(store, version, live).state == "refused" or (live is not None and live.held):
        return False
    # A version that another run built may be older than the live one, with which it was compared in the plan.
    expected = manifest.parent if manifest.run_id == lease.run_id else live.version if live else None
    move_pointer(store, version, expected=expected, is_held=False, lease=lease, since=datetime.now(UTC), by=by)
    update_alias(workspace)
    return True


def roll_back_version(
    workspace: Workspace,
    version: str | None = None,
    *,
    by: str | None = None,
    reason: str | None = None,
    report: Report = silent,
) -> Pointer:
    """Make an older version live, hold the corpus, and move the alias; arguments and errors are those of ``roll_back``.

    Raises ``UserError`` too where the engine lost the version's rows, and as ``prepare_version`` does.
    """
    store, corpus = workspace.store, workspace.corpus.name
    version = version and resolve_version(store, corpus, version)
    prepare_version(workspace, version, report)
    pointer = roll_back(store, corpus, version, by=by, reason=reason)
    update_alias(workspace)
    return pointer


def make_live(
    workspace: Workspace, version: str, *, override: str | None = None, by: str | None = None, reason: str | None = None
) -> Pointer:
    """Make a finished version live, end a hold, and move the alias; arguments and errors are those of ``publish_version``.

    Raises ``UserError`` too where the engine lost the version's rows, and as ``prepare_version`` does.
    """
    store, corpus = workspace.store, workspace.corpus.name
    version = resolve_version(store, corpus, version)
    prepare_version(workspace, version)
    pointer = publish_version(store, corpus, version, override=override, by=by, reason=reason)
    update_alias(workspace)
    return pointer


def prepare_version(
    workspace: Workspace, version: str | None, report: Report = silent, *, holds_lease: bool = False
) -> None:
    """Bring a version that is to replace the live one back into the engine, if others have its collection.

    None is the previous one. Raises ``HeldError`` while a refresh runs, if there is something to bring back, and
    ``UserError`` if the engine lost its rows.
    """
    live = readable_pointer(workspace.store)
    version = version or (live.previous if live else None)
    manifest = readable_manifest(workspace.store, version)
    if manifest is None or (live is not None and live.version == version):
        return
    if workspace.is_taken(manifest.version):
        with contextlib.nullcontext() if holds_lease else alone(workspace.store, "bring-back"):
            bring_back(workspace, manifest, report)
    with contextlib.suppress(TransientError):  # an outage must not keep an operator from rolling back
        if not holds(workspace, manifest):
            raise UserError(
                f"corpus {workspace.corpus.name}: the engine doesn't hold the {manifest.counts.rows} rows of {version} any more, "
                "so it can't go live; choose another version, or refresh"
            )


def _manifest(workspace: Workspace, plan: Plan, notes: dict[Stage, StageNote]) -> Manifest:
    counts, evaluated = notes[Stage.ASSEMBLE].counts, notes.get(Stage.EVALUATE)
    corpus = workspace.corpus
    return Manifest(
        version=plan.version,
        corpus=corpus.name,
        fingerprint=plan.fingerprint,
        parent=plan.parent,
        created=datetime.now(UTC),
        run_id=plan.run_id,
        code_version=RELEASE,
        keys={name: stage_key for name, stage_key in vars(workspace.keys).items() if stage_key is not None},
        models={} if workspace.recogniser is None else {"recogniser": workspace.recogniser},
        spaces=dict(workspace.spaces),
        captioners={name: captioner.captions for name, captioner in workspace.captioners.items()},
        spent=notes[Stage.ENRICH].spent if Stage.ENRICH in notes else {},
        parameters=corpus.model_dump(
            mode="json",
            exclude={
                *("source", "store", "questions", "schedule", "operations", "retrieval", "answer", "access", "metadata"),
                *(name for name in ("fields", "supersedes") if not getattr(corpus, name)),
            },
        )
        | {"judged_by": evaluated and evaluated.judged_by},
        counts=counts_of(counts),
        collection=workspace.collection(plan.version),
        calibration=evaluated.calibration if evaluated is not None else None,
        gates=[gate for note in notes.values() for gate in note.gates],
        timings_s={stage: round(note.seconds, 2) for stage, note in notes.items()},
        work={name: count for stage in _WORK for name, count in (notes[stage].counts if stage in notes else {}).items()},
        sizes={"sources": sum(document.size for document in plan.documents), "evidence": counts.get("evidence_bytes", 0)},
        ledger=sha256(workspace.store.get(version_file(plan.version, "ledger.parquet"))),
    )
