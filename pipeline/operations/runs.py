"""A run of a refresh as an operator sees it: its plan, what each stage did, and how its version was judged."""

from collections.abc import Iterator, Mapping
from functools import partial

from pydantic import Field

from backends.stores.objects import read_model, unless_damaged
from evaluation.golden import ModeReport
from pipeline.corpus.schedules import CorpusSchedule
from pipeline.operations.health import GateMargin
from pipeline.operations.history import VersionEntry, history
from pipeline.records.differences import JUDGED, REPORT, Compared, read_compared, stored_name
from pipeline.records.manifests import readable_manifest
from pipeline.records.notes import StageNote, join_notes, read_notes, read_plan_summary
from schemas.base import Frozen
from schemas.errors import NotFoundError, UserError
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.stages import ON_A_VERSION, Stage
from schemas.versions import Counts, Manifest, Plan, PlanSummary, RunOptions, SlowDocument, Spent

MOST_SHARDS = 50
"""Shards of an unfinished version whose notes are read; of more, only those that are done are counted."""

_ENRICHED = {
    "recognised": "pictures read",
    "layers_replaced": "text layers replaced by OCR",
    "segmented": "pages segmented",
    "structured": "documents structured",
    "drawn": "pages drawn",
    "described": "descriptions written",
    "embedded": "vectors computed",
    "over_budget": "pictures not read: budget spent",
    "undescribed": "descriptions missing",
}


class WorkItem(Frozen):
    """Work of one kind in a stage.

    Attributes:
        done: How many were done.
        reused: How many were there already, and not done again; None if that isn't known.
    """

    what: str
    done: int
    reused: int | None = None


class StageWork(Frozen):
    """What a stage did.

    Attributes:
        seconds: How long it took, all shards together; None if it isn't done.
        money: What generative models cost; None if none was asked.
        shards: Shards done, and all of them, if it has several and isn't done.
    """

    stage: Stage
    seconds: float | None = None
    items: list[WorkItem] = Field([])
    money: float | None = None
    shards: tuple[int, int] | None = None


class RunReport(Frozen):
    """A run that built a version, or is about to.

    Attributes:
        parent: The version that was live when it was planned.
        plan: What was planned; None where the plan is gone.
        slowest: The documents whose parse took longest, the slowest first.
        gates: All verdicts: those that refuse, then those with a bound, the tightest first, then invariants.
        docs: Address of the Data Docs in the store; None if there are none.
        questions: What changed for golden questions; None without a parent to compare with.
        note: The release note, as Markdown; "" if there is none yet.
        experiments: The experiments that ran on the version, whose reports are stored with it, each with what changed since an
            earlier report; None if it wasn't compared.
    """

    version: VersionEntry
    parent: str | None
    run_id: str
    options: RunOptions
    plan: PlanSummary | None
    stages: list[StageWork]
    spent: dict[str, Spent]
    slowest: list[SlowDocument]
    gates: list[GateMargin]
    docs: str | None
    note: str
    experiments: dict[str, Compared | None] = Field({})

    @property
    def seconds(self) -> float:
        """The seconds of all stages that are done."""
        return sum(stage.seconds or 0.0 for stage in self.stages)

    @property
    def money(self) -> float | None:
        """What generative models cost; None if none was asked."""
        return sum(cost.money for cost in self.spent.values()) if self.spent else None


_runs: dict[tuple[str, str], str] = {}


def version_of_run(store: ObjectStore, run_id: str) -> str | None:
    """Return the newest version that a run planned or built; None if it built none, or the version is gone."""
    for version in reversed(store.folders("versions")):
        # The run of a version never changes, so that it is read once a process.
        stored_run_id = _runs.get((store.root, version))
        if stored_run_id is None and (stored_run_id := _run_of(store, version)) is not None:
            _runs[store.root, version] = stored_run_id
        if stored_run_id == run_id:
            return version
    return None


def _run_of(store: ObjectStore, version: str) -> str | None:
    manifest = readable_manifest(store, version)
    if manifest is not None:
        return manifest.run_id
    plan = _readable_plan(store, version)
    return plan.run_id if plan is not None else None


def run_report(schedule: CorpusSchedule, store: ObjectStore, version: str) -> RunReport:
    """Return what a run did to make a version, finished or not.

    Raises:
        UserError: There is no such version.
    """
    manifest, plan = readable_manifest(store, version), _readable_plan(store, version)
    version_source = manifest or plan
    if version_source is None:
        raise UserError(f"corpus {schedule.name}: there is no version {version}, or it can't be read")
    (entry,) = history(store, [version])
    # A finished version has the sums of shards in its manifest, so that their notes needn't be read.
    notes = read_notes(store, version, ON_A_VERSION)
    judged, docs = _golden_report(store, version), version_file(version, "quality/index.html")
    parse, shards = _parse_note(store, version, manifest, plan)
    if parse is not None:
        notes = {Stage.PARSE: parse, **notes}
    spent = {name: cost for note in notes.values() for name, cost in note.spent.items()} or (
        manifest.spent if manifest else {}
    )
    return RunReport(
        version=entry,
        parent=version_source.parent,
        run_id=version_source.run_id,
        options=plan.options if plan else RunOptions(),
        plan=plan.summary if plan else None,
        stages=list(_stages(manifest, plan, notes, shards, judged)),
        spent=spent,
        slowest=manifest.slowest if manifest else parse.slowest if parse else [],
        gates=sorted(entry.gates, key=lambda gate: (gate.passed, gate.margin is None, gate.margin or 0.0)),
        docs=f"{store.root}/{docs}" if store.exists(docs) else None,
        note=(unless_damaged(lambda: store.get(version_file(version, "release_note.md"))) or b"").decode(),
        experiments={
            name: unless_damaged(partial(read_compared, store, version, name)) for name in _experiments(store, version)
        },
    )


