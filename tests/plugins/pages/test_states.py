"""A version has one state, and a corpus one list of problems, whoever tells them: commands, pages, the API, metrics."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import open_workspace
from pipeline.operations.health import corpus_health, measures
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import manifest_name, state_of
from pipeline.records.publication import check_publishable, publish_version, read_pointer, reject_version, roll_back
from pipeline.records.states import State
from pipeline.upkeep.doctor import diagnose
from schemas.errors import GateError, InsetError
from schemas.ports import ObjectStore
from schemas.reports import VersionState
from tests.pipeline.operations.corpora import REFUSES, publish, schedule_of, version_name, write_corpus, write_version

ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(folder: Path) -> ObjectStore:
    """A store with versions in every state; one is refused by a gate, one by a person, one of these was overridden."""
    corpus_store = write_corpus(folder, "pumps", versions=2)
    publish(corpus_store, write_version(corpus_store, "pumps", 2), before=version_name(1))
    write_version(corpus_store, "pumps", 3, gates=[REFUSES])
    write_version(corpus_store, "pumps", 4)
    Path(corpus_store.root, manifest_name(version_name(4))).write_text("{")
    publish_version(
        corpus_store, "pumps", write_version(corpus_store, "pumps", 5, gates=[REFUSES]), override="checked by hand"
    )
    roll_back(corpus_store, "pumps", version_name(2))
    write_version(corpus_store, "pumps", 6)
    reject_version(corpus_store, version_name(6), by="ann", reason="figures are missing")
    corpus_store.replace(f"versions/{version_name(7)}/plan.json", b"{}")
    return corpus_store


STATES = {
    version_name(number): state
    for number, state in enumerate(
        ("ready", "ready", "live", "refused", "damaged", "previous", "refused", "unfinished"),
    )
}


def test_every_state_is_told_alike(store: ObjectStore, folder: Path, client: TestClient) -> None:
    file = str(folder / "corpora" / "pumps.yaml")
    listed = {version: state for version, state in STATES.items() if state != "unfinished"}
    assert {version: state_of(store, version, read_pointer(store)).state for version in STATES} == STATES
    printed = json.loads(CliRunner().invoke(app, ["versions", file, "--json"]).output)
    assert {row["version"]: row["state"] for row in printed["versions"]} == listed
    published = PublishedCorpus(open_workspace(file))
    assert {row.version: row.state for row in published.versions().versions} == listed
    page = client.get("/inset/dags/refresh_pumps").text
    for version, state in STATES.items():
        row = page[page.index(f"versions/{version}") :]
        assert re.search(r'class="badge[^"]*">(\w+)<', row)[1] == state, version  # type: ignore[index]


def test_what_a_state_allows_is_done_or_refused_in_one_line(store: ObjectStore) -> None:
    for version, state in STATES.items():
        if state in ("live", "previous", "ready"):
            check_publishable(store, "pumps", version)
        else:
            with pytest.raises(InsetError) as caught:
                check_publishable(store, "pumps", version)
            assert isinstance(caught.value, GateError) is (state == "refused")


def test_problems_are_told_alike(store: ObjectStore, folder: Path) -> None:
    file = str(folder / "corpora" / "pumps.yaml")
    health = corpus_health(schedule_of("pumps"), datetime.now(UTC))
    assert health.state is State.REFUSED
    assert any(problem.startswith(f"{version_name(6)} was refused: rejected by ann at ") for problem in health.problems)
    findings = {finding.subject: finding for finding in diagnose([file]).findings}
    assert findings["corpus pumps refused"].message in health.problems
    assert findings["corpus pumps held"].message in health.problems
    (status,) = json.loads(CliRunner().invoke(app, ["status", "pumps", "--json"]).output)["corpora"]
    assert status["problems"] == health.problems
    gauges = {measure.tags["state"]: measure.value for measure in measures(health) if measure.name == "inset.state"}
    assert [state for state, value in gauges.items() if value] == ["refused"]


def test_the_docs_name_every_state() -> None:
    life = (ROOT / "docs" / "architecture.md").read_text().partition("## The life of a version")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", life.partition("\n## ")[0], re.MULTILINE)) == set(get_args(VersionState))
    watching = (ROOT / "docs" / "reference" / "cli.md").read_text().partition("## Watching")[2].partition("\n## ")[0]
    stated = {word: int(code) for code, word in re.findall(r"^\| (\d+) \| (\w+) \|", watching, re.MULTILINE)}
    assert stated == {str(state): state.exit_code for state in State}
