"""Map a refresh to Airflow: its run, its parameters, results of the task ``plan``, and which errors are retried."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.sdk import Connection, ExceptionRetryPolicy, Param, RetryRule, get_current_context
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowNotFoundException

from plugins.remedies import in_ui, name_places
from schemas.base import addresses_of
from schemas.errors import InsetError, TransientError, UserError

if TYPE_CHECKING:
    from pipeline.corpus.schedules import CorpusSchedule
    from pipeline.corpus.workspace import Workspace
    from pipeline.run import Approved, RefreshRun
    from schemas.versions import Plan, RunOptions

MOST_GROUPS = 500
"""Most mapped parse tasks: the scheduler is slow with thousands, and Airflow refuses 1,025."""

MOST_SOURCES = 20
"""Most new, changed and gone sources of a plan that its run names."""

RETRIES: dict[str, Any] = {
    # 30 s, doubled up to half an hour: three and a half hours in all.
    "retries": 12,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=30),
    "retry_policy": ExceptionRetryPolicy(
        rules=[
            RetryRule(exception=TransientError, action=RetryAction.DEFAULT),
            RetryRule(exception=InsetError, action=RetryAction.FAIL, reason="a further try would fail in the same way"),
            RetryRule(exception=HITLRejectException, action=RetryAction.FAIL, reason="a person rejected the version"),
        ]
    ),
}
"""Retries of tasks: transient errors for hours, other known errors never."""

PARAMS = {
    "replay": Param(False, type="boolean", title="Replay quarantine", description="Try the documents in quarantine again."),
    "force": Param(False, type="boolean", title="Force", description="Build a version even if nothing changed."),
    "money": Param(
        None,
        type=["null", "number"],
        minimum=0,
        title="Budget",
        description="The run's limit on money for generative models, in place of the corpus file's.",
    ),
    "reason": Param(None, type=["null", "string"], title="Reason", description="Kept in the corpus's audit log."),
    "documents": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Documents",
        description="With Replay quarantine: sources of the documents to try again; none: all.",
    ),
    "accept": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Accept",
        description="Sources to take as they are, though an earlier document is kept.",
    ),
    "override": Param(
        None,
        type=["null", "string"],
        title="Override reason",
        description="Publish the version even if gates refuse it or the corpus is held; stored with the version.",
    ),
}
"""The parameters of a refresh; those that ``RunOptions`` has are its own."""

_logger = logging.getLogger("inset")


@contextmanager
def logged_errors() -> Iterator[None]:
    """Log a known error as one line, before Airflow logs where it was raised; its remedies are places in the UI."""
    logging.getLogger("pipeline.run_log").addFilter(name_places)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line a request hides the others
    try:
        yield
    except InsetError as error:
        error.message = in_ui(error.message)
        error.args = tuple(in_ui(text) if isinstance(text, str) else text for text in error.args)
        _logger.log(logging.WARNING if isinstance(error, TransientError) else logging.ERROR, "%s", error.message)
        raise


@contextmanager
def refresh_run(corpus: str, version: str | None = None) -> "Iterator[RefreshRun]":
    """Open the current run of a corpus file, with the options of a version's plan if one is named."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.notes import note_refresh, read_last_refresh
    from pipeline.run import RefreshRun, planned_workspace
    from pipeline.run_log import log_progress

    with logged_errors():
        workspace = open_workspace(corpus)
        use_connections(workspace.corpus.source)
        if version is not None:
            workspace = planned_workspace(workspace, version)
        run = RefreshRun(workspace, run_name(), log_progress(), by=person())
        yield run
        # A task that succeeds in a later try takes back the note of the try that failed; an error never gets here.
        last, task = read_last_refresh(run.workspace.store), get_current_context()["ti"].task_id
        if last is not None and (last.run_id, last.task) == (run.run_id, task) and last.state in ("retrying", "waiting"):
            note_refresh(run.workspace.store, run.run_id, "started")


def use_connections(source: str) -> None:
    """Give this task the credentials of its source from Airflow's connections, ``inset_<scheme>``, such as ``inset_sftp``.

    Login and password are the arguments ``username`` and ``password`` of the file system, each key of the extras that of its
    name. What the environment says counts before them.
    """
    for address in (addresses_of(source) or {"": source}).values():
        scheme, separator, _ = address.partition("://")
        if separator and scheme not in ("file", "s3"):
            with suppress(AirflowNotFoundException):
                connection = Connection.get(f"inset_{scheme}")
                arguments = {"username": connection.login, "password": connection.password} | connection.extra_dejson
                for name, value in arguments.items():
                    if value is not None:
                        os.environ.setdefault(f"FSSPEC_{scheme}_{name}".upper(), str(value))


