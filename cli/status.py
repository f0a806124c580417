"""The command ``inset status``: the state of every corpus, for people, scripts and monitors."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import Json, print_json, print_table, say, show
from schemas.errors import UserError

if TYPE_CHECKING:
    from pipeline.operations.health import CorpusHealth


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

    found = corpus_schedules()
    if unknown := set(corpora or ()) - {one.name for one in found}:
        known = ", ".join(one.name for one in found) or "none"
        raise UserError(f"there is no corpus {', '.join(sorted(unknown))}; there are: {known}")
    health = corpora_health([one for one in found if not corpora or one.name in corpora], timeout_s=timeout)
    worst = min((one.state for one in health), key=lambda state: state.severity, default=State.OK)
    if as_json:
        print_json({"state": worst, "corpora": [one.model_dump(mode="json") for one in health]})
    elif not health:
        say("there is no corpus file; make one: inset init NAME")
    else:
        _show(health)
    raise typer.Exit(worst.exit_code)


def _show(health: "list[CorpusHealth]") -> None:
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
    rows = []
    for one in health:
        since, last = (f"{moment:%Y-%m-%d %H:%M}" if moment else "" for moment in (one.live_since, one.last_run))
        counts = (one.counts.documents, one.counts.partly_read, one.counts.quarantined) if one.counts else ("", "", "")
        gates = f"{sum(gate.passed for gate in one.gates)} of {len(one.gates)}" if one.gates else ""
        rows.append((one.corpus, one.state, one.live or "", since, "now" if one.refreshing else last, *counts, gates))
    print_table("", columns, rows, fold=False)
    for one in health:
        for problem in one.problems:
            show(f": {problem}", bold=one.corpus)
