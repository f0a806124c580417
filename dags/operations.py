"""DAGs that operators start: plan, publish, roll back, prune, …; and one that watches every corpus.

The pages of ``plugins/pages`` start them through Airflow's REST API, so that roles and the audit log are Airflow's.
"""

from collections.abc import Callable, Iterator
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

_VERSION_PARAM = Param("latest", type="string", title="Version", description="A version; or live, previous, latest.")
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


@task(outlets=[LIVE])
def publish() -> None:
    """Make a version live, and end a hold."""
    from pipeline.stages.publish import make_live

    params = get_current_context()["params"]
    with logged_errors():
        workspace = stored_workspace(params["corpus"])
        override = params["reason"] if params["override"] else None
        pointer = make_live(workspace, params["version"], override=override, reason=params["reason"] or None, by=person())
        _went_live(workspace, pointer)


@task(outlets=[LIVE])
def roll_back() -> None:
    """Make an older version live, and hold the corpus at it."""
    from pipeline.stages.publish import roll_back_version

    params = get_current_context()["params"]
    with logged_errors():
        workspace = stored_workspace(params["corpus"])
        pointer = roll_back_version(workspace, params["version"], reason=params["reason"] or None, by=person())
        _went_live(workspace, pointer)


@task
def plan() -> str:
    """Return what a refresh would do and cost, in words; it also works while the refresh's DAG is paused."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.run import RefreshRun
    from pipeline.run_log import OUTCOMES, log_plan
    from schemas.versions import RunOptions

    params = get_current_context()["params"]
    options = RunOptions(dry_run=True, **{name: params[name] for name in ("replay", "force", "money")})
    with logged_errors():
        run = RefreshRun(open_workspace(corpus_file(params["corpus"])), run_name())
        try:
            refresh_plan = run.plan(options)
        finally:
            run.release()
    log_plan(refresh_plan)
    outcome = "" if refresh_plan.outcome == "build" else f"{refresh_plan.version}: {OUTCOMES[refresh_plan.outcome]}. "
    return outcome + refresh_plan.summary.in_words()


@task
def prune() -> str:
    """Remove what no kept version needs; a dry run only counts it. Return what was removed, in words."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.run_log import log_pruned
    from pipeline.upkeep.prune import prune as run

    params = get_current_context()["params"]
    with logged_errors():
        return log_pruned(run(open_workspace(corpus_file(params["corpus"])), dry_run=params["dry_run"]))


@task
def forget() -> str:
    """Delete a document for good; a dry run only lists it. Return what was deleted, in words."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.upkeep.forget import forget as run
    from schemas.errors import UserError

    params = get_current_context()["params"]
    source, dry_run = params["source"], params["dry_run"]
    with logged_errors():
        if not source or (params["confirm"] != source and not dry_run):
            raise UserError(f"nothing was deleted: to confirm it, type the document's source, {source}")
        workspace = open_workspace(corpus_file(params["corpus"]))
        result = run(workspace, source, dry_run=dry_run, reason=params["reason"] or None, by=person())
    sources, versions = ", ".join(result.sources), ", ".join(result.versions) or "no version"
    return f"{'would be deleted' if dry_run else 'deleted'}: {len(result.documents)} documents ({sources}) from {versions}"


@task
def feedback() -> str:
    """Decide on what a reader said of an answer, or take the decision back. Return what became of it, in words."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.operations.feedback import decide, undo

    params = get_current_context()["params"]
    entry, decision = params["entry"], params["decision"]
    with logged_errors():
        workspace = open_workspace(corpus_file(params["corpus"]))
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


@task
def correct() -> str:
    """Correct a figure or block by hand, or take a correction back. Return what became of it, in words."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.operations.corrections import correct_part, undo_correction
    from schemas.corrections import CorrectionKind

    params = get_current_context()["params"]
    with logged_errors():
        workspace = open_workspace(corpus_file(params["corpus"]))
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


def _operation(
    dag_id: str,
    description: str,
    start: Callable[[], Any],
    params: dict[str, Any],
    default_args: dict[str, Any] | None = None,
) -> DAG:
    """Return a DAG of one task; a reason may be given for each run."""
    defaults = _DAG if default_args is None else {**_DAG, "default_args": default_args}
    with DAG(dag_id, description=description, params={**params, "reason": _REASON}, schedule=None, **defaults) as dag:
        start()
    return dag


def _operations() -> Iterator[DAG]:
    """Yield the DAGs that operators start."""
    override = Param(
        False, type="boolean", title="Override", description="Publish a version that gates refused; it needs a reason."
    )
    yield _operation(
        "inset_publish",
        "Make a version live, and end a hold",
        publish,
        {"corpus": _STORED, "version": _VERSION_PARAM, "override": override},
    )
    earlier = Param("previous", type="string", title="Version", description="A version; or previous.")
    yield _operation(
        "inset_roll_back",
        "Make an older version live, and hold the corpus at it",
        roll_back,
        {"corpus": _STORED, "version": earlier},
    )
    yield _operation(
        "inset_plan",
        "Say what a refresh would do and cost, and do nothing",
        plan,
        {"corpus": _CORPUS, **{name: PARAMS[name] for name in ("replay", "force", "money")}},
        {"owner": "inset"},
    )
    dry_run = Param(False, type="boolean", title="Dry run", description="Count only, remove nothing.")
    yield _operation("inset_prune", "Remove what no kept version needs", prune, {"corpus": _CORPUS, "dry_run": dry_run})
    decision = Param("question", type="string", enum=["question", "close", "undo"], title="Decision")
    answering_page = Param(0, type="integer", minimum=0, title="Page that answers")
    texts = {"entry": "Feedback", "source": "Document that answers", "figure_id": "Figure"}
    yield _operation(
        "inset_feedback",
        "Make a golden question of what a reader said of an answer, or close it",
        feedback,
        {
            "corpus": _CORPUS,
            "decision": decision,
            "page": answering_page,
            **{name: Param("", type="string", title=title) for name, title in texts.items()},
        },
        {"owner": "inset"},
    )
    kinds = ["caption", "description", "role", "kind", "title", "cell"]
    texts = {"source": "Document", "part": "Figure or block", "value": "What is right", "undo": "Correction to undo"}
    numbers = {"page": ("Page", 1, 1), "row": ("Row of a cell", -1, -1), "column": ("Column of a cell", -1, -1)}
    yield _operation(
        "inset_correct",
        "Correct what was read from a document by hand, or take a correction back",
        correct,
        {
            "corpus": _CORPUS,
            "kind": Param("caption", type="string", enum=kinds, title="What is wrong"),
            **{name: Param("", type="string", title=title) for name, title in texts.items()},
            **{
                name: Param(default, type="integer", minimum=least, title=title)
                for name, (title, default, least) in numbers.items()
            },
        },
        {"owner": "inset"},
    )
    listed_only = Param(True, type="boolean", title="Dry run", description="List only, delete nothing.")
    document = {"source": Param("", type="string", title="Document"), "confirm": Param("", type="string", title="Confirm")}
    yield _operation(
        "inset_forget",
        "Delete a document from every version, for good",
        forget,
        {"corpus": _CORPUS, **document, "dry_run": listed_only},
        {"owner": "inset"},
    )


globals().update({f"DAG {dag.dag_id}": dag for dag in _operations()})

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