def corpus_file(name: str) -> str:
    """Return the corpus file of a corpus by its name, as the DAGs know it.

    Raises:
        UserError: There is no such corpus, or its file is broken.
    """
    corpus_schedule = _schedule_of(name)
    if corpus_schedule.problem:
        raise UserError(corpus_schedule.problem)
    return str(corpus_schedule.file)


def stored_workspace(name: str) -> "Workspace":
    """Open a corpus to move its live version, even if its file is broken: engine and shape are stored with versions.

    Raises:
        UserError: There is no such corpus, or its store is unknown.
    """
    from pipeline.corpus.workspace import open_corpus, open_workspace
    from schemas.corpus import Corpus

    corpus_schedule = _schedule_of(name)
    if not (corpus_schedule.problem and corpus_schedule.store):
        return open_workspace(corpus_file(name))
    store = corpus_schedule.store.rpartition("/")[0]
    return open_corpus(Corpus(name=name, source=str(corpus_schedule.file), store=store), corpus_schedule.file)


def _schedule_of(name: str) -> "CorpusSchedule":
    from pipeline.corpus.schedules import corpus_schedules

    for corpus_schedule in corpus_schedules():
        if corpus_schedule.name == name:
            return corpus_schedule
    raise UserError(f"there is no corpus {name!r}; the folder of corpus files has no such name")


def run_name() -> str:
    """Return the name of the current run outside Airflow."""
    return f"airflow:{get_current_context()['run_id']}"


def run_options() -> "RunOptions":
    """Return the parameters that the current run was started with."""
    from schemas.versions import RunOptions

    params = get_current_context()["params"]
    return RunOptions(**{name: params[name] for name in RunOptions.model_fields if name in params})


def person() -> str:
    """Return who started the current run; ``airflow`` if its schedule did."""
    run: Any = get_current_context()["dag_run"]
    return run.triggering_user_name or "airflow"


def note_start(run: "RefreshRun") -> None:
    """Add to the audit log who started the current run and why, if a person did."""
    from pipeline.records.publication import note_event

    context = get_current_context()
    started: Any = context["dag_run"]
    if started.triggering_user_name is None:
        return
    params = context["params"]
    note_event(
        run.workspace.store,
        "replay" if params.get("replay") else "start",
        by=person(),
        reason=params.get("reason"),
        at=started.start_date,  # the same in each try
        run_id=run.run_id,
    )


def parse_groups(plan: "Plan") -> list[list[int]]:
    """Return the numbers of the shards that each parse task gets."""
    shards = range(len(plan.shards))
    return [list(shards[first::MOST_GROUPS]) for first in range(min(MOST_GROUPS, len(shards)))]


def plan_summary(plan: "Plan") -> dict[str, Any]:
    """Return what a plan would do and cost, for the page of its run, with some of the sources behind its numbers."""
    sources = {kind: names[:MOST_SOURCES] for kind, names in plan.summary.sources.items()}
    return plan.summary.model_copy(update={"sources": sources}).model_dump(mode="json")


def planned(name: str) -> Any:
    """Return a result of the task ``plan`` of the current run: version or outcome."""
    return get_current_context()["ti"].xcom_pull(task_ids="plan", key=name)


def approval() -> "Approved | None":
    """Return a person's approval: the answer to the task ``approve``, or the run's override reason; None without either."""
    from pipeline.run import Approved

    answer = _approval_answer()
    if answer:
        user, reason = answer["responded_by_user"], answer["params_input"].get("reason")
        return Approved(reason or "approved in Airflow", user["name"]) if user else None
    reason = get_current_context()["params"].get("override")
    return Approved(reason, person()) if reason else None


def is_decided_elsewhere() -> bool:
    """Return whether the task ``approve`` ended without a person's answer, since the answer no longer mattered."""
    answer = _approval_answer()
    return bool(answer) and not answer["responded_by_user"]


def _approval_answer() -> Any:
    return get_current_context()["ti"].xcom_pull(task_ids="approve")
