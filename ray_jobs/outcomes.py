"""Outcomes of rows: every input row yields exactly one."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from schemas.errors import BadInputError, FailureCode, InsetError

I = TypeVar("I")  # noqa: E741 -- input
O = TypeVar("O")  # noqa: E741 -- output


@dataclass(frozen=True)
class RowFailure:
    """Why a row has no output."""

    row_id: str
    code: FailureCode
    message: str


@dataclass(frozen=True)
class Outcome(Generic[O]):
    """A row's value or failure."""

    row_id: str
    value: O | None
    failure: RowFailure | None = None


def attempt(rows: Sequence[tuple[str, I]], call: Callable[[I], O]) -> list[Outcome[O]]:
    """Run ``call`` on each row; a ``BadInputError`` fails that row, any other error is raised."""
    return [_attempt(row_id, row, call) for row_id, row in rows]


def outcomes_of_batch(rows: Sequence[tuple[str, Any]], value: O) -> list[Outcome[O]]:
    """Return the outcomes of rows that have one value together: the first has it, the others None."""
    return [Outcome(row_id, value if index == 0 else None) for index, (row_id, _) in enumerate(rows)]


@contextlib.contextmanager
def errors_as_bad_input(task: str) -> Iterator[None]:
    """Turn unexpected errors of pure work, and a lack of memory, into a ``BadInputError`` of its input."""
    try:
        yield
    except InsetError:
        raise
    except MemoryError as error:
        raise BadInputError(f"{task} takes more memory than there is", FailureCode.MEMORY_LIMIT) from error
    except Exception as error:
        raise BadInputError(f"{task} failed: {type(error).__name__}: {error}"[:300], FailureCode.CRASHED) from error


def _attempt(row_id: str, row: I, call: Callable[[I], O]) -> Outcome[O]:
    try:
        return Outcome(row_id, call(row))
    except BadInputError as error:
        return Outcome(row_id, None, RowFailure(row_id, error.code, error.message))
