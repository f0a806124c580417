"""DAGs that operators start: plan, publish, roll back, prune, …; and one that watches every corpus.

The pages of ``plugins/pages`` start them through Airflow's REST API, so that roles and the audit log are Airflow's.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, AssetAlias, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from pipeline.corpus.schedules import corpus_schedules
from plugins.airflow_run import PARAMS, RETRIES, corpus_file, logged_errors, person, run_name, stored_workspace
from plugins.notify import announce, tell

if TYPE_CHECKING:
    from pipeline.corpus.workspace import Workspace
    from schemas.versions import Pointer

LIVE = AssetAlias("inset-live", group="inset")
"""Alias of the assets of live versions, which tasks for any corpus update."""

_SCHEDULES = corpus_schedules()
_WITH_ACCESS = [found for found in _SCHEDULES if found.has_access and not found.problem]
_CORPORA = [found.name for found in _SCHEDULES if not found.problem]
_ASSETS = {name: Asset(f"inset://{name}", group="inset") for name in _CORPORA}


def _corpus_param(names: list[str]) -> Param:
    return Param(names[0] if names else "", type="string", enum=names or [""], title="Corpus")


_TOLD = "inset_watch_told"
"""Airflow's variable that holds the state of each corpus of which the watch has notified people."""

_CORPUS = _corpus_param(_CORPORA)
_STORED = _corpus_param([found.name for found in _SCHEDULES if found.store])
"""Those whose file may be broken: their live version can be moved all the same."""

_REASON = Param("", type="string", title="Reason", description="Kept in the corpus's audit log.")

_DAG: dict[str, Any] = {
    "start_date": datetime(2025, 1, 1, tzinfo=UTC),
    "catchup": False,
    "is_paused_upon_creation": False,
    "tags": ["inset", "operate"],
    "default_args": {"owner": "inset", **RETRIES},
}


def _went_live(workspace: "Workspace", pointer: "Pointer") -> None:
    """Update the asset of a corpus, and announce its live version."""
    from pipeline.records.manifests import named_manifest

    corpus = workspace.corpus.name
    counts = named_manifest(workspace.store, corpus, pointer.version).counts
    _update_asset(corpus, pointer.version, counts.totals())
    corpus_schedule = next(schedule for schedule in _SCHEDULES if schedule.name == corpus)
    announce(corpus_schedule, workspace.store, pointer, get_current_context())


def _update_asset(corpus: str, version: str, counts: dict[str, Any]) -> None:
    event = get_current_context()["outlet_events"][LIVE]
    event.add(Asset(f"inset://{corpus}", group="inset"), extra={"version": version, "counts": counts})


_Operation = Callable[["Workspace", Any], Any]


def _operation(*, live: bool = False, retried: bool = False, **params: Param) -> Callable[[_Operation], DAG]:
    """Return a decorator: it makes a function of a workspace and parameters a DAG of one task, whose runs may have a reason.

    The functions of ``live`` ones return the live version, and move it even where the corpus file is broken.
    """

    def as_dag(operation: _Operation) -> DAG:
        @task(task_id=operation.__name__, doc_md=operation.__doc__, outlets=[LIVE] if live else [])
        def start() -> Any:
            from pipeline.corpus.workspace import open_workspace

            run_params = get_current_context()["params"]
            with logged_errors():
                workspace = (
                    stored_workspace(run_params["corpus"]) if live else open_workspace(corpus_file(run_params["corpus"]))
                )
                result = operation(workspace, run_params)
                return _went_live(workspace, result) if live else result

        with DAG(
            f"inset_{operation.__name__}",
            description=(operation.__doc__ or "").partition(".")[0],
            schedule=None,
            params={"corpus": _STORED if live else _CORPUS, **params, "reason": _REASON},
            **_DAG | {"default_args": {"owner": "inset"} | (RETRIES if retried else {})},
        ) as dag:
            start()
        return dag

    return as_dag


def _text(title: str, default: str = "", description: str | None = None, **schema: Any) -> Param:
    return Param(default, type="string", title=title, description=description, **schema)


def _flag(title: str, description: str, *, default: bool = False) -> Param:
    return Param(default, type="boolean", title=title, description=description)