def experiment_report(store: ObjectStore, version: str, experiment: str) -> bytes:
    """Return the report of an experiment's last run on a version, as HTML.

    Raises:
        NotFoundError: There is none.
    """
    if experiment not in _experiments(store, version):
        raise NotFoundError(f"no experiment {experiment} ran on version {version}; start one with the DAG inset_evaluate")
    return store.get(stored_name(version, experiment, REPORT))


def _experiments(store: ObjectStore, version: str) -> list[str]:
    names = store.folders(version_file(version, "evaluation"))
    return [name for name in names if store.exists(stored_name(version, name, REPORT))]


def _readable_plan(store: ObjectStore, version: str) -> Plan | None:
    return unless_damaged(lambda: read_plan_summary(store, version))


def _golden_report(store: ObjectStore, version: str) -> ModeReport | None:
    name = version_file(version, f"evaluation/{JUDGED}.json")
    return unless_damaged(lambda: read_model(store, name, ModeReport))


def _parse_note(
    store: ObjectStore, version: str, manifest: Manifest | None, plan: Plan | None
) -> tuple[StageNote | None, tuple[int, int] | None]:
    """Return the note of ``parse``; if not all shards are done, None or that of some, with their number and that of all.

    A finished version has it in its manifest, so that the notes of its shards needn't be read.
    """
    if manifest is not None:
        seconds = manifest.timings_s.get(Stage.PARSE)
        return (StageNote(seconds=seconds, counts=manifest.work) if seconds is not None else None), None
    names = [name for name in store.names(version_file(version, "stages")) if f"/{Stage.PARSE}" in name]
    total = len(plan.shards) if plan else 0
    is_joined = any(name.endswith(f"/{Stage.PARSE}.json") for name in names)
    shards = None if is_joined or len(names) >= total else (len(names), total)
    if not names or len(names) > MOST_SHARDS:
        return None, shards
    return join_notes([read_model(store, name, StageNote) for name in names]), shards


def _stages(
    manifest: Manifest | None,
    plan: Plan | None,
    notes: Mapping[Stage, StageNote],
    shards: tuple[int, int] | None,
    judged: ModeReport | None,
) -> Iterator[StageWork]:
    for stage in (stage for stage in Stage if stage not in (Stage.PLAN, Stage.PUBLISH)):
        note = notes.get(stage)
        seconds = note.seconds if note else (manifest.timings_s.get(stage) if manifest else None)
        counts = note.counts if note else {}
        items = list(_work_items(stage, counts, plan, manifest, judged)) if seconds is not None else []
        cost = sum(note.spent.values(), Spent()) if note and note.spent else None
        yield StageWork(
            stage=stage,
            seconds=seconds,
            items=items,
            money=cost.money if cost else None,
            shards=shards if stage is Stage.PARSE else None,
        )


def _work_items(
    stage: Stage,
    counts: Mapping[str, int],
    plan: Plan | None,
    manifest: Manifest | None,
    judged: ModeReport | None,
) -> Iterator[WorkItem]:
    totals = manifest.counts if manifest else Counts()
    match stage:
        case Stage.PARSE:
            planned = plan.summary if plan else None
            parsed = planned.new + planned.changed + planned.kept - planned.to_parse if planned else None
            yield WorkItem(what="documents parsed", done=counts.get("parsed", 0), reused=parsed)
            yield WorkItem(what="pages parsed", done=counts.get("pages_parsed", 0))
        case Stage.ENRICH:
            spaces = len(manifest.spaces) if manifest else 0
            totals_by_count = {"structured": totals.documents, "embedded": totals.rows * spaces} if manifest else {}
            for name, count in counts.items():
                reused = max(0, totals_by_count[name] - count) if name in totals_by_count else None
                if count or reused:
                    yield WorkItem(what=_ENRICHED.get(name, name.replace("_", " ")), done=count, reused=reused)
        case Stage.ASSEMBLE:
            yield WorkItem(what="rows written", done=counts.get("rows", totals.rows))
        case Stage.CHECK if manifest is not None:
            yield WorkItem(what="rows checked", done=totals.rows)
        case Stage.BUILD:
            rows_written = counts.get("rows_written", 0)
            yield WorkItem(
                what="rows indexed", done=rows_written, reused=max(0, counts.get("rows_built", 0) - rows_written)
            )
        case Stage.EVALUATE if judged is not None:
            yield WorkItem(what="golden questions asked", done=judged.questions)
