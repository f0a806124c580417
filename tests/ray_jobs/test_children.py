"""Work in processes of its own."""

import os
from collections.abc import Callable

import pytest

from ray_jobs.children import Done, run_each
from schemas.corpus import ParseOptions


def _variable(name: str, _opened: Callable[[int], None]) -> str | None:
    return os.environ.get(name)


def test_a_child_sees_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[object]:
        orders = run_each(_variable, ["INSET_TEST_CREDENTIAL"], ParseOptions(workers=1))
        return [last.result for _, last in orders if isinstance(last, Done)]

    assert seen() == [None]
    monkeypatch.setenv("INSET_TEST_CREDENTIAL", "set since")
    assert seen() == ["set since"]