@_operation(
    live=True,
    retried=True,
    version=_text("Version", "latest", "A version; or live, previous, latest."),
    override=_flag("Override", "Publish a version that gates refused; it needs a reason."),
)
def publish(workspace: "Workspace", params: Any) -> "Pointer":
    """Make a version live, and end a hold."""
    from pipeline.stages.publish import make_live

    override = params["reason"] if params["override"] else None
    return make_live(workspace, params["version"], override=override, reason=params["reason"] or None, by=person())


@_operation(live=True, retried=True, version=_text("Version", "previous", "A version; or previous."))
def roll_back(workspace: "Workspace", params: Any) -> "Pointer":
    """Make an older version live, and hold the corpus at it."""
    from pipeline.stages.publish import roll_back_version

    return roll_back_version(workspace, params["version"], reason=params["reason"] or None, by=person())


@_operation(replay=PARAMS["replay"], force=PARAMS["force"], money=PARAMS["money"])
def plan(workspace: "Workspace", params: Any) -> str:
    """Say what a refresh would do and cost, and do nothing. It also works while the refresh's DAG is paused."""
    from pipeline.run import RefreshRun
    from pipeline.run_log import OUTCOMES, log_plan
    from schemas.versions import RunOptions

    run = RefreshRun(workspace, run_name())
    try:
        refresh_plan = run.plan(RunOptions(dry_run=True, **{name: params[name] for name in ("replay", "force", "money")}))
    finally:
        run.release()
    log_plan(refresh_plan)
    outcome = "" if refresh_plan.outcome == "build" else f"{refresh_plan.version}: {OUTCOMES[refresh_plan.outcome]}. "
    return outcome + refresh_plan.summary.in_words()


@_operation(retried=True, dry_run=_flag("Dry run", "Count only, remove nothing."))
def prune(workspace: "Workspace", params: Any) -> str:
    """Remove what no kept version needs. A dry run only counts it."""
    from pipeline.run_log import log_pruned
    from pipeline.upkeep.prune import prune as run

    return log_pruned(run(workspace, dry_run=params["dry_run"]))


@_operation(
    source=_text("Document"),
    confirm=_text("Confirm"),
    dry_run=_flag("Dry run", "List only, delete nothing.", default=True),
)
def forget(workspace: "Workspace", params: Any) -> str:
    """Delete a document from every version, for good. A dry run only lists it."""
    from pipeline.upkeep.forget import forget as run
    from schemas.errors import UserError

    source, dry_run = params["source"], params["dry_run"]
    if not source or (params["confirm"] != source and not dry_run):
        raise UserError(f"nothing was deleted: to confirm it, type the document's source, {source}")
    result = run(workspace, source, dry_run=dry_run, reason=params["reason"] or None, by=person())
    sources, versions = ", ".join(result.sources), ", ".join(result.versions) or "no version"
    return f"{'would be deleted' if dry_run else 'deleted'}: {len(result.documents)} documents ({sources}) from {versions}"


@_operation(
    entry=_text("Feedback"),
    decision=_text("Decision", "question", enum=["question", "close", "undo"]),
    source=_text("Document that answers"),
    page=Param(0, type="integer", minimum=0, title="Page that answers"),
    figure_id=_text("Figure"),
)
def feedback(workspace: "Workspace", params: Any) -> str:
    """Make a golden question of what a reader said of an answer, or close it. Either can be taken back."""
    from pipeline.operations.feedback import decide, undo

    entry, decision = params["entry"], params["decision"]
    if decision == "undo":
        undo(workspace.store, entry, by=person())
        return f"{entry} waits for a decision again"
    region = decide(
        workspace.store,
        workspace.corpus.name,
        entry,
        decision,
        by=person(),
        reason=params["reason"],
        **{name: params[name] or None for name in ("source", "page", "figure_id")},
    ).region
    return f"{entry}: {f'{region.source} page {region.page} must answer it' if region else 'closed'}"


@_operation(
    source=_text("Document"),
    page=Param(1, type="integer", minimum=1, title="Page"),
    part=_text("Figure or block"),
    kind=_text("What is wrong", "caption", enum=["caption", "description", "role", "kind", "title", "cell"]),
    value=_text("What is right"),
    row=Param(-1, type="integer", minimum=-1, title="Row of a cell"),
    column=Param(-1, type="integer", minimum=-1, title="Column of a cell"),
    undo=_text("Correction to undo"),
)
def correct(workspace: "Workspace", params: Any) -> str:
    """Correct what was read from a document by hand, or take a correction back."""
    from pipeline.operations.corrections import correct_part, undo_correction
    from schemas.corrections import CorrectionKind

    if params["undo"]:
        undo_correction(workspace.store, params["undo"], by=person())
        return f"{params['undo']} is undone; the next refresh applies that"
    correction = correct_part(
        workspace.store,
        workspace.corpus.name,
        params["source"],
        params["page"],
        params["part"],
        CorrectionKind(params["kind"]),
        params["value"],
        by=person(),
        **{name: params[name] for name in ("reason", "row", "column")},
    )
    return f"{correction.id}: {correction.kind} corrected; the next refresh applies it"


