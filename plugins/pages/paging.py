"""A page of a long list."""

from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Paged(Generic[Item]):
    """A page of a list; a page beyond the end is the last one.

    Attributes:
        items: Those of this page.
        page: Its number, from 1.
        pages: How many there are, at least 1.
        total: The length of the list.
    """

    def __init__(self, every: Sequence[Item], page: int, size: int) -> None:
        self.total = len(every)
        self.pages = max(1, -(-self.total // size))
        self.page = min(page, self.pages)
        self.items = every[(self.page - 1) * size : self.page * size]
