"""Work in processes of its own."""

import os
from collections.abc import Callable

import pytest

from ray_jobs.children import Done, Refused, run_each
from schemas.corpus import ParseOptions
from schemas.errors import ContractError, FailureCode, InsetError, NotFoundError, TransientError, UserError


def _variable(name: str, _opened: Callable[[int], None]) -> str | None:
    return os.environ.get(name)


def test_a_child_sees_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[object]:
        orders = run_each(_variable, ["INSET_TEST_CREDENTIAL"], ParseOptions(workers=1))
        return [last.result for _, last in orders if isinstance(last, Done)]

    assert seen() == [None]
    monkeypatch.setenv("INSET_TEST_CREDENTIAL", "set since")
    assert seen() == ["set since"]


def _raise(error: Exception, _opened: Callable[[int], None]) -> None:
    raise error


@pytest.mark.parametrize("kind", [TransientError, UserError, NotFoundError, ContractError])
def test_an_error_of_ours_is_the_same_here_as_in_the_child(kind: type[InsetError]) -> None:
    """A user's mistake that came out as transient would be tried again and again."""
    with pytest.raises(InsetError) as caught:
        list(run_each(_raise, [kind("the store may not be written to\x1b[2J")], ParseOptions(workers=1)))
    assert type(caught.value) is kind
    assert caught.value.message == r"the store may not be written to\x1b[2J"


def test_what_nobody_foresaw_costs_the_order_and_is_one_line() -> None:
    ((_, last),) = run_each(_raise, [ZeroDivisionError("no\ncolumns")], ParseOptions(workers=1))
    assert last == Refused(FailureCode.CRASHED, r"reading it failed: ZeroDivisionError: no\ncolumns")
