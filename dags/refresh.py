"""A refresh DAG for each corpus file, with the stages of ``inset refresh``.

Airflow parses this file twice a minute and before each task, so tasks import what is expensive.
"""

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    Param,
    SkipMixin,
    TriggerRule,
    chain,
    get_current_context,
    task,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException
from airflow.sdk.timezone import utcnow

from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from plugins.airflow_run import (
    PARAMS,
    RETRIES,
    approval,
    is_decided_elsewhere,
    note_start,
    parse_groups,
    plan_summary,
    planned,
    refresh_run,
    run_options,
)
from plugins.approve import Approve
from plugins.notify import announce, refresh_callbacks
from plugins.remedies import in_ui
from schemas.errors import WaitingError
from schemas.printing import line
from schemas.stages import ON_A_VERSION, Stage

_EVERY_DAG: dict[str, Any] = {
    "start_date": datetime(2025, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    "auto_register": False,
}

_ENRICH_POOL = os.environ.get("INSET_ENRICH_POOL") or "default_pool"
"""Pool of the tasks that start Ray. The default always exists; in a pool that doesn't, tasks wait without end."""

_ABOUT = """\
Brings the corpus **{name}** up to date: documents that are new, changed or gone in `{source}` make a new version, and if it
passes every gate, it goes live. Readers see the old version or the new one, never a mixture.

| what you see | what it means |
|---|---|
| all green | a new version is live |
| `plan` green, the rest skipped | nothing to do: the source hasn't changed |
| `parse` to `evaluate` skipped, `publish` green | these inputs were built before; that version is live again |
| `enrich` is up for reschedule | a model's server works on a batch of descriptions; it is asked every two minutes |
| `approve` is deferred | a gate refused the version, or work on it is incomplete: *Required Actions* shows why, and asks |
| `approve` or `publish` red | the version was refused; the log gives the reasons. The old version stays live |
| `publish` skipped, the rest green | held back since a rollback: publish it on the page *Inset*; or another went live meanwhile |
| `release` alone red | somebody stopped the run |
| another task red | its log says in one line what to correct. Clear it, or trigger a new run: finished work isn't repeated |

Documents that can't be read, or whose rows fail `check`, go to quarantine; a run fails only above a share of them. Transient
errors are retried for hours, others at once fail. Corpus file: `{file}`.
"""

_BROKEN = """\
**The corpus file `{file}` is broken, so this corpus isn't refreshed.** The live version stays live.

```
{problem}
```

Correct the file; within a minute this turns into the corpus's refresh.
"""


@task
def plan(corpus: str) -> list[list[int]]:
    """Compare the source with the live version; skip stages that are not needed."""
    from pipeline.run_log import log_plan

    context: Any = get_current_context()
    with refresh_run(corpus) as run:
        refresh_plan = run.plan(run_options())
        note_start(run)
    log_plan(refresh_plan)
    for name in ("version", "outcome"):
        context["ti"].xcom_push(key=name, value=getattr(refresh_plan, name))
    context["ti"].xcom_push(key="summary", value=plan_summary(refresh_plan))
    if refresh_plan.outcome != "build":
        needless = {"parse", "enrich"} | ({"publish"} if refresh_plan.outcome == "unchanged" else set())
        skip: Any = SkipMixin().skip  # type: ignore[no-untyped-call]
        # It raises, so that nothing behind it is run.
        skip(context["ti"], [skipped_task for skipped_task in context["dag"].tasks if skipped_task.task_id in needless])
    return parse_groups(refresh_plan)


@task(map_index_template="{{ documents }}")
def parse(corpus: str, shards: list[int]) -> None:
    """Parse the documents of a shard, each in its own process."""
    from pipeline.run_log import log_note

    with refresh_run(corpus, planned("version")) as run:
        note = run.parse(planned("version"), shards)
    log_note(Stage.PARSE, note)
    counts = note.counts
    summary = f"{counts.get('parsed', 0)} documents, {counts.get('pages_parsed', 0)} pages"
    context: Any = get_current_context()
    context["documents"] = f"{summary}, {len(note.failures)} failures" if note.failures else summary


@task
def stage(corpus: str, name: str) -> None:
    """Run a stage on the whole version; while a server works on batches, its slot is free."""
    from pipeline.run import BATCHES_SEEN_EVERY_S
    from pipeline.run_log import log_note

    with refresh_run(corpus, planned("version")) as run:
        if run.changes_nothing(planned("version")):
            raise AirflowSkipException("every document tried again failed again, so no version is needed")
        try:
            note = run.work(Stage(name), planned("version"))
        except WaitingError as waiting:
            logging.getLogger("inset").info("%s", waiting.message)
            later: Any = AirflowRescheduleException
            raise later(utcnow() + timedelta(seconds=BATCHES_SEEN_EVERY_S)) from waiting
    log_note(Stage(name), note)


@task
def review(corpus: str) -> None:
    """Write the version's manifest; skip the approval of a version that needs none."""
    from pipeline.approval import approval_of

    context = get_current_context()
    with refresh_run(corpus, planned("version")) as run:
        if run.changes_nothing(planned("version")):
            raise AirflowSkipException("every document tried again failed again, so no version is needed")
        question = approval_of(run.workspace, run.finish(planned("version")))
        if question is None or context["params"].get("override"):
            skip: Any = SkipMixin().skip  # type: ignore[no-untyped-call]
            skip(context["ti"], [context["dag"].get_task("approve")])
            return
        for name, text in question._asdict().items():
            context["ti"].xcom_push(key=name, value=in_ui(text))
        run.release()  # nothing else waits for a person


@task
def publish(corpus: str) -> None:
    """Publish the version if it passes every gate, or if a person approved it."""
    from pipeline.records.manifests import read_manifest
    from pipeline.records.publication import check_publishable, decision, decision_in_words

    version = planned("version")
    with refresh_run(corpus, version) as run:
        elsewhere = decision(run.workspace.store, version) if is_decided_elsewhere() else None
        if elsewhere is not None:
            decision_text = decision_in_words(elsewhere, version)
            if elsewhere.version != version:
                run.record_superseded(elsewhere.version)
                raise AirflowSkipException(decision_text)
            logging.getLogger("inset").info("%s", decision_text)
        if run.publish(version, approval()):
            return
        manifest = read_manifest(run.workspace.store, version)
        if manifest is not None:
            check_publishable(run.workspace.store, run.workspace.corpus.name, version)
    message = f"{version} is ready, and held back since a rollback"
    raise AirflowSkipException(message if manifest is not None else "every document tried again failed again")


@task
def release(corpus: str) -> None:
    """Release the run's lease, whether the run succeeded or not; fail where another task did, since the run ends as this one."""
    from pipeline.records.notes import note_refresh, read_last_refresh

    context: Any = get_current_context()
    with refresh_run(corpus) as run:
        run.release()
    run_id, dag_id = context["run_id"], context["dag"].dag_id
    states = context["ti"].get_task_states(dag_id=dag_id, run_ids=[run_id])[run_id]
    failed = sorted(name for name, state in states.items() if state == "failed")
    store = run.workspace.store
    last = read_last_refresh(store)
    # Airflow skips the tasks of a stopped run, those that were to be tried again too.
    was_stopped = last is not None and last.run_id == run.run_id and last.state in ("started", "retrying", "waiting")
    failed_at = f" at {', '.join(failed)}" if failed else ""
    if was_stopped:  # a task that fails by itself says why
        why = f"somebody stopped the run{failed_at}, or its process died"
        note_refresh(store, run.run_id, "failed", why)
        raise AirflowFailException(why)
    if failed:
        raise AirflowFailException(f"the run failed{failed_at}")


def _stage(stage_id: Stage, file: str, doc_md: str) -> Any:
    # Enrich runs even where parse is skipped for lack of documents.
    overrides = {"trigger_rule": TriggerRule.NONE_FAILED, "pool": _ENRICH_POOL} if stage_id is Stage.ENRICH else {}
    return stage.override(task_id=stage_id.value, doc_md=doc_md, **overrides)(file, stage_id.value)


def _approval(file: str, corpus_schedule: CorpusSchedule) -> Iterator[Any]:
    """Yield the tasks that ask a person."""
    if corpus_schedule.operations.approval_h is None:
        return
    yield review(file)
    yield Approve(
        task_id="approve",
        corpus_schedule=corpus_schedule,
        hours=corpus_schedule.operations.approval_h,
        subject="{{ ti.xcom_pull(task_ids='review', key='subject') }}",
        body="{{ ti.xcom_pull(task_ids='review', key='body') }}",
        params={"reason": Param("", type="string", title="Reason", description="Stored with the version.")},
        doc_md="Waits for a person if a gate refuses the version, or work on it is incomplete. It ends by itself once "
        "the version is published elsewhere, or another one is live.",
    )


def _confirm(corpus_schedule: CorpusSchedule, asset: Asset) -> Any:
    """Return the task that checks that the planned version is live, whatever state ``publish`` was set to by hand."""

    @task(outlets=[asset], doc_md="Checks that the version is live.")
    def confirm() -> None:
        """Fail where another version is live; else update the asset."""
        from pipeline.records.manifests import read_manifest
        from pipeline.records.publication import read_pointer

        context: Any = get_current_context()
        version = planned("version")
        with refresh_run(str(corpus_schedule.file)) as run:
            pointer = read_pointer(run.workspace.store)
            manifest = read_manifest(run.workspace.store, version)
        if pointer is None or pointer.version != version or manifest is None:
            live = pointer.version if pointer is not None else "nothing"
            raise AirflowFailException(f"{version} isn't live, {live} is: publish it on the page Inset, or refresh again")
        announce(corpus_schedule, run.workspace.store, pointer, context)
        context["outlet_events"][asset].extra = {"version": version, "counts": manifest.counts.totals()}

    return confirm()


def _timetable(corpus_schedule: CorpusSchedule) -> Any:
    """Return the schedule: cron, another DAG's asset, or whichever of these comes first."""
    cron, after = corpus_schedule.schedule, corpus_schedule.operations.after_asset
    if after is None:
        return cron
    if cron is None:
        return Asset(after)
    return AssetOrTimeSchedule(timetable=CronTriggerTimetable(cron, timezone="UTC"), assets=Asset(after))


def refresh_dag(corpus_schedule: CorpusSchedule) -> DAG:
    """Return the refresh DAG of a corpus."""
    file = str(corpus_schedule.file)
    published = Asset(f"inset://{corpus_schedule.name}", group="inset")
    with DAG(
        f"refresh_{corpus_schedule.name}",
        description=f"Bring the corpus {corpus_schedule.name} up to date",
        doc_md=_ABOUT.format(name=corpus_schedule.name, source=corpus_schedule.source, file=line(file)),
        schedule=_timetable(corpus_schedule),
        tags=["inset", "refresh"],
        params=PARAMS,
        default_args={"owner": "inset", **refresh_callbacks(corpus_schedule), **RETRIES},
        **_EVERY_DAG,
    ) as dag:
        shards = plan(file)
        chain(
            shards,
            parse.override(trigger_rule=TriggerRule.NONE_FAILED).partial(corpus=file).expand(shards=shards),
            *[_stage(stage_id, file, doc_md) for stage_id, doc_md in ON_A_VERSION.items()],
            *_approval(file, corpus_schedule),
            publish.override(trigger_rule=TriggerRule.NONE_FAILED)(file),
            _confirm(corpus_schedule, published),
            # Of a run that was stopped Airflow skips the other tasks, and would call it a success: this task decides.
            release.override(on_failure_callback=None, on_retry_callback=None)(file).as_teardown(
                on_failure_fail_dagrun=True
            ),
        )
    return dag


def broken_dag(corpus_schedule: CorpusSchedule, problem: str, schedule: str | None = None) -> DAG:
    """Return the DAG of a broken corpus file: it shows the problem, and fails on schedule."""

    @task
    def corpus_file() -> None:
        """Say what is wrong with the corpus file."""
        raise AirflowFailException(problem)  # an argument would be rendered as a template

    with DAG(
        f"refresh_{corpus_schedule.name}",
        dag_display_name=f"refresh_{corpus_schedule.name}: the corpus file is broken",
        description=problem.splitlines()[0],
        doc_md=_BROKEN.format(file=line(str(corpus_schedule.file)), problem=problem),
        schedule=schedule,
        tags=["inset", "broken"],
        default_args={"owner": "inset", **({} if corpus_schedule.problem else refresh_callbacks(corpus_schedule))},
        **_EVERY_DAG,
    ) as dag:
        corpus_file()
    return dag


def corpus_dag(corpus_schedule: CorpusSchedule) -> DAG:
    """Return the DAG of a corpus file; of one that Airflow can't schedule, a DAG that says so, to people too if it runs."""
    try:
        dag = (
            broken_dag(corpus_schedule, corpus_schedule.problem, corpus_schedule.schedule)
            if corpus_schedule.problem
            else refresh_dag(corpus_schedule)
        )
        dag.validate()  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  Airflow raises many kinds, and none may hide the other corpora
        problem = line(f"{corpus_schedule.file}: Airflow can't schedule it: {type(error).__name__}: {error}")
        return broken_dag(
            corpus_schedule, corpus_schedule.problem or problem, "@daily" if corpus_schedule.schedule else None
        )
    return dag


# Airflow finds DAGs among a module's globals. The blank keeps them apart from Python names.
globals().update({f"DAG {dag.dag_id}": dag for dag in map(corpus_dag, corpus_schedules())})
