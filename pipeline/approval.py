"""What a person is asked before a version that isn't plainly good goes live."""

from typing import NamedTuple

from backends.stores.objects import read_model
from pipeline.corpus.workspace import Workspace
from pipeline.records.decision import event_in_words
from pipeline.records.publication import read_pointer, refusals_of
from schemas.differences import VersionDiff
from schemas.ids import version_file
from schemas.printing import markdown_line
from schemas.versions import UNDONE, Manifest
from tasks.versions.diff import release_note


class Approval(NamedTuple):
    """A question to a person, in Markdown."""

    subject: str
    body: str


def approval_of(workspace: Workspace, manifest: Manifest) -> Approval | None:
    """Return the question whether a version goes live; None where gates hold and its budget left nothing undone."""
    refusals = refusals_of(manifest)
    undone = [f"{manifest.work[name]} {words}" for name, words in UNDONE.items() if manifest.work.get(name)]
    if not refusals and not undone:
        return None
    why = "a gate refuses it" if refusals else "its budget left it incomplete"
    reasons = [f"- {markdown_line(reason)}" for reason in [*refusals, *undone]]
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
        subject=f"Publish {manifest.version} of {workspace.corpus.name}? {why[0].upper()}{why[1:]}",
        body="\n".join([*parts, release_note(diff)]),
    )
