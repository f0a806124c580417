"""A refresh DAG for each corpus file.

Airflow reads this file twice a minute and once more before each task, so it only lists the corpora; the tasks import what
costs something. The stages are those of ``inset refresh``.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, SkipMixin, TriggerRule, chain, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTimetableInvalid
from pydantic import JsonValue

from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from plugins.enrich import Enrich
from plugins.terms import in_airflow_terms, planned_as, run_name
from schemas.printing import line
from schemas.stages import ON_A_VERSION, Stage

_DEFAULTS: dict[str, Any] = {
    "owner": "inset",
    # Half a minute, a minute, two: within the term of the run's lease, so nobody else takes it meanwhile.
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
Brings the corpus **{name}** up to date: what is new, changed or gone in `{source}` makes a new version, and if every gate
holds, that version goes live. Readers see the old version or the new one, never a mixture.

| what you see | what it means |
|---|---|
| all green | a new version is live |
| `plan` green, the rest skipped | nothing to do: the source hasn't changed |
| `parse` to `evaluate` skipped, `publish` green | these inputs were built before; that version is live again |
| `publish` red | a gate refused the version; its log gives the reasons. The old version stays live |
| `publish` skipped, the rest green | the version is ready and held back since a rollback: `inset publish {name} VERSION` |
| another task red | its log says in one line what to correct. Clear it, or trigger a new run: finished work isn't repeated |

Documents that can't be read, or whose rows break a law of `check`, go to quarantine and don't stop a run, below a share of them:
`inset quarantine {name}`. What may succeed later is tried three times more. Corpus file: `{file}`.
"""

_BROKEN = """\
**The corpus file `{file}` is broken, so this corpus isn't refreshed.** What is live stays live.

```
{problem}
```

Correct the file; within a minute this turns into the corpus's refresh.
"""


@task
def plan(corpus: str) -> list[list[int]]:
    """Compare the source with what is live; what there is no need for is skipped."""
    from pipeline import steps

    context = get_current_context()
    with in_airflow_terms():
        planned = steps.plan(corpus, run_name())
    for name in ("version", "outcome", "parent"):
        context["ti"].xcom_push(key=name, value=getattr(planned, name))
    if planned.outcome != "build":
        skipped = ("parse", "enrich", "publish") if planned.outcome == "unchanged" else ("parse", "enrich")
        skip: Any = SkipMixin().skip  # type: ignore[no-untyped-call]
        skip(context["ti"], [context["dag"].get_task(name) for name in skipped])
    return planned.groups


@task(map_index_template="{{ documents }}")
def parse(corpus: str, shards: list[int]) -> None:
    """Read the pages of the documents of a shard, each in a process of its own."""
    from pipeline import steps

    with in_airflow_terms():
        note = steps.parse_shards(corpus, run_name(), planned_as("version"), shards)
    counts = note.counts
    named = f"{counts.get('parsed', 0)} documents, {counts.get('pages_parsed', 0)} pages"
    context: Any = get_current_context()
    context["documents"] = f"{named}, {len(note.failures)} failures" if note.failures else named


@task
def stage(corpus: str, name: str) -> None:
    """Run a stage that works on the version as a whole."""
    from pipeline import steps

    with in_airflow_terms():
        steps.run_stage(Stage(name), corpus, run_name(), planned_as("version"))


@task
def publish(corpus: str, asset: Asset) -> None:
    """Make the version live if every gate holds, and report to Airflow that the asset changed."""
    from pipeline import steps

    with in_airflow_terms():
        planned = steps.Planned(planned_as("version"), planned_as("outcome"), planned_as("parent"), [])
        published = steps.publish_version(corpus, run_name(), planned)
    if not published.live:
        raise AirflowSkipException(f"{published.version} is ready, and held back since a rollback")
    counts: dict[str, JsonValue] = {**published.counts}
    get_current_context()["outlet_events"][asset].extra = {"version": published.version, "counts": counts}


@task
def release(corpus: str) -> None:
    """Give the run's lease back, whatever became of the run."""
    from pipeline import steps

    with in_airflow_terms():
        steps.release(corpus, run_name())


def _stage(which: Stage, file: str, about: str) -> Any:
    if which is Stage.ENRICH:
        # With nothing to parse, parse is skipped and the rest goes on.
        return Enrich(task_id=which.value, corpus=file, doc_md=about, trigger_rule=TriggerRule.NONE_FAILED)
    return stage.override(task_id=which.value, doc_md=about)(file, which.value)


def refresh_dag(found: CorpusSchedule) -> DAG:
    """Return a corpus's refresh."""
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
    """Return what stands in for a refresh while its corpus file is broken: it says so, and fails on schedule."""

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
    """Return the DAG of a corpus file, whatever state the file is in. Whether a cron expression is one, only Airflow knows."""
    try:
        dag = broken_dag(found, found.problem, found.schedule) if found.problem else refresh_dag(found)
        dag.validate()  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  Airflow's own errors are of many kinds, and none may hide the other corpora
        what = "schedule" if isinstance(error, AirflowTimetableInvalid | ValueError) else type(error).__name__
        problem = f"{line(str(found.file))}: {what}: {line(str(error))}; use a cron expression or a preset such as @daily"
        return broken_dag(found, found.problem or problem)
    return dag


# Airflow finds DAGs among a module's values. No name of Python's has a blank, so that no corpus takes one.
globals().update({f"DAG {dag.dag_id}": dag for dag in map(corpus_dag, corpus_schedules())})
