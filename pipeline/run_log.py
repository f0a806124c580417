"""Log lines of a refresh's steps, for a scheduler's task logs."""

import logging
import time
from collections.abc import Iterable, Sequence

from pipeline.operations.health import CorpusHealth
from pipeline.records.notes import StageNote
from pipeline.records.states import State
from schemas.errors import OF_THE_SOURCE, Failure
from schemas.printing import line
from schemas.reports import PruneResult
from schemas.stages import Report, Stage
from schemas.versions import LedgerRow, Outcome, Plan, in_words

_logger = logging.getLogger(__name__)

_REPORT_EVERY_S = 5.0

OUTCOMES: dict[Outcome, str] = {
    "build": "a new version will be built",
    "unchanged": "nothing to do; this version is live",
    "ready": "built before and ready to be published",
    "refused": "built before and refused by a gate or a person; not built again",
    "held": "built before and held back since a rollback",
}


def log_plan(plan: Plan) -> None:
    """Log the plan's outcome, its counts, expected calls of models, and sources that can't be read."""
    summary = plan.summary
    _logger.info("%s: %s", plan.version, OUTCOMES[plan.outcome])
    _logger.info(
        "sources: %d new, %d changed, %d gone, %d kept; %d documents to parse in %d shards",
        *(summary.new, summary.changed, summary.gone, summary.kept, summary.to_parse, len(plan.shards)),
    )
    _logger.info("plan: %s", summary.in_words())
    for name, expected in summary.captions.items():
        _logger.info("calls of %s: %s", name, in_words(expected))
    _log_failures(row for row in plan.carried if row.code in OF_THE_SOURCE)


def log_note(stage: Stage, note: StageNote) -> None:
    """Log a stage's gates, those that refuse first, then its counts and failures."""
    for gate in note.gates:
        if not gate.passed:
            _logger.error("gate %s REFUSES: %s", gate.gate, line(gate.message))
    passed_gates = [f"{gate.gate} ({line(gate.message)})" for gate in note.gates if gate.passed]
    if passed_gates:
        _logger.info("gates that hold: %s", "; ".join(passed_gates))
    if note.counts:
        _logger.info("%s: %s", stage, counts_in_words(note.counts))
    _log_failures(note.failures)


def _log_failures(failures: Iterable[Failure | LedgerRow]) -> None:
    for failure in failures:
        page = f" page {failure.page}" if failure.page else ""
        _logger.warning("quarantine: %s", line(f"{failure.source}{page}: {failure.code}: {failure.message}"))


def log_progress() -> Report:
    """Return a report that logs each step every few seconds, and its end."""
    reported: dict[str, float] = {}

    def report(step: str, done_count: int, total: int, spent: str = "") -> None:
        now = time.monotonic()
        if total > 1 and (done_count >= total or now - reported.get(step, -_REPORT_EVERY_S) >= _REPORT_EVERY_S):
            reported[step] = now
            _logger.info("progress: %s %d of %d%s", step, done_count, total, f", {spent}" if spent else "")

    return report


def counts_in_words(counts: dict[str, int]) -> str:
    """Return counts as ``3 documents, 12 pages``."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def log_pruned(result: PruneResult) -> str:
    """Log what was removed, or would be, and return it in words."""
    removal = "removed" if result.removed else "would be removed"
    for name in result.versions:
        _logger.info("%s: version %s", removal, name)
    for kind, counts in (("objects", result.objects), ("records", result.records)):
        for folder, count in counts.items():
            _logger.info("%s: %d %s of %s", removal, count, kind, folder)
    _logger.info("%s: %s bytes", removal, f"{result.bytes:,}")
    objects, records = sum(result.objects.values()), sum(result.records.values())
    return f"{removal}: {len(result.versions)} versions, {objects:,} objects, {records:,} records, {result.bytes:,} bytes"


def log_health(corpora: Sequence[CorpusHealth]) -> list[str]:
    """Log the state of every corpus; return a line for each that needs a person."""
    problems = []
    for health in corpora:
        for problem in health.problems or [f"{health.live} is live"]:
            _logger.log(
                logging.INFO if health.state is State.OK else logging.WARNING,
                "%s: %s: %s",
                health.corpus,
                health.state,
                problem,
            )
        if health.state.needs_person:
            problems.append(f"{health.corpus}: {health.state}: {'; '.join(health.problems)}")
    return problems
