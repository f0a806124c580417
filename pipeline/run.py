"""One refresh of a corpus.

The CLI runs it in one process by ``refresh``. Airflow runs each step of ``RefreshRun`` as a task, in a process of its own: steps
pass nothing but a version's name, and everything else lies in the version's folder.
"""

import contextlib
import functools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_incrementing

from pipeline.corpus.workspace import Workspace, open_corpus
from pipeline.records import lease
from pipeline.records.access import update_rights
from pipeline.records.ledger import read_failures, read_ledger
from pipeline.records.manifests import (
    manifests,
    read_manifest,
    readable_manifest,
    refusals_in,
)
from pipeline.records.notes import (
    RefreshState,
    StageNote,
    join_notes,
    note_refresh,
    read_notes,
    read_plan_summary,
    write_plan,
)
from pipeline.records.publication import (
    decision,
    decision_in_words,
    refusals_now,
    reject_version,
    restore_pointer,
)
from pipeline.records.retention import update_alias
from pipeline.stages import plan as planning
from pipeline.stages import publish as publishing
from pipeline.stages.assemble import assemble
from pipeline.stages.build import build
from pipeline.stages.check import check
from pipeline.stages.enrich.stage import enrich
from pipeline.stages.evaluate import evaluate
from pipeline.stages.parse import parse
from pipeline.upkeep.discard import convert_again, discard, discard_lost_versions, is_live_damaged
from pipeline.upkeep.forget import finish_forgetting
from pipeline.upkeep.prune import sweep
from schemas.errors import ContractError, DamagedError, TransientError, UserError, WaitingError
from schemas.reports import RefreshResult
from schemas.stages import ON_A_VERSION, Report, Stage, silent
from schemas.versions import Lease, Manifest, Outcome, Plan, RunOptions, Status

Work = Callable[[Workspace, str, Report], StageNote]

WORK: dict[Stage, Work] = {
    Stage.ENRICH: enrich,
    Stage.ASSEMBLE: assemble,
    Stage.CHECK: functools.partial(check, assemble=assemble),
    Stage.BUILD: build,
    Stage.EVALUATE: evaluate,
}
"""The function of each stage in ``ON_A_VERSION``."""

_STATES: dict[Outcome, RefreshState] = {
    "build": "started",
    "ready": "started",
    "unchanged": "unchanged",
    "held": "held",
    "refused": "refused",
}

BATCHES_SEEN_EVERY_S = 120.0
"""Seconds between two looks at batches that a server works on; less than the term of the lease."""

_LEASE_TRIES = 10
_DEFAULTS = RunOptions()


class Approved(NamedTuple):
    """A person's approval of a version that wouldn't go live by itself."""

    reason: str
    by: str


def refresh(
    workspace: Workspace, *, run_id: str | None = None, report: Report = silent, options: RunOptions = _DEFAULTS
) -> RefreshResult:
    """Bring the live version up to date with its source, in this process.

    A killed refresh leaves the live version unchanged; the next one continues from finished work. Raises ``UserError``
    if the source is missing, ``TransientError`` if another run is refreshing, and ``ContractError`` if another
    version was published meanwhile.
    """
    run = RefreshRun(workspace, run_id or f"cli-{uuid.uuid4().hex[:12]}", report, tied_to_process=True)
    with run.holding_lease():
        try:
            try:
                return _refresh(run, options)
            except DamagedError:
                return _refresh(run, options)  # what was damaged is deleted, and made again
        finally:
            run.release()


def _refresh(run: "RefreshRun", options: RunOptions) -> RefreshResult:
    plan = run.plan(options)
    if plan.outcome == "build":
        run.parse(plan.version)
        for stage in ON_A_VERSION:
            if run.changes_nothing(plan.version):
                break
            run.work_through(stage, plan.version)
    published = plan.outcome in ("build", "ready") and run.publish(plan.version)
    return run.result(plan, published=published)


