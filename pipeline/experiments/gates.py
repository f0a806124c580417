"""Gates on metrics of the corpus's experiment."""

from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.metrics import METRICS
from evaluation.results import SystemResult
from pipeline.corpus.experiments import NamedExperiment, find_experiment
from pipeline.corpus.workspace import Workspace
from pipeline.experiments.run import run_experiment
from pipeline.records.evaluations import stored_name
from schemas.corpus.gates import MetricGate
from schemas.errors import UserError
from schemas.progress import Report
from schemas.versions import GateResult


def check_metric_gates(workspace: Workspace) -> NamedExperiment | None:
    """Return the corpus's experiment after checking that it has the systems and metrics of gates; None if gates name none.

    Raises:
        UserError: They don't, or there is no such experiment.
    """
    wanted = workspace.corpus.gates.metrics
    if not wanted:
        return None
    named, _ = find_experiment(workspace.corpus.experiment, str(workspace.file))
    systems = [system.id for system in named.experiment.systems]
    place = f"{workspace.file}: gates.metrics"
    for one in wanted:
        if one.system not in systems:
            raise UserError(f"{place}: experiment {named.name} has no system {one.system!r}; use {', '.join(systems)}")
        if one.metric not in METRICS:
            raise UserError(f"{place}: there is no metric {one.metric!r}; use {', '.join(METRICS)}")
    if named.questions_on(workspace.corpus) is None:
        raise UserError(f"{place}: there are no questions; set 'questions' in {workspace.file}, or in the experiment")
    return named


def metric_gates(workspace: Workspace, version: str, report: Report) -> list[GateResult]:
    """Run the corpus's experiment on a version, and judge the metrics that gates name; [] if they name none.

    A metric without a value refuses: its system didn't run, or no question has an outcome. The next refresh judges it again.

    Raises:
        UserError: See ``check_metric_gates``.
    """
    named = check_metric_gates(workspace)
    if named is None:
        return []
    with TemporaryDirectory() as folder:
        results = run_experiment(workspace, named, Path(folder), version=version, report=report)
    found = {one.system.id: one for one in results.systems}
    where = f"{workspace.store.root}/{stored_name(version, named.name, 'report.html')}"
    return [_judged(workspace, one, found[one.system], where) for one in workspace.corpus.gates.metrics]


def _judged(workspace: Workspace, one: MetricGate, system: SystemResult, report: str) -> GateResult:
    gate, value = one.gate, system.means.get(one.metric)
    if value is None or value.mean is None:
        why = system.note or next(iter(system.failed), "") or "no question of the experiment defines it"
        return GateResult(gate=gate.name, passed=False, value=None, bound=one.bound, message=f"it has no value: {why}")
    lacking = f", {sum(system.failed.values())} without an outcome" if system.failed else ""
    said = f"{value.mean:.3f} on {value.n} questions{lacking}; {one.bound:g} is the bound"
    return gate.judge(value.mean, workspace.corpus.gates, said, report=report)
