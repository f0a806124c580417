"""A run of a refresh as an operator sees it: its plan, what each stage did, and how its version was judged."""

from collections.abc import Iterator, Mapping
from functools import partial

from backends.stores.objects import unless_damaged
from pipeline.corpus.schedules import CorpusSchedule
from pipeline.operations.history import VersionEntry, history
from pipeline.records.differences import REPORT, Compared, read_compared, stored_name
from pipeline.records.manifests import readable_manifest
from pipeline.records.notes import StageNote, read_notes, read_plan_summary
from schemas.base import Frozen
from schemas.errors import NotFoundError, UserError
from schemas.gates import GateResult
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.stages import ON_A_VERSION, Stage
from schemas.versions import Manifest, Plan, PlanSummary, RunOptions, Spent


class StageWork(Frozen):
    """A stage: how long it took, None if it isn't done, and what generative models cost, None if none was asked."""

    stage: Stage
    seconds: float | None = None
    money: float | None = None


class RunReport(Frozen):
    """A run that built a version, or is about to.

    Attributes:
        parent: The version that was live when it was planned.
        plan: What was planned; None where the plan is gone.
        gates: All verdicts: those that refuse, then those with a bound, then invariants.
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
    gates: list[GateResult]
    docs: str | None
    note: str
    experiments: dict[str, Compared | None] = {}

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
        if stored_run_id is None and (source := readable_manifest(store, version) or _readable_plan(store, version)):
            stored_run_id = _runs[store.root, version] = source.run_id
        if stored_run_id == run_id:
            return version
    return None


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
    # The notes of the shards of parse may be many; a finished version has their sums in its manifest.
    notes, docs = read_notes(store, version, ON_A_VERSION), version_file(version, "quality/index.html")
    spent = {name: cost for note in notes.values() for name, cost in note.spent.items()} or (
        manifest.spent if manifest else {}
    )
    return RunReport(
        version=entry,
        parent=version_source.parent,
        run_id=version_source.run_id,
        options=plan.options if plan else RunOptions(),
        plan=plan.summary if plan else None,
        stages=[*_stages(manifest, notes)],
        spent=spent,
        gates=sorted(entry.gates, key=lambda gate: (gate.passed, not gate.bound)),
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


def _stages(manifest: Manifest | None, notes: Mapping[Stage, StageNote]) -> Iterator[StageWork]:
    for stage in (Stage.PARSE, *ON_A_VERSION):
        note = notes.get(stage)
        seconds = note.seconds if note else (manifest.timings_s.get(stage) if manifest else None)
        money = sum(note.spent.values(), Spent()).money if note and note.spent else None
        yield StageWork(stage=stage, seconds=seconds, money=money)
