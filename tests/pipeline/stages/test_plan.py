"""A version that a gate refused is judged again when the bounds change, and nothing is built."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.manifests import manifest_name, read_manifest, refusals_of
from pipeline.records.publication import list_versions, read_pointer
from pipeline.run import RefreshRun, is_refused, refresh
from pipeline.stages.publish import make_live, roll_back_version
from schemas.reports import RefreshResult
from schemas.versions import RunOptions
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus


def bounded(workspace: Workspace, bounds: str) -> Workspace:
    """Open the corpus with other bounds of its gates."""
    return open_workspace(str(write_corpus(Path(workspace.file).parent.parent, f"gates: {{{bounds}}}\n")))


@pytest.fixture
def refused(published: Workspace) -> RefreshResult:
    """A version that lost half of its rows, where none may be lost."""
    (Path(published.corpus.source) / "winch.pdf").unlink()
    result = refresh(bounded(published, "max_row_loss: 0"))
    assert not result.published
    return result


def _live(workspace: Workspace) -> str | None:
    pointer = read_pointer(workspace.store)
    return pointer.version if pointer else None


def test_a_looser_bound_publishes_the_refused_version(published: Workspace, refused: RefreshResult) -> None:
    store, version = published.store, str(refused.version)
    manifest, versions = store.get(manifest_name(version)), store.folders("versions")
    workspace = bounded(published, "max_row_loss: 0.9")

    names = store.names("versions")
    dry = RefreshRun(workspace, "dry").plan(RunOptions(dry_run=True))
    assert (dry.version, dry.outcome, store.names("versions")) == (version, "ready", names)
    RefreshRun(workspace, "dry").release()

    result = refresh(workspace)
    assert (result.version, result.published, is_refused(workspace, result)) == (version, True, False)
    assert result.timings_s.keys() == {"plan", "publish"}
    assert (store.folders("versions"), _live(published)) == (versions, version)
    assert store.get(manifest_name(version)) == manifest, "a manifest never changes"
    (gate,) = [gate for gate in result.gates if gate.gate == "rows not lost"]
    assert (gate.passed, gate.bound) == (True, 0.9)
    assert gate.message.endswith("; judged again: gates.max_row_loss is 0.9 now")
    (row,) = [row for row in list_versions(store, "manuals").versions if row.version == version]
    assert (row.state, row.refusals) == ("live", [])
    assert refresh(workspace).version == version, "nothing is new"


def test_a_bound_that_is_still_too_strict_refuses_by_its_own_value(published: Workspace, refused: RefreshResult) -> None:
    live = _live(published)
    for bound in ("0.2", "0.3"):
        workspace = bounded(published, f"max_row_loss: {bound}")
        result = refresh(workspace)
        assert (result.version, is_refused(workspace, result), _live(published)) == (refused.version, True, live)
        manifest = read_manifest(published.store, str(refused.version))
        assert manifest is not None
        (reason,) = refusals_of(manifest)
        assert reason.endswith(f"; judged again: gates.max_row_loss is {bound} now")
    result = refresh(bounded(published, "max_row_loss: 0"))
    assert [gate.message for gate in result.gates] == [gate.message for gate in refused.gates], "as in the beginning"


def test_a_version_that_came_to_pass_under_a_hold_is_refused_again_by_stricter_bounds(
    published: Workspace, refused: RefreshResult
) -> None:
    source, first = Path(published.corpus.source), str(_live(published))
    write_manual(source / "lift.pdf", "steel lift", seed=3)
    second = refresh(bounded(published, "max_row_loss: 0.9"))
    assert second.published
    roll_back_version(published, first)
    (source / "lift.pdf").unlink()
    plan = RefreshRun(bounded(published, "max_row_loss: 0.9"), "held").plan()
    assert (plan.version, plan.outcome) == (refused.version, "held")
    RefreshRun(published, "held").release()
    make_live(published, first)
    strict = bounded(published, "max_row_loss: 0.1")
    result = refresh(strict)
    assert (result.version, is_refused(strict, result), _live(published)) == (refused.version, True, first)


def test_a_plan_says_how_long_listing_the_source_took(published: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = RefreshRun(published, "quick").plan(RunOptions(dry_run=True)).summary
    assert "listed in" not in quick.in_words()
    clock = itertools.count(step=75)
    monkeypatch.setattr("pipeline.stages.plan.time", SimpleNamespace(monotonic=lambda: next(clock)))
    slow = RefreshRun(published, "quick").plan(RunOptions(dry_run=True)).summary
    assert (slow.listing_s, slow.in_words().endswith("; listed in 75 s")) == (75, True)
