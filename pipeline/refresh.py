"""A whole refresh in one process, with the stages that the DAG runs as tasks."""

import functools
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pipeline.corpus.workspace import Workspace
from pipeline.records.alias import update_alias
from pipeline.records.damage_note import note_damage
from pipeline.records.lease import holding, release
from pipeline.records.ledger import read_ledger
from pipeline.records.notes import StageNote, read_notes, write_plan
from pipeline.records.publication import manifests, move_pointer, read_manifest, read_pointer, readable_manifest
from pipeline.records.quarantine import read_failures
from pipeline.stages.assemble import assemble
from pipeline.stages.build import build
from pipeline.stages.check import check
from pipeline.stages.enrich import enrich
from pipeline.stages.evaluate import evaluate
from pipeline.stages.parse import parse
from pipeline.stages.plan import plan
from pipeline.stages.publish import publish
from pipeline.upkeep.repair import repair
from pipeline.upkeep.retain import sweep
from schemas.errors import ContractError, DamagedError, Failure
from schemas.progress import Report, silent
from schemas.stages import ON_A_VERSION, Stage
from schemas.versions import Lease, Plan, RefreshResult, Status

Work = Callable[[Workspace, str, Report], StageNote]

WORK: dict[Stage, Work] = {
    Stage.ENRICH: enrich,
    Stage.ASSEMBLE: assemble,
    Stage.CHECK: functools.partial(check, assemble=assemble),
    Stage.BUILD: build,
    Stage.EVALUATE: evaluate,
}
"""The function of each stage in ``ON_A_VERSION``."""


def refresh(
    workspace: Workspace, *, run_id: str | None = None, report: Report = silent, replay: bool = False
) -> RefreshResult:
    """Bring the live version up to date with its source.

    A killed refresh leaves the live version unchanged; the next one continues from finished work. With ``replay``,
    quarantined documents are tried again.

    Raises:
        UserError: The source is missing, or another run is refreshing.
        ContractError: Another version was published meanwhile.
    """
    run_id = run_id or f"cli-{uuid.uuid4().hex[:12]}"
    store = workspace.store
    with holding(store, run_id, tied_to_process=True) as lease:
        try:
            try:
                return _refresh(workspace, run_id, lease, report, replay=replay)
            except DamagedError as error:
                # The second try repairs the damage first.
                note_damage(store, [error.name])
                return _refresh(workspace, run_id, lease, report, replay=replay)
        finally:
            release(store, run_id)


def _refresh(workspace: Workspace, run_id: str, lease: Lease, report: Report, *, replay: bool) -> RefreshResult:
    began = time.monotonic()
    report(Stage.PLAN, 0, 1)
    damaged = repair(workspace)
    retry = quarantined(workspace) if replay else frozenset()
    made = plan(workspace, run_id, retry=retry, rebuild=damaged)
    seconds: dict[str, float] = {Stage.PLAN: round(time.monotonic() - began, 2)}
    report(Stage.PLAN, 1, 1)
    if made.outcome != "build":
        published = publish_existing(workspace, made, lease)
        return describe(workspace, made, published=published, timings=seconds)
    result = _build(workspace, made, lease, seconds, report, retry)
    if damaged and result.published:
        repair(workspace)  # removes the damaged version
    return result


def quarantined(workspace: Workspace) -> frozenset[str]:
    """Return the documents that the last refresh left in quarantine, whether or not its version is live."""
    finished = manifests(workspace.store)
    rows = read_ledger(workspace.store, finished[0].version) if finished else []
    # Sources that can't be read have no document id, and are tried each time anyway.
    return frozenset(row.doc_id for row in rows if row.status is Status.QUARANTINED and row.doc_id)


def publish_existing(workspace: Workspace, made: Plan, lease: Lease) -> bool:
    """Publish an existing version that is ready, and update the alias; return whether a version was published."""
    if made.outcome == "ready":
        move_pointer(workspace.store, made.version, expected=made.parent, held=False, lease=lease, since=datetime.now(UTC))
    update_alias(workspace)
    return made.outcome == "ready"


def _build(
    workspace: Workspace, made: Plan, lease: Lease, seconds: dict[str, float], report: Report, retry: frozenset[str]
) -> RefreshResult:
    version = made.version
    workspace.reach_engine()
    write_plan(workspace.store, made)
    sweep(workspace, except_version=version)
    failures = [*parse(workspace, version, report=report).failures]
    for stage in ON_A_VERSION:
        note = WORK[stage](workspace, version, report)
        failures += note.failures
        if made.parent and _retries_failed(workspace, made, retry, failures):
            sweep(workspace)
            return describe(workspace, made.model_copy(update={"version": made.parent}), published=False, timings=seconds)
    report(Stage.PUBLISH, 0, 1)
    began = time.monotonic()
    published = publish(workspace, version, lease)
    report(Stage.PUBLISH, 1, 1)
    notes = read_notes(workspace.store, version)
    timings = seconds | {stage: round(note.seconds, 2) for stage, note in notes.items()}
    return describe(
        workspace, made, published=published, timings=timings | {Stage.PUBLISH: round(time.monotonic() - began, 2)}
    )


def _retries_failed(workspace: Workspace, made: Plan, retry: frozenset[str], failures: Sequence[Failure]) -> bool:
    """Return whether every retried document failed again and nothing else changed, so that no version is needed."""
    if not retry or made.parent is None or not retry <= {failure.doc_id for failure in failures}:
        return False
    parent = readable_manifest(workspace.store, made.parent)
    return parent is not None and parent.fingerprint == made.fingerprint


def describe(workspace: Workspace, made: Plan, *, published: bool, timings: dict[str, float]) -> RefreshResult:
    """Return the result of a refresh, from its version's manifest.

    Raises:
        ContractError: The version was never finished.
    """
    manifest = read_manifest(workspace.store, made.version)
    if manifest is None:
        raise ContractError(f"{made.version} has no manifest; run the refresh again")
    return RefreshResult(
        version=made.version,
        published=published,
        plan=made.summary,
        counts=manifest.counts,
        gates=manifest.gates,
        failures=read_failures(workspace.store, manifest) or [],
        timings_s=timings,
    )


def is_refused(workspace: Workspace, result: RefreshResult) -> bool:
    """Return whether gates refused the version of a refresh, and no operator made it live."""
    if all(gate.passed for gate in result.gates):
        return False
    live = read_pointer(workspace.store)
    return live is None or live.version != result.version
