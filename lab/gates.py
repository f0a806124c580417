"""Gates on metrics of the corpus's experiment: the entry point ``inset.metric_gates``."""

from pathlib import Path
from tempfile import TemporaryDirectory

from lab.experiment_files import find_experiment
from lab.metrics import METRICS
from lab.results import SystemResult
from lab.run import run_experiment
from pipeline.corpus.keys import questions_digest
from pipeline.corpus.workspace import Workspace
from pipeline.records.differences import stored_name
from schemas.corpus import Corpus
from schemas.corpus.operations import MetricGate
from schemas.errors import UserError
from schemas.gates import GateResult
from schemas.stages import Report


def settings(corpus: Corpus) -> dict[str, object]:
    """Return what a judgement depends on: the corpus's experiment, and its questions."""
    named_experiment, _ = find_experiment(corpus.experiment, corpus.name)
    return {
        "experiment": [named_experiment.experiment.model_dump(mode="json"), questions_digest(named_experiment.questions)]
    }


def check(workspace: Workspace) -> None:
    """Raise ``UserError`` unless the corpus's experiment has questions, and the systems and metrics that gates name."""
    named_experiment, _ = find_experiment(workspace.corpus.experiment, str(workspace.file))
    systems = [system.id for system in named_experiment.experiment.systems]
    setting_name = f"{workspace.file}: gates.metrics"
    for gate in workspace.corpus.gates.metrics:
        if gate.system not in systems:
            raise UserError(
                f"{setting_name}: experiment {named_experiment.name} has no system {gate.system!r}; use {', '.join(systems)}"
            )
        if gate.metric not in METRICS:
            raise UserError(f"{setting_name}: there is no metric {gate.metric!r}; use {', '.join(METRICS)}")
    if named_experiment.questions_on(workspace.corpus) is None:
        raise UserError(
            f"{setting_name}: there are no questions; set 'questions' in {workspace.file}, or in the experiment"
        )


def judge(workspace: Workspace, version: str, report: Report) -> list[GateResult]:
    """Run the corpus's experiment on a version, and judge the metrics that gates name; errors as for ``check``.

    A metric without a value refuses: its system didn't run, or no question has an outcome. The next refresh judges it again.
    """
    check(workspace)
    named_experiment, _ = find_experiment(workspace.corpus.experiment, str(workspace.file))
    with TemporaryDirectory() as folder:
        results = run_experiment(workspace, named_experiment, Path(folder), version=version, report=report)
    results_by_system = {result.system.id: result for result in results.systems}
    report_address = f"{workspace.store.root}/{stored_name(version, named_experiment.name, 'report.html')}"
    return [
        _judge_gate(workspace, gate, results_by_system[gate.system], report_address)
        for gate in workspace.corpus.gates.metrics
    ]


def _judge_gate(workspace: Workspace, metric_gate: MetricGate, system: SystemResult, report: str) -> GateResult:
    gate, value = metric_gate.gate, system.means.get(metric_gate.metric)
    if value is None or value.mean is None:
        why = system.note or next(iter(system.failed), "") or "no question of the experiment defines it"
        return GateResult(
            gate=gate.name, passed=False, value=None, bound=metric_gate.bound, message=f"it has no value: {why}"
        )
    lacking = f", {sum(system.failed.values())} without an outcome" if system.failed else ""
    message = f"{value.mean:.3f} on {value.n} questions{lacking}; {metric_gate.bound:g} is the bound"
    return gate.judge(value.mean, workspace.corpus.gates, message, report=report)
