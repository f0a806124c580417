"""A refresh as a scheduler runs it."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from pipeline.approval import approval_of
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.manifests import read_manifest, read_override
from pipeline.records.notes import read_last_refresh
from pipeline.records.publication import decision, decision_in_words, list_versions, read_pointer
from pipeline.run import Approved, RefreshRun, is_refused, planned_workspace, refresh
from pipeline.run_log import log_note, log_plan
from pipeline.stages.publish import make_live, roll_back_version
from schemas.errors import ContractError, UserError
from schemas.stages import ON_A_VERSION, Stage
from schemas.versions import Manifest, RunOptions
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus


def test_a_run_keeps_the_options_of_its_plan(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    version = RefreshRun(published, "run-1").plan().version
    RefreshRun(published, "run-1").parse(version)
    write_corpus(published.file.parent.parent, "chunks: {tokens: 60}\n")
    edited = open_workspace(str(published.file))
    for stage in ON_A_VERSION:
        RefreshRun(planned_workspace(edited, version), "run-1").work(stage, version)
    assert RefreshRun(planned_workspace(edited, version), "run-1").publish(version)

    model = "{kind: vlm, model: m, revision: '1', prompt: ./asked.md, endpoint: {url: 'http://127.0.0.1:1/v1'}}"
    write_corpus(published.file.parent.parent, f"models: {{vlm: {model}}}\n")
    published.file.write_text(published.file.read_text().replace("{ocr: none}", "{ocr: none, captioner: vlm}"))
    (published.file.parent / "asked.md").write_text("Describe the figure.")
    version = RefreshRun(open_workspace(str(published.file)), "run-1").plan().version
    (published.file.parent / "asked.md").write_text("Describe the figure in one sentence.")
    with pytest.raises(
        UserError, match=r"manuals\.yaml, or a file that it names, changed while the refresh ran; refresh again"
    ):
        planned_workspace(open_workspace(str(published.file)), version)


def test_a_version_that_an_operator_let_pass_is_no_refusal(published: Workspace) -> None:
    page, run = Path(published.corpus.source) / "page.pdf", RefreshRun(published, "run-1")
    page.write_bytes(b"<html>")
    refused = refresh(published).version or ""
    make_live(published, refused, override="nobody needs that page")
    planned = run.plan()
    assert (planned.version, planned.outcome) == (refused, "unchanged")
    assert run.publish(planned.version)
    run.release()
    page.unlink()
    assert refresh(published).published
    page.write_bytes(b"<html>")
    assert run.plan().outcome == "ready", "as its list of versions says"


def test_what_a_log_says_of_a_file_is_one_line(published: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    pdfs, run = Path(published.corpus.source), RefreshRun(published, "run-1")
    (pdfs / "a\nERROR forged\x1b[31m.pdf").symlink_to("nowhere")
    (pdfs / "b\nERROR forged.pdf").write_bytes(b"<html>")
    with caplog.at_level(logging.INFO):
        planned = run.plan()
        log_plan(planned)
        log_note(Stage.PARSE, run.parse(planned.version, [0]))
    run.release()
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [message[:30] for message in warned] == [r"quarantine: a\nERROR forged\x1", r"quarantine: b\nERROR forged.pd"]
    assert not [message for message in caplog.messages if "\n" in message or "\x1b" in message]


def test_a_replay_that_changes_nothing_step_by_step_builds_no_version(published: Workspace) -> None:
    (Path(published.corpus.source) / "page.pdf").write_bytes(b"<html>")
    workspace = open_workspace(str(write_corpus(published.file.parent.parent, "gates: {max_quarantined: 0.9}\n")))
    before = refresh(workspace).version
    run = RefreshRun(workspace, "run-1")
    planned = run.plan(RunOptions(replay=True))
    assert (planned.outcome, len(planned.again)) == ("build", 1)
    run.parse(planned.version)
    assert run.changes_nothing(planned.version)
    assert not run.publish(planned.version)
    run.release()
    assert list_versions(workspace.store, "manuals").versions[0].version == before
    last = read_last_refresh(workspace.store)
    assert last is not None
    assert (last.state, last.version) == ("unchanged", before)


def test_a_run_that_lost_its_lease_finishes_no_version(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    run, other_run = RefreshRun(published, "run-1"), RefreshRun(published, "run-2")
    planned = run.plan()
    with run.holding_lease():
        run.release()  # as the lease of a run that was paused for longer than its term
        with other_run.holding_lease(), pytest.raises(ContractError, match="another run took the lease over"):
            run.finish(planned.version)
    assert read_manifest(published.store, planned.version) is None


def test_a_replay_of_one_source_tries_no_other(published: Workspace) -> None:
    for name in ("page", "note"):
        (Path(published.corpus.source) / f"{name}.pdf").write_bytes(f"<html>{name}".encode())
    workspace = open_workspace(str(write_corpus(published.file.parent.parent, "gates: {max_quarantined: 0.9}\n")))
    quarantined = {failure.source: failure.doc_id for failure in refresh(workspace).failures}
    assert quarantined.keys() == {"page.pdf", "note.pdf"}
    run = RefreshRun(workspace, "run-1")
    for sources in (["page.pdf"], ["note.pdf"], ["page.pdf", "note.pdf"], []):
        planned = run.plan(RunOptions(replay=True, documents=sources))
        assert {*planned.again} == {quarantined[source] for source in sources or quarantined}
    run.release()


def test_a_dry_run_writes_no_version(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    versions = published.store.folders("versions")
    run = RefreshRun(published, "run-1")
    planned = run.plan(RunOptions(dry_run=True))
    run.release()
    assert (planned.outcome, planned.summary.new) == ("build", 1)
    assert published.store.folders("versions") == versions


def test_a_forced_run_builds_what_is_unchanged(published: Workspace) -> None:
    assert refresh(published).plan.to_parse == 0
    before = read_pointer(published.store)
    forced = refresh(published, options=RunOptions(force=True))
    assert forced.published
    assert before is not None
    assert forced.version != before.version


def test_a_version_whose_budget_ran_out_asks_and_a_good_one_does_not(published: Workspace) -> None:
    pointer = read_pointer(published.store)
    assert pointer is not None
    manifest = read_manifest(published.store, pointer.version)
    assert manifest is not None
    assert approval_of(published, manifest) is None
    short = approval_of(published, manifest.model_copy(update={"work": {"undescribed": 7}}))
    assert short is not None
    assert "7 figures, pages or texts not described" in short.body


def test_an_approved_version_goes_live_unless_another_did_meanwhile(published: Workspace) -> None:
    page = Path(published.corpus.source) / "page.pdf"
    page.write_bytes(b"<html>")
    refused = read_manifest(published.store, refresh(published).version or "")
    assert refused is not None
    question = approval_of(published, refused)
    assert question is not None
    assert "a gate refuses it" in question.subject.lower()
    assert "quarantine ceiling" in question.body
    page.unlink()
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    assert refresh(published).published
    with pytest.raises(ContractError, match="is live now: refresh by"):
        RefreshRun(published, "run-2").publish(refused.version, Approved("fine", "ann"))


def _refused(workspace: Workspace) -> Manifest:
    """Refresh a corpus with a document that nobody can read; return the refused version."""
    (Path(workspace.corpus.source) / "page.pdf").write_bytes(b"<html>")
    refused = read_manifest(workspace.store, refresh(workspace).version or "")
    assert refused is not None
    return refused


def test_a_question_is_decided_once_the_version_is_published_by_any_way(published: Workspace) -> None:
    store, refused = published.store, _refused(published)
    assert decision(store, refused.version) is None, "it is open"
    make_live(published, refused.version, override="that page is known", by="ann")
    live = decision(store, refused.version)
    assert live is not None
    assert decision_in_words(live, refused.version).startswith(f"{refused.version} is live: override by ann at ")
    assert decision_in_words(live, refused.version).endswith("(that page is known)")
    assert RefreshRun(published, "run-2").publish(refused.version, Approved("fine", "bob"))
    override = read_override(store, refused.version)
    assert override is not None
    assert (override.by, override.reason) == ("ann", "that page is known"), "the later approval changes nothing"


def test_a_question_is_decided_once_somebody_rolls_back(published: Workspace) -> None:
    first = read_pointer(published.store)
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    assert refresh(published).published
    refused = _refused(published)
    roll_back_version(published, by="ann", reason="wrong screws")
    live = decision(published.store, refused.version)
    assert live is not None
    assert first is not None
    decision_text = decision_in_words(live, refused.version)
    assert decision_text.startswith(
        f"{refused.version} isn't published, since {first.version} is live now: rollback by ann"
    )


def test_a_question_about_a_held_corpus_says_that_approving_ends_the_hold(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    assert refresh(published).published
    pointer = roll_back_version(published, by="ann", reason="wrong screws")
    refused = _refused(published)
    question = approval_of(published, refused)
    assert question is not None
    assert "**The corpus is held**" in question.body
    assert f"{pointer.version} stays live since a rollback: rollback by ann" in question.body
    assert "ends the hold" in question.body
    assert decision(published.store, refused.version) is None, "the hold is older than the question"
    assert RefreshRun(published, refused.run_id).publish(refused.version, Approved("the page is known", "bob"))
    live = read_pointer(published.store)
    assert live is not None
    assert (live.version, live.held) == (refused.version, False)


def test_an_approval_does_not_end_a_hold_that_came_after_the_question(published: Workspace) -> None:
    refused = _refused(published)
    assert refused.parent is not None
    roll_back_version(published, refused.parent, by="ann", reason="let it be")
    with pytest.raises(ContractError, match=r"rollback by ann .* \(let it be\); compare them"):
        RefreshRun(published, refused.run_id).publish(refused.version, Approved("fine", "bob"))
    live = read_pointer(published.store)
    assert live is not None
    assert (live.version, live.held) == (refused.parent, True)


def test_the_steps_of_a_container_pipeline_publish_a_version(corpus_file: Path) -> None:
    def step(name: str, *more: str) -> str:
        result = CliRunner().invoke(app, ["step", name, str(corpus_file), "run-1", *more])
        assert result.exit_code == 0, result.output
        return result.output

    def plan(*more: str) -> dict[str, Any]:
        planned: dict[str, Any] = json.loads(step("plan", *more).splitlines()[-1])
        return planned

    planned = plan("--groups", "1")
    version, groups = planned["version"], planned["shards"]
    assert groups == [",".join(map(str, range(len(groups[0].split(",")))))]
    for shards in groups:
        step("parse", "--version", version, "--shards", shards)
    for name in [*ON_A_VERSION, "publish", "release"]:
        step(name, "--version", version)
    pointer = read_pointer(open_workspace(str(corpus_file)).store)
    assert pointer is not None
    assert pointer.version == version
    assert plan() == {"version": version, "shards": [], "gpus": 0}
    step("check", "--version", version)
    step("publish", "--version", version)
    step("release")


def test_a_rejected_version_stays_rejected_when_its_run_publishes_again(published: Workspace) -> None:
    live = read_pointer(published.store)
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    run = RefreshRun(published, "run-1")
    version = run.plan().version
    run.parse(version)
    for stage in ON_A_VERSION:
        run.work(stage, version)
    assert all(gate.passed for gate in run.finish(version).gates)
    run.reject(version, by="ann", reason="figures are missing")
    for _ in range(2):
        assert not run.publish(version)
    run.release()
    assert read_pointer(published.store) == live
    last = read_last_refresh(published.store)
    assert last is not None
    assert last.state == "refused"
    again = refresh(published)
    assert (again.version, again.published, is_refused(published, again)) == (version, False, True)
    assert list_versions(published.store, "manuals").versions[0].state == "refused"
    printed = CliRunner().invoke(app, ["refresh", str(published.file)])
    assert (printed.exit_code, "rejected by ann at" in printed.output, "held" in printed.output) == (3, True, False)
    make_live(published, version, override="they are there", by="bob")
    assert [row.state for row in list_versions(published.store, "manuals").versions] == ["live", "previous"]
