"""The one place where an exception becomes a row: every input row yields exactly one output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.errors import BadInputError, FailureCode

I = TypeVar("I")  # noqa: E741 -- input
O = TypeVar("O")  # noqa: E741 -- output


@dataclass(frozen=True)
class RowFailure:
    """Why one row has no output."""

    row_id: str
    code: FailureCode
    message: str


@dataclass(frozen=True)
class Outcome(Generic[O]):
    """What became of one row: a value, or a failure."""

    row_id: str
    value: O | None
    failure: RowFailure | None = None


def attempt(rows: Sequence[tuple[str, I]], do: Callable[[I], O]) -> list[Outcome[O]]:
    """Run ``do`` on each row; a ``BadInputError`` costs that row only, any other error is raised.

    Args:
        rows: Row id and input.
        do: What makes a row's output.
    """
    return [_attempt(row_id, row, do) for row_id, row in rows]


def _attempt(row_id: str, row: I, do: Callable[[I], O]) -> Outcome[O]:
    try:
        return Outcome(row_id, do(row))
    except BadInputError as error:
        return Outcome(row_id, None, RowFailure(row_id, error.code, error.message))
