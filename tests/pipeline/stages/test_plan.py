"""A version that a gate refused is built again, from finished work, when the bound changes."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.manifests import manifest_name
from pipeline.records.publication import list_versions, read_pointer
from pipeline.run import RefreshRun, is_refused, refresh
from schemas.reports import RefreshResult
from schemas.versions import RunOptions
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


def test_a_looser_bound_publishes_what_was_refused(published: Workspace, refused: RefreshResult) -> None:
    store, manifest = published.store, published.store.get(manifest_name(str(refused.version)))
    workspace = bounded(published, "max_row_loss: 0.9")
    result = refresh(workspace)
    assert (result.published, is_refused(workspace, result), _live(published)) == (True, False, result.version)
    (gate,) = [gate for gate in result.gates if gate.gate == "rows not lost"]
    assert (gate.passed, gate.bound) == (True, 0.9)
    assert result.plan.to_parse == 0, "of finished work"
    assert store.get(manifest_name(str(refused.version))) == manifest, "a manifest never changes"
    states = {row.version: row.state for row in list_versions(store, "manuals").versions}
    assert (states[str(result.version)], states[str(refused.version)]) == ("live", "refused")
    assert refresh(bounded(published, "max_row_loss: 0.1")).version == result.version, "what passed stays passed"


def test_a_bound_that_is_still_too_strict_refuses_once(published: Workspace, refused: RefreshResult) -> None:
    live, workspace = _live(published), bounded(published, "max_row_loss: 0.2")
    result = refresh(workspace)
    assert (is_refused(workspace, result), _live(published)) == (True, live)
    assert result.version != refused.version
    versions = published.store.folders("versions")
    assert refresh(workspace).version == result.version
    assert published.store.folders("versions") == versions


def test_bounds_of_gates_are_in_no_key(published: Workspace) -> None:
    assert bounded(published, "max_row_loss: 0.123").keys == published.keys


def test_a_plan_says_how_long_listing_the_source_took(published: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = RefreshRun(published, "quick").plan(RunOptions(dry_run=True)).summary
    assert "listed in" not in quick.in_words()
    clock = itertools.count(step=75)
    monkeypatch.setattr("pipeline.stages.plan.time", SimpleNamespace(monotonic=lambda: next(clock)))
    slow = RefreshRun(published, "quick").plan(RunOptions(dry_run=True)).summary
    assert (slow.listing_s, slow.in_words().endswith("; listed in 75 s")) == (75, True)
