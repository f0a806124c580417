"""Commands that make a corpus file, check corpora, and show their state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import (
    CorpusArgument,
    Json,
    ReaderOption,
    open_workspace,
    principals_of,
    print_json,
    print_table,
    reporting,
    say,
    show,
)
from schemas.errors import UserError
from schemas.stages import silent

if TYPE_CHECKING:
    from pipeline.operations.health import CorpusHealth


def init(
    name: Annotated[str, typer.Argument(help="The corpus's name.")] = "manuals",
    source: Annotated[
        str, typer.Option(help="A folder, a glob or s3://bucket/prefix; relative to the working folder.")
    ] = "pdfs",
    as_json: Json = False,
) -> None:
    """Write a commented corpus file, corpora/NAME.yaml."""
    from pipeline.corpus.corpora import write_corpus_file

    path = write_corpus_file(name, source)
    if as_json:
        print_json({"corpus": name, "file": str(path)})
        return
    say(f"wrote {path}; look it over, then run: inset refresh {name}")


def doctor(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Corpora to check; by default all.")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every stored object, to find damage.")] = False,
    as_json: Json = False,
) -> None:
    """Report what is missing, misconfigured or damaged, and how to repair it."""
    from pipeline.upkeep.doctor import diagnose

    with reporting() as report:
        diagnosis = diagnose(corpora or [], deep=deep, report=report if deep else silent)
    if as_json:
        print_json(diagnosis)
    else:
        for finding in diagnosis.findings:
            mark = "!" if finding.warning else "✓" if finding.ok else "✗"
            for line in f"{finding.subject}: {finding.message}".split("\n"):
                show(f"{mark} {line}")
            if finding.remedy and (finding.warning or not finding.ok):
                show(f"    → {finding.remedy}")
    if not diagnosis.ok:
        raise typer.Exit(2)


def status(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Names or corpus files; by default all.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the stores.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Show the state of every corpus: live version, age, gates, quarantine, what is wrong.

    The exit code is that of the worst state: 0 ok, 1 unreachable, 2 broken, 3 refused, 4 damaged, 5 unfinished, 6 stale,
    7 held, 8 empty, 9 waiting for an answer, 10 retrying, 11 full.
    """
    from pipeline.corpus.corpora import find_corpus_file
    from pipeline.corpus.schedules import corpus_schedule, corpus_schedules
    from pipeline.operations.health import corpora_health
    from pipeline.records.states import State

    schedules = corpus_schedules()
    if corpora:
        by_name = {corpus.name: corpus for corpus in schedules}
        schedules = [by_name.get(name) or corpus_schedule(find_corpus_file(name)) for name in corpora]
    health = corpora_health(schedules, timeout_s=timeout)
    worst = min((corpus.state for corpus in health), key=lambda state: state.severity, default=State.OK)
    if as_json:
        print_json({"state": worst, "corpora": health})
    elif not health:
        say("there is no corpus file; make one: inset init NAME")
    else:
        _show(health)
    raise typer.Exit(worst.exit_code)


def _show(health: "list[CorpusHealth]") -> None:
    counts = ("documents", "partly_read", "quarantined")
    rows = []
    for corpus in health:
        since, last = (f"{moment:%Y-%m-%d %H:%M}" if moment else "" for moment in (corpus.live_since, corpus.last_run))
        states = (corpus.corpus, corpus.state, corpus.live or "", since, "now" if corpus.refreshing else last)
        counted = (getattr(corpus.counts, name) if corpus.counts else "" for name in counts)
        gates = f"{sum(gate.passed for gate in corpus.gates)} of {len(corpus.gates)}" if corpus.gates else ""
        rows.append((*states, *counted, gates))
    columns = (
        "corpus",
        "state",
        "live version",
        "live since",
        "last run",
        "documents",
        "partly read",
        "quarantined",
        "gates",
    )
    print_table("", columns, rows, fold=False)
    for corpus in health:
        for problem in corpus.problems:
            show(f": {problem}", bold=corpus.corpus)


def access(
    corpus: CorpusArgument,
    reader: ReaderOption = None,
    sources: Annotated[list[str], typer.Option("--source", metavar="GLOB", help="Show only these sources.")] = [],  # noqa: B006
    apply: Annotated[
        bool, typer.Option("--apply", help="Read who may read what, and apply it to every version at once.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="With --apply: kept in the audit log.")] = None,
    as_json: Json = False,
) -> None:
    """Show who may read which document, and why; or apply rights at once, without a refresh."""
    from pipeline.records.access import access_report, update_rights

    workspace = open_workspace(corpus)
    if workspace.corpus.access is None:
        raise UserError(
            f"{workspace.file}: there is no 'access', so everybody who may search the corpus may read all of it"
        )
    principals = principals_of(reader)
    if apply:
        current, changed = update_rights(workspace, reason=reason)
        if as_json:
            print_json({"digest": current.digest, "changed": changed})
        else:
            say(f"corpus {workspace.corpus.name}: rights of {changed} documents changed")
        return
    report = access_report(workspace, principals, sources)
    if as_json:
        print_json(report)
        return
    rows = [
        (
            row.source,
            _in_words(row.principals),
            row.why,
            "" if row.next_principals is None else _in_words(row.next_principals),
        )
        for row in report.sources
    ]
    print_table("", ["source", "read by", "why", "after --apply"], rows)
    visible_count = len({row.doc_id for row in report.sources})
    say(f"{visible_count} of {report.documents} documents; applied by {report.by} at {report.at:%Y-%m-%d %H:%M} UTC")


def _in_words(principals: Sequence[str]) -> str:
    return "; ".join(principals) or "nobody"
