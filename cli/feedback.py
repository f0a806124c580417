"""The command by which operators read what readers said of answers, and decide on it."""

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
    say,
    show,
)
from schemas.errors import UserError

if TYPE_CHECKING:
    from pipeline.operations.feedback import Entry


def feedback(
    corpus: CorpusArgument,
    entry: Annotated[str | None, typer.Argument(help="An entry, by its id; decide on it by an option.")] = None,
    question: Annotated[
        bool, typer.Option("--question", help="Make it a golden question: each later version is judged by it.")
    ] = False,
    source: Annotated[
        str | None, typer.Option(help="The document that answers; by default the first that was cited.")
    ] = None,
    page: Annotated[int | None, typer.Option(min=1, help="The page that answers; by default the first cited.")] = None,
    figure: Annotated[
        str | None, typer.Option(help="The figure of that page to be shown, by the beginning of its id.")
    ] = None,
    close: Annotated[bool, typer.Option("--close", help="Close it: there is nothing to do.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the decision back.")] = False,
    reason: Annotated[str, typer.Option(help="Why; kept with the decision.")] = "",
    every: Annotated[bool, typer.Option("--all", help="List praise, and what is decided, too.")] = False,
    reader: ReaderOption = None,
    as_json: Json = False,
) -> None:
    """List what readers said of answers, or decide on an entry."""
    from pipeline.operations import feedback as triage
    from pipeline.records.publication import this_person

    workspace = open_workspace(corpus)
    store, name = workspace.store, workspace.corpus.name
    if question + close + undo > 1 or (entry is None) == (question or close or undo):
        raise UserError("name an entry and one of --question, --close and --undo; or neither, to list what came in")
    if entry is not None:
        if undo:
            triage.undo(store, entry, by=this_person())
            say(f"{entry} is open again")
            return
        decision = triage.decide(
            store,
            name,
            entry,
            "question" if question else "close",
            by=this_person(),
            reason=reason,
            source=source,
            page=page,
            figure_id=figure,
        )
        if as_json:
            print_json(decision)
        else:
            region = decision.region
            say(
                f"{entry}: {'closed' if region is None else f'a golden question; {region.source} page {region.page} answers it'}"
            )
        return
    groups = triage.feedback_groups(store, principals_of(reader), has_rights=workspace.corpus.access is not None)
    groups = [group for group in groups if every or group.is_open]
    if as_json:
        print_json({"groups": groups})
        return
    if not groups:
        say(f"{name}: no feedback waits for a decision")
    for group in groups:
        show(f"  {', '.join(group.sources)}", bold=group.question)
        print_table("", ("id", "at", "says", "comment", "decided"), [_row(entry) for entry in group.entries])


def _row(entry: "Entry") -> tuple[str, ...]:
    """Return an entry as a row of a table."""
    feedback_entry, decision = entry.feedback, entry.decision
    verdict = (
        "helpful" if feedback_entry.helpful else feedback_entry.reason.in_words if feedback_entry.reason else "not helpful"
    )
    decided = f"{decision.kind} by {decision.by}" if decision else ""
    return entry.id, f"{feedback_entry.at:%Y-%m-%d %H:%M}", verdict, feedback_entry.comment, decided
