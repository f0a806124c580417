"""Commands that make a corpus file, check corpora, and show their state."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import Json, print_json, print_table, say, show
from schemas.errors import UserError
from schemas.models import MULTILINGUAL

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
    from pipeline.corpus.languages import text_model_for

    model = text_model_for(source)
    path = write_corpus_file(name, source, model)
    if as_json:
        print_json({"corpus": name, "file": str(path), "text_model": model})
        return
    if model == MULTILINGUAL:
        say(f"a fifth or more of the PDFs are not in English: embeddings.text is {MULTILINGUAL}")
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

    diagnosis = diagnose(corpora or [], deep=deep)
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
    corpora: Annotated[list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Names; by default all.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the stores.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Show the state of every corpus: live version, age, gates, quarantine, what is wrong.

    The exit code is that of the worst state: 0 ok, 1 unreachable, 2 broken, 3 refused, 4 damaged, 5 unfinished, 6 stale,
    7 held, 8 empty, 9 waiting for an answer, 10 retrying, 11 full.
    """
    from pipeline.corpus.schedules import corpus_schedules
    from pipeline.operations.health import corpora_health
    from pipeline.operations.states import State

    schedules = corpus_schedules()
    if unknown := set(corpora or ()) - {corpus.name for corpus in schedules}:
        corpus_names = ", ".join(corpus.name for corpus in schedules) or "none"
        raise UserError(f"there is no corpus {', '.join(sorted(unknown))}; there are: {corpus_names}")
    health = corpora_health([corpus for corpus in schedules if not corpora or corpus.name in corpora], timeout_s=timeout)
    worst = min((corpus.state for corpus in health), key=lambda state: state.severity, default=State.OK)
    if as_json:
        print_json({"state": worst, "corpora": [corpus.model_dump(mode="json") for corpus in health]})
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
