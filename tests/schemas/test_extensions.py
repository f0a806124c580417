"""What installed packages add."""

from importlib.metadata import EntryPoint

import pytest

from schemas import base
from schemas.base import extensions as added


def test_the_lab_adds_its_commands() -> None:
    assert [entry.name for entry in added("inset.commands")] == ["evaluate", "questions"]


def test_a_package_that_is_not_here_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(name, f"{name}.gates:x", "inset.dags") for name in ("no_such_lab", "lab")]
    monkeypatch.setattr(
        base, "entry_points", lambda *, group: [entry_point for entry_point in entries if entry_point.group == group]
    )
    assert [entry.name for entry in added("inset.dags")] == ["lab"]
