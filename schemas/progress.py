"""Reports of progress."""

from typing import Protocol


class Report(Protocol):
    """Is called with progress."""

    def __call__(self, step: str, completed: int, total: int, spent: str = "", /) -> None:
        """Report the progress of a step, and its spending so far; "" for a step without cost."""
        ...


def silent(_step: str, _done: int, _total: int, _spent: str = "") -> None:
    """Report to nobody."""
