"""A refused version is judged again by other bounds of gates; its manifest stays."""

from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.manifests import keep_verdicts, manifest_name, read_manifest, refusals_of
from pipeline.records.publication import list_versions
from pipeline.run import refresh
from pipeline.stages.plan import plan
from tests.pipeline.conftest import write_corpus


def bounded(workspace: Workspace, bounds: str) -> Workspace:
    """Open the corpus with other bounds of its gates."""
    return open_workspace(str(write_corpus(Path(workspace.file).parent.parent, f"gates: {{{bounds}}}\n")))


@pytest.fixture
def refused(published: Workspace) -> str:
    """A version that lost half of its rows, where none may be lost."""
    (Path(published.corpus.source) / "winch.pdf").unlink()
    result = refresh(bounded(published, "max_row_loss: 0"))
    assert not result.published
    return str(result.version)


def _keep(workspace: Workspace, version: str, bounds: str) -> list[str]:
    """Keep the verdicts by other bounds; return what refuses."""
    keep_verdicts(workspace.store, version, bounded(workspace, bounds).corpus.gates)
    manifest = read_manifest(workspace.store, version)
    assert manifest is not None
    return refusals_of(manifest)


def test_verdicts_follow_the_bounds_and_the_manifest_stays(published: Workspace, refused: str) -> None:
    store = published.store
    manifest, first = store.get(manifest_name(refused)), _keep(published, refused, "max_row_loss: 0")
    for bound in ("0.2", "0.3"):
        (reason,) = _keep(published, refused, f"max_row_loss: {bound}")
        assert reason == f"{first[0]}; judged again: gates.max_row_loss is {bound} now"
    assert _keep(published, refused, "max_row_loss: 0.9") == []
    (row, _) = list_versions(store, "manuals").versions
    assert (row.version, row.state, row.refusals) == (refused, "ready", [])
    assert _keep(published, refused, "max_row_loss: 0") == first
    assert store.get(manifest_name(refused)) == manifest


def test_a_plan_judges_by_the_present_bounds_and_writes_nothing(published: Workspace, refused: str) -> None:
    names = published.store.names("")
    outcomes = {}
    for bound in ("0", "0.2", "0.9"):
        planned = plan(bounded(published, f"max_row_loss: {bound}"), "run-1")
        outcomes[bound] = planned.outcome
        assert planned.version == refused
    assert outcomes == {"0": "refused", "0.2": "refused", "0.9": "ready"}
    assert published.store.names("") == names
    _keep(published, refused, "max_row_loss: 0.9")
    assert plan(bounded(published, "max_row_loss: 0.2"), "run-1").outcome == "refused", (
        "by the present bounds, not the kept"
    )


def test_verdicts_that_are_damaged_cost_no_version(published: Workspace, refused: str) -> None:
    _keep(published, refused, "max_row_loss: 0.9")
    (Path(published.store.root) / "versions" / refused / "gates.json").write_text("{")
    (row, _) = list_versions(published.store, "manuals").versions
    assert (row.version, row.state) == (refused, "refused")
    assert _keep(published, refused, "max_row_loss: 0.9") == []


def test_bounds_of_gates_are_in_no_key(published: Workspace) -> None:
    assert bounded(published, "max_row_loss: 0.123").keys == published.keys
