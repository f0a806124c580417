"""A refresh as a scheduler runs it: one function a task, each in its own process.

The stages are those of ``pipeline.refresh``. Each task opens the corpus, re-enters the run's lease and logs its progress; tasks
pass only names to each other.
"""

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records import lease
from pipeline.records.alias import update_alias
from pipeline.records.damage_note import note_damage
from pipeline.records.notes import StageNote, join_notes, read_plan, write_plan
from pipeline.records.publication import override_hint, read_manifest, read_pointer, refusals_of
from pipeline.refresh import WORK, publish_existing
from pipeline.stages import parse, publish
from pipeline.stages import plan as planning
from pipeline.upkeep.repair import repair
from pipeline.upkeep.retain import sweep
from schemas.errors import OF_THE_SOURCE, DamagedError, Failure, GateError, TransientError, UserError
from schemas.printing import line
from schemas.progress import Report
from schemas.stages import Stage
from schemas.versions import Lease, LedgerRow, Outcome, in_words

_logger = logging.getLogger(__name__)

MOST_GROUPS = 500
"""Most groups of shards: schedulers are slow with thousands of mapped tasks, and Airflow refuses 1,025."""

_REPORT_EVERY_S = 5.0


class Planned(NamedTuple):
    """Result of planning. ``groups`` are the numbers of the shards that each parse task gets."""

    version: str
    outcome: Outcome
    parent: str | None
    groups: list[list[int]]


class Published(NamedTuple):
    """Result of publishing; a version of a held corpus isn't live."""

    version: str
    live: bool
    counts: dict[str, int]


def plan(corpus: str, run_id: str) -> Planned:
    """Take the lease, plan, and store the plan where a version is to be built.

    Raises:
        UserError: Another run is refreshing, or the source is missing.
    """
    workspace = open_workspace(corpus)
    with _holding_lease(workspace, run_id):
        made = planning.plan(workspace, run_id, rebuild=repair(workspace))
        if made.outcome == "build":
            workspace.reach_engine()
            write_plan(workspace.store, made)
            sweep(workspace, except_version=made.version)
    summary = made.summary
    _logger.info("%s: %s", made.version, _OUTCOMES[made.outcome])
    _logger.info(
        "sources: %d new, %d changed, %d gone, %d kept; %d documents to parse in %d shards",
        *(summary.new, summary.changed, summary.gone, summary.kept, summary.to_parse, len(made.shards)),
    )
    for name, expected in summary.captions.items():
        _logger.info("captions by %s: %s", name, in_words(expected))
    _log_failures(row for row in made.carried if row.code in OF_THE_SOURCE)
    groups = [list(range(first, len(made.shards), MOST_GROUPS)) for first in range(min(MOST_GROUPS, len(made.shards)))]
    return Planned(made.version, made.outcome, made.parent, groups)


_OUTCOMES: dict[Outcome, str] = {
    "build": "a new version will be built",
    "unchanged": "nothing to do; this version is live",
    "ready": "built before and ready to be published",
    "refused": "built before and refused by a gate; not built again",
    "held": "built before and held back since a rollback",
}


def parse_shards(corpus: str, run_id: str, version: str, shards: list[int]) -> StageNote:
    """Parse some shards of a plan.

    Raises:
        UserError: The version is finished.
    """
    workspace = open_workspace(corpus)
    with _holding_lease(workspace, run_id):
        _check_unfinished(workspace, version)
        note = join_notes([parse.parse(workspace, version, shard, _log_progress()) for shard in shards])
    _log_failures(note.failures)
    _logger.info("parse: %s", _in_words(note.counts))
    return note


def run_stage(stage: Stage, corpus: str, run_id: str, version: str) -> StageNote:
    """Run one of ``ON_A_VERSION`` on a version.

    Raises:
        UserError: The version is finished.
    """
    return run_stage_in(open_workspace(corpus), stage, run_id, version)