class RefreshRun:
    """A refresh, step by step: ``plan``, ``parse``, ``work`` for each of ``ON_A_VERSION``, ``publish``, ``release``.

    ``work`` raises ``WaitingError`` while a server works on batches: run it again later.

    Each step holds the run's lease, and deletes what it finds damaged, so that the next run makes it again. Steps
    in other processes use the same ``run_id``. ``tied_to_process``: the run ends with this process. ``by``, by default the
    operating system's user, is for the audit log. A step raises ``TransientError`` while another run holds the lease, and
    ``UserError`` if it would change a finished version.
    """

    def __init__(
        self,
        workspace: Workspace,
        run_id: str,
        report: Report = silent,
        *,
        tied_to_process: bool = False,
        by: str | None = None,
    ) -> None:
        self.workspace = workspace
        self.run_id = run_id
        self._report = report
        self._tied = tied_to_process
        self._by = by
        self._lease: Lease | None = None
        self._seconds: dict[str, float] = {}

    def plan(self, options: RunOptions = _DEFAULTS) -> Plan:
        """Plan, and store the plan if a version is to be built; a dry run writes nothing but the lease."""
        workspace = self.workspace
        with self._timed(Stage.PLAN), self.holding_lease() as lease:
            if not options.dry_run:
                # The source is compared with the live version, so what is damaged or half deleted is put in order first.
                restore_pointer(workspace.store, workspace.corpus.name, lease.fence)
                discard_lost_versions(workspace)
                with contextlib.suppress(DamagedError):  # made again next, and finished by a later refresh
                    finish_forgetting(workspace, lease)
                if workspace.corpus.access is not None:
                    update_rights(workspace)
            if options.reconvert and not options.dry_run:
                convert_again(workspace)
            rebuild = options.force or is_live_damaged(workspace)
            retry = _quarantined(workspace, options.documents) if options.replay else frozenset()
            rebuild |= planning.has_kept(workspace, options.accept)
            plan = planning.plan(
                _with_budget(workspace, options), self.run_id, retry=retry, accept=options.accept, rebuild=rebuild
            )
            plan = plan.model_copy(update={"options": options})
            if plan.outcome == "build" and not options.dry_run:
                workspace.reach_engine()
                write_plan(workspace.store, plan)
                sweep(workspace, except_version=plan.version)
            elif not options.dry_run:
                update_alias(workspace)  # a crash after a publication may have left it behind
            if not options.dry_run:
                self._record(_STATES[plan.outcome], plan.version)
        return plan

    def parse(self, version: str, shards: Sequence[int] | None = None) -> StageNote:
        """Parse some shards of an unfinished version's plan; None means all."""
        with self.holding_lease():
            self._check_unfinished(version)
            if shards is None:
                return parse(self.workspace, version, report=self._report)
            return join_notes([parse(self.workspace, version, shard, self._report) for shard in shards])

    def work(self, stage: Stage, version: str) -> StageNote:
        """Run one of ``ON_A_VERSION`` on an unfinished version."""
        with self.holding_lease():
            self._check_unfinished(version)
            plan = read_plan_summary(self.workspace.store, version)
            workspace = replace(_with_budget(self.workspace, plan.options), by_hand=plan.corrections)
            return WORK[stage](workspace, version, self._report)

    def work_through(self, stage: Stage, version: str) -> StageNote:
        """Run one of ``ON_A_VERSION``, and wait for the batches of its models."""
        while True:
            try:
                return self.work(stage, version)
            except WaitingError:
                time.sleep(BATCHES_SEEN_EVERY_S)

    def changes_nothing(self, version: str) -> bool:
        """Return whether every retried document failed again and nothing else changed, so that no version is needed."""
        store = self.workspace.store
        plan = read_plan_summary(store, version)
        if not plan.again or plan.parent is None:
            return False
        failed = {failure.doc_id for note in read_notes(store, version).values() for failure in note.failures}
        parent = readable_manifest(store, plan.parent)
        return failed.issuperset(plan.again) and parent is not None and parent.fingerprint == plan.fingerprint

    def finish(self, version: str) -> Manifest:
        """Write a version's manifest, so that its gates and differences can be read before it is published."""
        with self.holding_lease() as lease:
            return publishing.finish(self.workspace, version, lease)

    def publish(self, version: str, approved: Approved | None = None) -> bool:
        """Publish a version that this run built, or an existing one; return whether it is live now.

        Refused versions aren't published, nor is any while the corpus is held, unless a person approved it: that ends the
        hold. Raises ``ContractError`` if another version was published meanwhile, or the lease was lost.
        """
        workspace, store = self.workspace, self.workspace.store
        with self._timed(Stage.PUBLISH), self.holding_lease() as lease:
            manifest = read_manifest(store, version)
            if manifest is None and self.changes_nothing(version):
                plan = read_plan_summary(store, version)
                sweep(workspace)
                self._record("unchanged", plan.parent or version)
                return False
            if approved is not None:
                live = self._publish_approved(version, approved)
            else:
                live = publishing.publish(workspace, version, lease, by=self._by)
            if live:
                discard_lost_versions(workspace)  # such as a damaged one that was replaced
            self._record("published" if live else "refused" if refusals_now(store, version) else "held", version)
        return live

    def reject(self, version: str, *, by: str, reason: str) -> str:
        """Store that a person rejected the version; return it in words."""
        rejection = reject_version(self.workspace.store, version, by=by, reason=reason)
        return f"{version} was {rejection}; it goes live only by hand"

    def record_superseded(self, live: str) -> None:
        """Record that the run publishes nothing, since an operator made another version live meanwhile."""
        with self.holding_lease():
            self._record("unchanged", live)

    def _publish_approved(self, version: str, approved: Approved) -> bool:
        workspace, manifest = self.workspace, self.finish(version)
        live = decision(workspace.store, version)
        if live is not None and live.version == version:
            update_alias(workspace)
            return True
        if live is not None:
            raise ContractError(f"{decision_in_words(live, version)}; compare them, then publish by hand")
        override = approved.reason if refusals_in(workspace.store, manifest) else None
        # Another run may have taken its collection while the person decided.
        publishing.prepare_version(workspace, version, holds_lease=True)
        publishing.make_live(workspace, version, override=override, reason=approved.reason, by=approved.by)
        return True

    def result(self, plan: Plan, *, published: bool) -> RefreshResult:
        """Describe a finished run; one that changes nothing has the live version. Without any, raises ``ContractError``."""
        store = self.workspace.store
        manifest = read_manifest(store, plan.version)
        notes = read_notes(store, plan.version) if plan.outcome == "build" and manifest is not None else {}
        if manifest is None and plan.again and plan.parent is not None:
            manifest = read_manifest(store, plan.parent)
        if manifest is None:
            raise ContractError(f"{plan.version} has no manifest; run the refresh again")
        return RefreshResult(
            version=manifest.version,
            published=published,
            plan=plan.summary,
            counts=manifest.counts,
            gates=manifest.gates,
            failures=read_failures(store, manifest) or [],
            timings_s={stage: round(note.seconds, 2) for stage, note in notes.items()} | self._seconds,
        )

    def release(self) -> None:
        """Release the lease if this run holds it."""
        lease.release(self.workspace.store, self.run_id)

    @contextlib.contextmanager
    def holding_lease(self) -> Iterator[Lease]:
        """Hold the run's lease during a block; inside another such block it is held already. Tasks of a run may enter it at once.

        Raises ``TransientError`` if another run holds it.
        """
        if self._lease is not None:
            with self.workspace.store.remembering(), self._discarding():
                yield self._lease
            return
        # Tasks of one run re-enter the lease, and lose the swap to each other if they do so at the same moment.
        attempts = Retrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(_LEASE_TRIES),
            wait=wait_incrementing(0.05, 0.05),
            reraise=True,
        )
        with contextlib.ExitStack() as stack:
            self._lease = attempts(
                lambda: stack.enter_context(lease.holding(self.workspace.store, self.run_id, tied_to_process=self._tied))
            )
            stack.enter_context(self.workspace.store.remembering())
            try:
                with self._discarding():
                    yield self._lease
            finally:
                self._lease = None

    @contextlib.contextmanager
    def _discarding(self) -> Iterator[None]:
        """Delete what a block finds damaged, so that the next try makes it again."""
        try:
            yield
        except DamagedError as error:
            # What this user may not read isn't damaged.
            if not isinstance(error.__cause__, PermissionError):
                with contextlib.suppress(TransientError, UserError):  # a store that is read-only
                    discard(self.workspace, [error.name])
            raise

    def _record(self, state: RefreshState, version: str) -> None:
        note_refresh(self.workspace.store, self.run_id, state, version=version)

    def _check_unfinished(self, version: str) -> None:
        """Refuse to work on a finished version: it may be live."""
        if read_manifest(self.workspace.store, version) is not None:
            raise UserError(f"{version} is finished, and finished versions never change; trigger a new run instead")

    @contextlib.contextmanager
    def _timed(self, stage: Stage) -> Iterator[None]:
        self._report(stage, 0, 1)
        began = time.monotonic()
        yield
        self._seconds[stage] = round(time.monotonic() - began, 2)
        self._report(stage, 1, 1)


