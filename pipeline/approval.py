"""What a person is asked before a version that isn't plainly good goes live."""

from typing import NamedTuple

from backends.stores.objects import read_model
from pipeline.corpus.workspace import Workspace
from pipeline.records.ledger import read_failures
from pipeline.records.manifests import refusals_of
from pipeline.records.publication import event_in_words, read_pointer
from schemas.errors import FailureCode
from schemas.ids import version_file
from schemas.printing import markdown_line
from schemas.reports import VersionDiff
from schemas.versions import UNDONE, Manifest
from tasks.versions.diff import release_note

MOST_CAUSES = 3
"""Messages that a question shows of each cause."""

_CAUSES = {
    FailureCode.OVER_BUDGET: "its budget",
    FailureCode.MODEL_UNREACHABLE: "a model's endpoint",
    FailureCode.MODEL_CRASHED: "a model's process",
}


class Approval(NamedTuple):
    """A question to a person, in Markdown."""

    subject: str
    body: str


def approval_of(workspace: Workspace, manifest: Manifest) -> Approval | None:
    """Return the question whether a version goes live; None if gates hold and nothing is left undone."""
    refusals = refusals_of(manifest)
    undone = [f"{manifest.work[name]} {words}" for name, words in UNDONE.items() if manifest.work.get(name)]
    if not refusals and not undone:
        return None
    causes: dict[str, list[str]] = {}
    for failure in (read_failures(workspace.store, manifest) or []) if undone else ():
        if (cause := _CAUSES.get(failure.code)) is not None:
            causes.setdefault(cause, []).append(f"{failure.source}: {failure.message}")
    headline = "a gate refuses it" if refusals else f"{' and '.join(causes) or 'work'} left it incomplete"
    cause_lines = [f"{cause}: {message}" for cause, messages in causes.items() for message in messages[:MOST_CAUSES]]
    reasons = [f"- {markdown_line(reason)}" for reason in [*refusals, *undone, *cause_lines]]
    spent = [
        f"- {name}: {cost.calls:,} calls, {cost.input_tokens + cost.output_tokens:,} tokens, {cost.money:,.2f} money"
        for name, cost in manifest.spent.items()
        if cost.calls
    ]
    diff = read_model(workspace.store, version_file(manifest.version, "diff.json"), VersionDiff)
    parts = ["**Why it doesn't go live by itself**", *reasons, ""]
    parts += ["**What it cost**", *spent, ""] if spent else []
    live = read_pointer(workspace.store)
    if live is not None and live.held:
        since = f": {markdown_line(event_in_words(live.moved))}" if live.moved is not None else ""
        parts += ["**The corpus is held**", f"- {live.version} stays live since a rollback{since}"]
        parts += ["- approving publishes this version, and ends the hold: refreshes publish again", ""]
    return Approval(
        subject=f"Publish {manifest.version} of {workspace.corpus.name}? {headline[0].upper()}{headline[1:]}",
        body="\n".join([*parts, release_note(diff)]),
    )