def run_stage_in(workspace: Workspace, stage: Stage, run_id: str, version: str) -> StageNote:
    """Run a stage in an open corpus; as ``run_stage``."""
    with _holding_lease(workspace, run_id):
        _check_unfinished(workspace, version)
        note = WORK[stage](workspace, version, _log_progress())
    if note.counts:
        _logger.info("%s: %s", stage, _in_words(note.counts))
    _log_failures(note.failures)
    for gate in note.gates:
        _logger.log(
            logging.INFO if gate.passed else logging.ERROR,
            "gate %s %s: %s",
            *(gate.gate, "holds" if gate.passed else "REFUSES", line(gate.message)),
        )
    return note


def publish_version(corpus: str, run_id: str, planned: Planned) -> Published:
    """Publish the version that was built, or an existing one that is ready.

    Raises:
        GateError: Gates refuse the version; the message gives each reason.
        ContractError: Another version was published meanwhile, or the lease was lost.
    """
    workspace = open_workspace(corpus)
    with _holding_lease(workspace, run_id) as held:
        live = _publish(workspace, planned, held)
        if live:
            repair(workspace)  # removes a damaged version that was replaced
    manifest = read_manifest(workspace.store, planned.version)
    reasons = refusals_of(manifest) if manifest else []
    if reasons and not live:
        name = workspace.corpus.name
        raise GateError(f"{planned.version} was refused: {'; '.join(reasons)}", override_hint(name, planned.version))
    counts = manifest.counts.model_dump(exclude={"rows_by_modality", "documents_by_language"}) if manifest else {}
    if live:
        _logger.info("%s is live: %s", planned.version, _in_words(counts))
    return Published(planned.version, live, counts)


def _log_failures(failures: Iterable[Failure | LedgerRow]) -> None:
    for failure in failures:
        page = f" page {failure.page}" if failure.page else ""
        _logger.warning("quarantine: %s", line(f"{failure.source}{page}: {failure.code}: {failure.message}"))


def _publish(workspace: Workspace, planned: Planned, held: Lease) -> bool:
    if planned.outcome == "build":
        return publish.publish(workspace, planned.version, held)
    pointer = read_pointer(workspace.store)
    if pointer is not None and pointer.version == planned.version:
        update_alias(workspace)
        return True  # by an earlier try of this task
    made = read_plan(workspace.store, planned.version)
    return publish_existing(workspace, made.model_copy(update={"outcome": planned.outcome, "parent": planned.parent}), held)


def release(corpus: str, run_id: str) -> None:
    """Release the lease if this run holds it."""
    lease.release(open_workspace(corpus).store, run_id)


@contextlib.contextmanager
def _holding_lease(workspace: Workspace, run_id: str) -> Iterator[Lease]:
    """Hold the run's lease; tasks of one run may enter it at the same moment."""
    with contextlib.ExitStack() as stack:
        for attempt in range(1, _TRIES + 1):
            try:
                held = stack.enter_context(lease.holding(workspace.store, run_id, tied_to_process=False))
                break
            except TransientError:
                if attempt == _TRIES:
                    raise
                time.sleep(0.05 * attempt)
        try:
            yield held
        except DamagedError as error:
            note_damage(workspace.store, [error.name])  # the next run repairs it
            raise


_TRIES = 10


def _check_unfinished(workspace: Workspace, version: str) -> None:
    """Refuse to work on a finished version: it may be live."""
    if read_manifest(workspace.store, version) is not None:
        raise UserError(f"{version} is finished, and finished versions never change; trigger a new run instead")


def _log_progress() -> Report:
    reported: dict[str, float] = {}

    def report(step: str, done: int, total: int, spent: str = "") -> None:
        now = time.monotonic()
        if total and (done >= total or now - reported.get(step, -_REPORT_EVERY_S) >= _REPORT_EVERY_S):
            reported[step] = now
            _logger.info("progress: %s %d of %d%s", step, done, total, f", {spent}" if spent else "")

    return report


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
