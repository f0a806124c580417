"""Commands that make, compare, publish and delete versions, whole or step by step."""

import json
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from cli.terminal import (
    VERSION_NAMES,
    CorpusArgument,
    Json,
    by_document,
    open_workspace,
    page_words,
    print_json,
    print_markdown,
    print_table,
    reporting,
    say,
    show,
)
from schemas.errors import OF_THE_SOURCE, FailureCode, UserError
from schemas.printing import listed
from schemas.stages import ON_A_VERSION, Stage, Step

if TYPE_CHECKING:
    from pipeline.run import RefreshRun

REFUSED = 3
"""Exit code of a refresh that a gate refuses."""
_TIME = "%Y-%m-%d %H:%M"
"""Times of the command are in UTC."""
_MOVES = 10
"""Last moves of the live version that are shown."""
_NAMED = 10
"""Sources that are named of those that are gone."""

Reason = Annotated[str | None, typer.Option(help="Why; kept in the corpus's audit log.")]

_RETRY = "correct what is in quarantine, or try it again: inset quarantine {corpus} --replay"


def plan(
    corpus: CorpusArgument,
    rollback: Annotated[
        str | None, typer.Option(metavar="VERSION", help=f"Show what it takes to roll back to a version{VERSION_NAMES}.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a refresh would do, without doing it."""
    if rollback is not None:
        _plan_rollback(corpus, rollback, as_json=as_json)
        return
    from pipeline.run_log import OUTCOMES
    from pipeline.stages.plan import plan as make_plan
    from schemas.versions import in_words

    corpus_plan = make_plan(open_workspace(corpus), "plan")
    if as_json:
        summary = corpus_plan.summary.model_dump()
        print_json({"outcome": corpus_plan.outcome, "live": corpus_plan.parent, **summary})
        return
    say(f"{corpus}: {OUTCOMES[corpus_plan.outcome]}; live is {corpus_plan.parent or 'nothing yet'}")
    rows = [(name, getattr(corpus_plan.summary, name)) for name in ("new", "changed", "gone", "kept", "to_parse")]
    print_table("", ("sources", "count"), rows)
    for name, expected in corpus_plan.summary.captions.items():
        say(f"  {name}: {in_words(expected)}")
    for advice in corpus_plan.summary.advice:
        say(f"  {advice}")
    if corpus_plan.summary.forgotten:
        say(f"  {_forgotten_note(corpus_plan.summary.forgotten)}")
    for kind, names in corpus_plan.summary.sources.items():
        for source in names[:20]:
            show(f"  {kind:<8}{source}")
        if len(names) > 20:
            show(f"  {kind:<8}… and {len(names) - 20} more")
    for row in corpus_plan.carried:
        if row.code in OF_THE_SOURCE:
            say(f"  quarantine: {row.source}: {row.code}: {row.message}")


def _plan_rollback(corpus: str, version: str, *, as_json: bool) -> None:
    from pipeline.records.indexing import rows_to_bring_back
    from pipeline.records.manifests import named_manifest
    from pipeline.records.publication import resolve_version

    workspace = open_workspace(corpus)
    manifest = named_manifest(workspace.store, corpus, resolve_version(workspace.store, corpus, version))
    rows = rows_to_bring_back(workspace, manifest)
    if as_json:
        print_json({"version": manifest.version, "rows": manifest.counts.rows, "rows_to_bring_back": rows})
    elif rows:
        say(f"{corpus}: {rows} of {manifest.counts.rows} rows of {manifest.version} are brought back into the index first")
        say(f"to do that now, and go back later: inset rollback {corpus} {manifest.version} --prepare")
    else:
        say(f"{corpus}: the index holds {manifest.version}: rolling back moves the pointer")


def _forgotten_note(forgotten: int) -> str:
    return f"{forgotten} of the source's files are left out: their documents were forgotten"


def refresh(
    corpus: CorpusArgument,
    reconvert: Annotated[
        bool,
        typer.Option("--reconvert", help="Convert again what another release of LibreOffice, or the like, made into PDFs."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring a corpus up to date: plan, parse, enrich, assemble, check, build, evaluate, publish."""
    _refresh(corpus, as_json=as_json, options={"reconvert": reconvert})


def _refresh(corpus: str, *, as_json: bool, options: Mapping[str, object]) -> None:
    from workers.child_processes import prepare

    prepare()  # imports what reads PDFs beside the imports below
    from pipeline.records.manifests import override_hint
    from pipeline.records.publication import readable_pointer, refusals_now
    from pipeline.run import refresh as run
    from schemas.versions import RunOptions

    workspace = open_workspace(corpus)
    with reporting() as report:
        result = run(workspace, report=report, options=RunOptions.model_validate(options))
    refusals = refusals_now(workspace.store, result.version) if result.version else []
    if as_json:
        print_json(result)
    else:
        counts = result.counts
        pointer = readable_pointer(workspace.store)
        if result.published:
            say(f"{corpus}: version {result.version} published")
        elif refusals and not all(gate.passed for gate in result.gates):
            say(f"{corpus}: version {result.version} refused by a gate")
        elif refusals:
            say(f"{corpus}: version {result.version} {refusals[-1]}")
        elif pointer is not None and pointer.version != result.version:
            say(f"{corpus}: version {result.version} not published: the corpus is held since a rollback")
            say(f"to publish it, and end the hold: inset publish {corpus} {result.version}")
        else:
            say(f"{corpus}: nothing changed: version {result.version} stays live")
        say(
            f"{counts.documents} documents, {counts.pages} pages, {counts.tags} tags, {counts.rows} rows; "
            f"{counts.partly_read} partly read, {counts.quarantined} in quarantine"
        )
        if result.plan.forgotten:
            say(f"  {_forgotten_note(result.plan.forgotten)}")
        if gone_sources := result.plan.sources.get("gone"):
            say(f"  gone from the source: {listed(gone_sources, _NAMED)}")
        for failure, pages in by_document(result.failures):
            unread_status = "kept:" if failure.code is FailureCode.EARLIER_KEPT else "quarantine:"
            parse_status = f"partly read: {page_words(pages)} of" if pages else unread_status
            status = "to describe:" if failure.step == Step.CAPTION else parse_status
            say(f"  {status} {failure.source}: {failure.code}: {failure.message}")
        for gate in result.gates:
            if not gate.passed:
                say(f"  {'refused' if refusals else 'passed by override'}: {gate.gate}: {gate.message}")
        if refusals:
            say(override_hint(workspace.corpus.name, result.version or ""))
        elif counts.quarantined:
            say(_RETRY.format(corpus=corpus))
    if refusals:
        raise typer.Exit(REFUSED)


def versions(corpus: CorpusArgument, as_json: Json = False) -> None:
    """List a corpus's versions, and who moved the live version lately."""
    from pipeline.records.publication import list_versions, read_events

    workspace = open_workspace(corpus)
    all_versions = list_versions(workspace.store, workspace.corpus.name)
    moves = read_events(workspace.store, _MOVES)
    if as_json:
        print_json({**dict(all_versions), "moves": moves})
        return
    if not all_versions.versions:
        say(f"{corpus}: no version yet; run: inset refresh {corpus}")
        return
    columns = ("version", "state", "created (UTC)", "documents", "quarantined", "rows", "parent")
    rows = [
        (row.version, row.state, f"{row.created:{_TIME}}", row.documents, row.quarantined, row.rows, row.parent)
        for row in all_versions.versions
    ]
    print_table("", columns, rows, fold=False)
    if moves:
        moved = [(f"{move.at:{_TIME}}", move.action, move.to_version, move.by, move.reason) for move in moves]
        print_table("", ("moved (UTC)", "action", "version", "by", "reason"), moved, fold=False)
    for row in all_versions.versions:
        if row.override is not None:
            say(
                f"{row.version}: gates overridden on {row.override.at:{_TIME}} UTC by {row.override.by}: {row.override.reason}"
            )
    if all_versions.problem is not None:
        say(all_versions.problem)
    if all_versions.held:
        say(f"{corpus} is held since a rollback: refreshes publish nothing until: inset publish {corpus} VERSION")


def diff(
    corpus: CorpusArgument,
    base: Annotated[str, typer.Argument(metavar="A", help=f"A version{VERSION_NAMES}.")],
    version: Annotated[str, typer.Argument(metavar="B", help="A later one.")],
    as_json: Json = False,
) -> None:
    """Show what changed from one version to another."""
    from pipeline.records.differences import compare_versions
    from tasks.versions.diff import release_note

    differences = compare_versions(open_workspace(corpus), base, version)
    if as_json:
        print_json(differences)
        return
    print_markdown(release_note(differences))


def rollback(
    corpus: CorpusArgument,
    version: Annotated[
        str | None, typer.Argument(help=f"The version to go back to{VERSION_NAMES}; by default previous.")
    ] = None,
    reason: Reason = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only bring its rows back into the index; what is live stays live.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make an older version live again, and hold the corpus at it."""
    from pipeline.records.publication import resolve_version
    from pipeline.stages.publish import prepare_version, roll_back_version

    workspace = open_workspace(corpus)
    with reporting() as report:
        if prepare:
            version = resolve_version(workspace.store, corpus, version or "previous")
            prepare_version(workspace, version, report)
            say(f"{corpus}: the index holds {version}")
            return
        pointer = roll_back_version(workspace, version, reason=reason, report=report)
    if as_json:
        print_json(pointer)
        return
    say(f"{corpus}: {pointer.version} is live again; refreshes publish nothing until: inset publish {corpus} VERSION")


def publish(
    corpus: CorpusArgument,
    version: Annotated[str, typer.Argument(help="A version that passed its gates, or previous, latest.")],
    override: Annotated[
        str | None, typer.Option(metavar="REASON", help="Publish a refused version; the reason is stored with it.")
    ] = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Make a version live, and end a hold."""
    from pipeline.stages.publish import make_live

    pointer = make_live(open_workspace(corpus), version, override=override, reason=reason)
    if as_json:
        print_json(pointer)
        return
    say(f"{corpus}: {pointer.version} is live")


def prune(
    corpus: CorpusArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this option nothing is removed.")] = False,
    as_json: Json = False,
) -> None:
    """Show what no kept version needs, or remove it."""
    from pipeline.upkeep.prune import prune as run

    with reporting() as report:
        result = run(open_workspace(corpus), dry_run=not yes, report=report)
    if as_json:
        print_json(result)
        return
    table_rows = [("versions", name, 1) for name in result.versions]
    table_rows += _counted(objects=result.objects, records=result.records)
    if not table_rows:
        say(f"{corpus}: there is nothing that no kept version needs")
        return
    print_table("", ("what", "where", "count"), table_rows, fold=False)
    size = decimal(result.bytes)
    say(
        f"{corpus}: removed, {size}"
        if yes
        else f"{corpus}: nothing was removed yet; to remove it, {size}: inset prune {corpus} --yes"
    )


def _counted(**counts_by_kind: Mapping[str, int]) -> list[tuple[str, str, int]]:
    return [(kind, name, count) for kind, counts in counts_by_kind.items() for name, count in counts.items()]


def forget(
    corpus: CorpusArgument,
    source: Annotated[str, typer.Argument(help="A PDF as search shows it, below the corpus's source, or its SHA-256.")],
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without this option nothing is deleted.")] = False,
    again: Annotated[
        bool, typer.Option("--readmit", help="Let a forgotten document be taken in again by the next refresh.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete a document from every version and from all that is stored of it, for good."""
    from pipeline.upkeep.forget import forget as run
    from pipeline.upkeep.forget import readmit

    if again:
        readmitted = readmit(open_workspace(corpus), source)
        if as_json:
            print_json({"corpus": corpus, "documents": readmitted})
            return
        say(f"{corpus}: {source} may be taken in again; to do so: inset refresh {corpus}")
        return
    with reporting() as report:
        result = run(open_workspace(corpus), source, dry_run=not yes, reason=reason, report=report)
    if as_json:
        print_json(result)
        return
    names_by_kind = {"document": result.documents, "source": result.sources, "version": result.versions}
    table_rows = [(kind, name, 1) for kind, names in names_by_kind.items() for name in names]
    table_rows += _counted(objects=result.objects, records=result.records)
    print_table("", ("what", "where", "count"), table_rows, fold=False)
    for pinned in result.pinned:
        say(f"{pinned} is pinned, and goes all the same")
    if result.versions and not result.kept:
        say("no version is left to roll back to")
    if not yes:
        if result.replaced is not None:
            say(f"a version without it goes live in place of {result.replaced}")
        say(f"{corpus}: nothing was deleted yet; to delete it for good: inset forget {corpus} {source} --yes")
        return
    if result.version is not None:
        say(f"{corpus}: version {result.version} is live in place of {result.replaced}")
    say(f"{corpus}: {source} is forgotten: no kept version holds it, and refreshes leave it out")
    say("copies elsewhere stay: the source's own file, copies of the store, backups, older object versions of a bucket")


def quarantine(
    corpus: CorpusArgument,
    replay: Annotated[bool, typer.Option("--replay", help="Try the documents in quarantine again.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", help="Take this source as it is, though an earlier document is kept."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what the last refresh left out and why, or try it again."""
    from pipeline.operations.quarantine import REMEDIES
    from pipeline.records.ledger import read_failures
    from pipeline.records.manifests import last_manifest

    if replay or accept:
        _refresh(corpus, as_json=as_json, options={"replay": replay, "accept": accept or []})
        return
    workspace = open_workspace(corpus)
    last = last_manifest(workspace.store)
    failures = (read_failures(workspace.store, last) if last else None) or []
    if as_json:
        print_json({"version": last.version if last else None, "failures": failures})
        return
    if not failures:
        say(f"{corpus}: nothing is in quarantine")
        return
    columns = ("source", "page", "step", "code", "message")
    rows = [(row.source, pages, row.step, row.code, row.message) for row, pages in by_document(failures)]
    print_table("", columns, rows)
    for code in dict.fromkeys(row.code for row in failures):
        say(f"{code}: {REMEDIES[code]}")
    say(_RETRY.format(corpus=corpus))


_RELEASE = "release"
_STEPS = [*Stage, _RELEASE]


def step(
    name: Annotated[str, typer.Argument(metavar="STEP", help=f"One of {', '.join(_STEPS)}.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A corpus: NAME, or the path of a corpus file.")],
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run; the same for all its steps.")],
    version: Annotated[str | None, typer.Option(help="The version that step plan named; the other steps need it.")] = None,
    shards: Annotated[str | None, typer.Option(help="Numbers of the shards to parse, such as 0,8; default: all.")] = None,
    groups: Annotated[int, typer.Option(min=1, max=500, help="Most groups of shards that step plan makes.")] = 8,
) -> None:
    """Run one step of a refresh, in a container of its own; all steps share the corpus's store.

    Step plan prints one JSON object: version, shards, the values of --shards for the parse steps, and gpus, those that the
    corpus file gives the models of enrich. Steps of a version that needs none of them end at once.
    """
    from pipeline.run import RefreshRun, planned_workspace
    from pipeline.run_log import log_progress

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    if name not in _STEPS:
        raise UserError(f"there is no step {name!r}; there are: {', '.join(_STEPS)}")
    workspace = open_workspace(corpus)
    if version is not None and name not in (_RELEASE, Stage.PLAN):
        workspace = planned_workspace(workspace, version)
    refresh = RefreshRun(workspace, run, log_progress())
    if name == _RELEASE:
        refresh.release()
    elif name == Stage.PLAN:
        sys.stdout.write(json.dumps(_plan(refresh, groups)) + "\n")
    elif version is None:
        raise UserError(f"step {name}: name the version that step plan printed: --version VERSION")
    else:
        _run_stage(refresh, Stage(name), version, [int(number) for number in shards.split(",")] if shards else None)


def _plan(refresh: "RefreshRun", groups: int) -> dict[str, Any]:
    from pipeline.run_log import log_plan

    corpus_plan = refresh.plan()
    log_plan(corpus_plan)
    numbers = [str(number) for number in range(len(corpus_plan.shards))]
    parts = [",".join(numbers[first::groups]) for first in range(min(groups, len(numbers)))]
    builds = corpus_plan.outcome == "build"
    gpus = refresh.workspace.corpus.gpus if builds else 0
    return {"version": corpus_plan.version, "shards": parts if builds else [], "gpus": gpus}


def _run_stage(refresh: "RefreshRun", stage: Stage, version: str, shards: list[int] | None) -> None:
    from pipeline.records.manifests import read_manifest
    from pipeline.records.publication import check_publishable
    from pipeline.run_log import log_note

    store = refresh.workspace.store
    finished = read_manifest(store, version)
    if stage is Stage.PUBLISH:
        if not refresh.publish(version) and read_manifest(store, version) is not None:
            check_publishable(store, refresh.workspace.corpus.name, version)
    elif finished is not None or refresh.changes_nothing(version):
        return
    elif stage is Stage.PARSE:
        log_note(stage, refresh.parse(version, shards))
    elif stage in ON_A_VERSION:
        log_note(stage, refresh.work_through(stage, version))