@task
def watch() -> None:
    """Log the state of every corpus, send it as metrics, and fail if a person is needed."""
    from airflow.sdk import Variable
    from airflow.sdk.observability import stats

    from pipeline.operations.health import corpora_health, engine_answers, measures
    from pipeline.records.states import State
    from pipeline.run_log import log_health

    context: Any = get_current_context()
    schedules = corpus_schedules()
    healths = corpora_health(schedules)
    for health in healths:
        for name, value, tags in measures(health):
            stats.gauge(name, value, tags=tags)
        if (up := engine_answers(health)) is not None:
            stats.gauge("inset.engine_up", float(up), tags={"corpus": health.corpus})
    # Each state is notified once. A variable, since XComs go with their runs, and are no order of runs.
    states_before = Variable.get(_TOLD, default={}, deserialize_json=True)
    all_notifiers = {name: arguments for corpus in schedules for name, arguments in corpus.operations.notify.items()}
    states_told = {}
    for corpus, health in zip(schedules, healths, strict=True):
        if not health.state.needs_person:
            continue
        state, message = f"{health.state} {health.newest}", f"{corpus.name}: {health.state}: {'; '.join(health.problems)}"
        # Runs notify of what they wait for themselves.
        is_told = state == states_before.get(corpus.name) or health.state in (State.WAITING, State.RETRYING)
        # The notifiers of a broken file may be unknown, or be what is broken.
        for notifiers in (corpus.operations.notify, all_notifiers if corpus.problem else {}):
            is_told = is_told or tell(notifiers, context, corpus.name, "found", message)
        if is_told or not all_notifiers:
            states_told[corpus.name] = state
    # Written after people were notified, so that the next run repeats what a crash or a dead notifier lost.
    Variable.set(_TOLD, states_told, serialize_json=True)
    if problems := log_health(healths):
        raise AirflowFailException("; ".join(problems))


@task
def apply_access() -> dict[str, int]:
    """Apply the rights of every corpus that has them, and return of how many documents they changed.

    Fails if those of one can't be read; they stay as they are.
    """
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.access import update_rights
    from schemas.errors import InsetError

    changed, problems = dict[str, int](), []
    for corpus in _WITH_ACCESS:
        try:
            changed[corpus.name] = update_rights(open_workspace(str(corpus.file)), by="inset_access")[1]
        except InsetError as error:
            problems.append(f"{corpus.name}: {error.message}")
    if problems:
        raise AirflowFailException("; ".join(problems))
    return changed


@task(outlets=[LIVE], inlets=list(_ASSETS.values()))
def update_assets() -> None:
    """Update the assets of corpora whose live version was moved outside Airflow."""
    from pipeline.operations.health import corpora_health

    inlet_events: Any = get_current_context()["inlet_events"]
    for health in corpora_health(corpus_schedules()):
        if health.live is None or health.counts is None:
            continue
        events = inlet_events[Asset(f"inset://{health.corpus}", group="inset")]
        announced_version = events[-1].extra.get("version") if len(events) else None
        if announced_version != health.live:
            _update_asset(health.corpus, health.live, health.counts.totals())


with DAG(
    "inset_watch",
    description="Watch every corpus: broken files, stale or refused versions, damage",
    schedule="*/15 * * * *",
    max_active_runs=1,
    **{**_DAG, "tags": ["inset", "watch"], "default_args": {"owner": "inset"}},
) as inset_watch:
    watch()
    update_assets()

if _WITH_ACCESS:
    with DAG(
        "inset_access",
        description="Apply the rights of documents, so that one withdrawn is out of every answer within a minute",
        schedule="* * * * *",
        max_active_runs=1,
        **{**_DAG, "tags": ["inset", "watch"], "default_args": {"owner": "inset"}},
    ) as inset_access:
        apply_access()
