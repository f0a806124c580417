"""``inset status``: a line and an exit code for whatever state a corpus is in."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from pipeline.records.publication import LIVE, roll_back
from pipeline.records.states import State
from tests.pipeline.operations.corpora import REFUSES, publish, version_name, write_corpus, write_version


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "corpora").mkdir()
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    return tmp_path


def ok(folder: Path) -> None:
    write_corpus(folder, "pumps", versions=1)


def broken(folder: Path) -> None:
    (folder / "corpora" / "pumps.yaml").write_text("name: pumps\nsourc: x\n")


def refused(folder: Path) -> None:
    write_version(write_corpus(folder, "pumps", versions=1), "pumps", 1, gates=[REFUSES])


def damaged(folder: Path) -> None:
    Path(write_corpus(folder, "pumps", versions=1).root, LIVE).write_text("{")


def unfinished(folder: Path) -> None:
    write_corpus(folder, "pumps", versions=1).replace(f"versions/{version_name(1)}/plan.json", b"{}")


def stale(folder: Path) -> None:
    write_corpus(folder, "pumps", versions=1, more='schedule: "@daily"\n')


def held(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    publish(store, write_version(store, "pumps", 1), before=version_name(0))
    roll_back(store, "pumps")


def empty(folder: Path) -> None:
    write_corpus(folder, "pumps")


@pytest.mark.parametrize("state", [ok, broken, refused, damaged, unfinished, stale, held, empty])
def test_each_state_has_its_exit_code(folder: Path, state: Callable[[Path], None]) -> None:
    state(folder)
    result = CliRunner().invoke(app, ["status", "--json"])
    report = json.loads(result.stdout)
    assert report["state"] == report["corpora"][0]["state"] == state.__name__
    assert result.exit_code == State[state.__name__.upper()].exit_code


def test_the_exit_code_is_that_of_the_worst_state(folder: Path) -> None:
    write_version(write_corpus(folder, "pumps", versions=1), "pumps", 1, gates=[REFUSES])
    write_corpus(folder, "winches", versions=1)
    result = CliRunner().invoke(app, ["status"])
    assert result.exit_code == State.REFUSED.exit_code
    assert "a loss of 80 %" in result.stdout
    assert CliRunner().invoke(app, ["status", "winches"]).exit_code == 0


def test_every_state_has_an_exit_code_of_its_own() -> None:
    assert len({state.exit_code for state in State}) == len(State)
