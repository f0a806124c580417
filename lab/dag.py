"""The DAG that runs experiments: the entry point ``inset.dags``, which ``dags/installed.py`` loads."""

import logging
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, AssetAny, AssetOrTimeSchedule, CronTriggerTimetable, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pipeline.corpus.schedules import corpus_schedules
from pipeline.records.differences import REPORT, Compared, stored_name
from plugins.airflow_run import RETRIES, corpus_file, logged_errors
from schemas.printing import line

if TYPE_CHECKING:
    from lab.results import Results

_HOUR = int(os.environ.get("INSET_EVALUATE_HOUR") or 3)
"""Hour of the day in UTC at which experiments run on live versions again."""

_ASSETS = {
    schedule.name: Asset(f"inset://{schedule.name}", group="inset")
    for schedule in corpus_schedules()
    if not schedule.problem
}
_CORPORA = [*_ASSETS] or [""]

_logger = logging.getLogger(__name__)


def _evaluations() -> Any:
    """Return when evaluations start: when a live version moves, and at night."""
    if not _ASSETS:
        return None
    # Of a new DAG, Airflow would run an hour of the last tenth of a day at once.
    timetable = CronTriggerTimetable(f"0 {_HOUR} * * *", timezone="UTC", run_immediately=timedelta(minutes=10))
    return AssetOrTimeSchedule(timetable=timetable, assets=AssetAny(*_ASSETS.values()))


def has_moved(started: Sequence[Any], asset_events: Iterable[Any]) -> bool:
    """Return whether the live version is another one than before the events of its asset that started the run.

    Args:
        started: These events.
        asset_events: All events of the asset.
    """
    first = min(event.timestamp for event in started)
    before = max(
        (event for event in asset_events if event.timestamp < first), key=lambda event: event.timestamp, default=None
    )
    version = max(started, key=lambda event: event.timestamp).extra.get("version")
    return version is None or before is None or (before.extra or {}).get("version") != version


@task(inlets=list(_ASSETS.values()))
def corpora() -> list[str]:
    """Return the corpora whose live version moved, all at night, or the corpus that a person chose."""
    context: Any = get_current_context()
    run = context["dag_run"]
    if run.run_type == "scheduled":
        return [*_ASSETS]
    if run.run_type != "asset_triggered":
        return [context["params"]["corpus"]]
    updated = {asset.name: events for asset, events in context["triggering_asset_events"].items()}
    return [
        name
        for name, asset in _ASSETS.items()
        if asset.name in updated and has_moved(updated[asset.name], context["inlet_events"][asset])
    ]


@task(map_index_template="{{ task.op_kwargs['corpus'] }}", max_active_tis_per_dag=1)
def evaluate(corpus: str) -> None:
    """Run an experiment on a version, and fail if it surely became worse than in earlier reports."""
    from lab.experiment_files import find_experiment
    from lab.run import evaluate_version
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.publication import read_pointer
    from pipeline.run_log import log_progress

    context: Any = get_current_context()
    params, nightly = context["params"], context["dag_run"].run_type == "scheduled"
    with logged_errors():
        workspace = open_workspace(corpus_file(corpus))
        named_experiment, _ = find_experiment(params["experiment"] or workspace.corpus.experiment, corpus)
        if named_experiment.questions_on(workspace.corpus) is None:
            raise AirflowSkipException(f"corpus {corpus} names no golden questions")
        if nightly and read_pointer(workspace.store) is None:
            raise AirflowSkipException(f"corpus {corpus} has no live version yet")
        results, comparison = evaluate_version(
            workspace, named_experiment, params["version"], log_progress(), is_rerun=nightly
        )
        _log(results, comparison)
    if comparison and comparison.worse:
        raise AirflowFailException(f"{corpus} became worse: {'; '.join(comparison.worse)}")


def _log(results: "Results", comparison: Compared | None) -> None:
    """Log the report's name in the store, systems that didn't run, and what changed since earlier reports."""
    _logger.info("report: %s", stored_name(results.version, results.name, REPORT))
    for system_result in results.systems:
        if system_result.note:
            _logger.warning("%s didn't run: %s", system_result.system.id, line(system_result.note))
    if comparison is None:
        return
    for change in comparison.worse:
        _logger.warning("worse %s", change)
    for change in comparison.better:
        _logger.info("better %s", change)
    if not comparison.worse and not comparison.better:
        _logger.info("no metric surely changed since the report before")


with DAG(
    "inset_evaluate",
    description="Run an experiment on a version; by itself when a version goes live, and at night",
    params={
        "corpus": Param(_CORPORA[0], type="string", enum=_CORPORA, title="Corpus"),
        "version": Param("live", type="string", title="Version", description="A version; or live, previous, latest."),
        "experiment": Param(
            None,
            type=["null", "string"],
            title="Experiment",
            description="A packaged experiment, or an experiment file; by default that of the corpus file.",
        ),
    },
    schedule=_evaluations(),
    max_active_runs=1,
    start_date=None,  # with one, a new DAG runs at once for the hour that passed last
    catchup=False,
    is_paused_upon_creation=False,
    tags=["inset", "operate"],
    default_args={"owner": "inset", **RETRIES},
) as inset_evaluate:
    evaluate.expand(corpus=corpora())
