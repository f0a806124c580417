"""How far a step is, for those who wait."""

from typing import Protocol


class Report(Protocol):
    """Is called with progress."""

    def __call__(self, step: str, done: int, total: int, spent: str = "", /) -> None:
        """Take note of how far a step is, and what it has spent so far, "" for a step that costs nothing."""
        ...


def silent(_step: str, _done: int, _total: int, _spent: str = "") -> None:
    """Report to nobody."""