def _quarantined(workspace: Workspace, sources: Sequence[str]) -> frozenset[str]:
    """Return the documents that the last refresh left in quarantine: those of ``sources``, or all if none are named."""
    finished = manifests(workspace.store)
    rows = read_ledger(workspace.store, finished[0].version) if finished else []
    # Sources that can't be read have no document id, and are tried each time anyway.
    return frozenset(
        row.bytes_id
        for row in rows
        if (row.status is Status.QUARANTINED or row.code) and row.bytes_id and (not sources or row.source in sources)
    )


def _with_budget(workspace: Workspace, options: RunOptions) -> Workspace:
    """Return the workspace with the run's own limit on money."""
    if options.money is None:
        return workspace
    budget = workspace.corpus.budget.model_copy(update={"money": options.money})
    return replace(workspace, corpus=workspace.corpus.model_copy(update={"budget": budget}))


def planned_workspace(workspace: Workspace, version: str) -> Workspace:
    """Return the workspace with the options of a version's plan, for a step in another process than the one that planned.

    Raises ``UserError`` if the store, or a file that the corpus file names, is another one since.
    """
    if read_manifest(workspace.store, version) is not None:
        return workspace
    try:
        plan = read_plan_summary(workspace.store, version)
    except FileNotFoundError:
        plan = None
    if plan is not None and plan.corpus not in (None, workspace.corpus):
        # Where the work is done is of now: the cluster of the plan may be dead.
        corpus = plan.corpus.model_copy(update={"ray": workspace.corpus.ray})
        workspace = replace(open_corpus(corpus, workspace.file), store=workspace.store)
    if plan is None or plan.assembled not in ("", workspace.keys.assembled):
        raise UserError(f"{workspace.file}, or a file that it names, changed while the refresh ran; refresh again")
    return workspace


def is_refused(workspace: Workspace, result: RefreshResult) -> bool:
    """Return whether gates or a person refuse the version of a refresh, and no operator made it live."""
    return result.version is not None and bool(refusals_now(workspace.store, result.version))
