"""A refresh DAG for each corpus file, with the stages of ``inset refresh``.

Airflow parses this file twice a minute and before each task, so tasks import what is expensive.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, SkipMixin, TriggerRule, chain, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTimetableInvalid
from pydantic import JsonValue

from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from plugins.airflow_run import airflow_errors, planned, run_name
from plugins.enrich import Enrich
from schemas.printing import line
from schemas.stages import ON_A_VERSION, Stage

_DEFAULTS: dict[str, Any] = {
    "owner": "inset",
    # 30, 60 and 120 s: shorter than the term of the run's lease, so no other run takes it meanwhile.
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=3),
}

_EVERY_DAG: dict[str, Any] = {
    "start_date": datetime(2025, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    "default_args": _DEFAULTS,
    "auto_register": False,
}

_ABOUT = """\
Brings the corpus **{name}** up to date: documents that are new, changed or gone in `{source}` make a new version, and if it
passes every gate, it goes live. Readers see the old version or the new one, never a mixture.

| what you see | what it means |
|---|---|
| all green | a new version is live |
| `plan` green, the rest skipped | nothing to do: the source hasn't changed |
| `parse` to `evaluate` skipped, `publish` green | these inputs were built before; that version is live again |
| `publish` red | a gate refused the version; its log gives the reasons. The old version stays live |
| `publish` skipped, the rest green | the version is ready and held back since a rollback: `inset publish {name} VERSION` |
| another task red | its log says in one line what to correct. Clear it, or trigger a new run: finished work isn't repeated |

Documents that can't be read, or whose rows fail `check`, go to quarantine; a run fails only above a share of them:
`inset quarantine {name}`. Transient errors are retried three times. Corpus file: `{file}`.
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
    from pipeline import steps

    context = get_current_context()
    with airflow_errors():
        made = steps.plan(corpus, run_name())
    for name in ("version", "outcome", "parent"):
        context["ti"].xcom_push(key=name, value=getattr(made, name))
    if made.outcome != "build":
        skipped = ("parse", "enrich", "publish") if made.outcome == "unchanged" else ("parse", "enrich")
        skip: Any = SkipMixin().skip  # type: ignore[no-untyped-call]
        skip(context["ti"], [context["dag"].get_task(name) for name in skipped])
    return made.groups


@task(map_index_template="{{ documents }}")
def parse(corpus: str, shards: list[int]) -> None:
    """Parse the documents of a shard, each in its own process."""
    from pipeline import steps

    with airflow_errors():
        note = steps.parse_shards(corpus, run_name(), planned("version"), shards)
    counts = note.counts
    named = f"{counts.get('parsed', 0)} documents, {counts.get('pages_parsed', 0)} pages"
    context: Any = get_current_context()
    context["documents"] = f"{named}, {len(note.failures)} failures" if note.failures else named


@task
def stage(corpus: str, name: str) -> None:
    """Run a stage on the whole version."""
    from pipeline import steps

    with airflow_errors():
        steps.run_stage(Stage(name), corpus, run_name(), planned("version"))


@task
def publish(corpus: str, asset: Asset) -> None:
    """Publish the version if it passes every gate, and update the asset in Airflow."""
    from pipeline import steps

    with airflow_errors():
        made = steps.Planned(planned("version"), planned("outcome"), planned("parent"), [])
        published = steps.publish_version(corpus, run_name(), made)
    if not published.live:
        raise AirflowSkipException(f"{published.version} is ready, and held back since a rollback")
    counts: dict[str, JsonValue] = {**published.counts}
    get_current_context()["outlet_events"][asset].extra = {"version": published.version, "counts": counts}


@task
def release(corpus: str) -> None:
    """Release the run's lease, whether the run succeeded or not."""
    from pipeline import steps

    with airflow_errors():
        steps.release(corpus, run_name())


def _stage(which: Stage, file: str, about: str) -> Any:
    if which is Stage.ENRICH:
        # Runs even where parse is skipped for lack of documents.
        return Enrich(task_id=which.value, corpus=file, doc_md=about, trigger_rule=TriggerRule.NONE_FAILED)
    return stage.override(task_id=which.value, doc_md=about)(file, which.value)


def refresh_dag(found: CorpusSchedule) -> DAG:
    """Return the refresh DAG of a corpus."""
    file = str(found.file)
    published = Asset(f"inset://{found.name}", group="inset")
    with DAG(
        f"refresh_{found.name}",
        description=f"Bring the corpus {found.name} up to date",
        doc_md=_ABOUT.format(name=found.name, source=found.source, file=line(file)),
        schedule=found.schedule,
        tags=["inset", "refresh"],
        **_EVERY_DAG,
    ) as dag:
        shards = plan(file)
        middle = [_stage(which, file, about) for which, about in ON_A_VERSION.items()]
        last = publish.override(outlets=[published], trigger_rule=TriggerRule.NONE_FAILED)(file, published)
        chain(shards, parse.partial(corpus=file).expand(shards=shards), *middle, last, release(file).as_teardown())
    return dag


def broken_dag(found: CorpusSchedule, problem: str, schedule: str | None = None) -> DAG:
    """Return the DAG of a broken corpus file: it shows the problem, and fails on schedule."""

    @task
    def corpus_file() -> None:
        """Say what is wrong with the corpus file."""
        raise AirflowFailException(problem)  # an argument would be rendered as a template

    with DAG(
        f"refresh_{found.name}",
        dag_display_name=f"refresh_{found.name}: the corpus file is broken",
        description=problem.splitlines()[0],
        doc_md=_BROKEN.format(file=line(str(found.file)), problem=problem),
        schedule=schedule,
        tags=["inset", "broken"],
        **_EVERY_DAG,
    ) as dag:
        corpus_file()
    return dag


def corpus_dag(found: CorpusSchedule) -> DAG:
    """Return the DAG of a corpus file. Only Airflow can validate a cron expression, so a wrong one is found here."""
    try:
        dag = broken_dag(found, found.problem, found.schedule) if found.problem else refresh_dag(found)
        dag.validate()  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  Airflow raises many kinds, and none may hide the other corpora
        what = "schedule" if isinstance(error, AirflowTimetableInvalid | ValueError) else type(error).__name__
        problem = f"{line(str(found.file))}: {what}: {line(str(error))}; use a cron expression or a preset such as @daily"
        return broken_dag(found, found.problem or problem)
    return dag


# Airflow finds DAGs among a module's globals. The blank keeps them apart from Python names.
globals().update({f"DAG {dag.dag_id}": dag for dag in map(corpus_dag, corpus_schedules())})
