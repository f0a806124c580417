"""Cost of calls of generative models, and budgets."""

import math
import threading
from bisect import bisect_left
from collections.abc import Sequence

from schemas.corpus.models import ModelEntry, Price
from schemas.corpus.operations import Spend
from schemas.models import Description, Reply, Subject, Usage
from schemas.versions import Spent

TOKEN_CHARACTERS = 3
"""Minimum characters of a prompt's token, in European languages."""

PATCH_PX = 28
"""Side of an image token of Qwen2-VL, in pixels; other models use larger ones."""


def cost_of(price: Price, used: Usage | Reply | Spent) -> Spent:
    """Return what calls have cost, in the currency of the price."""
    money = used.calls * price.call + (used.input_tokens * price.input + used.output_tokens * price.output) / 1e6
    return Spent(calls=used.calls, input_tokens=used.input_tokens, output_tokens=used.output_tokens, money=money)


def maximum_cost(options: ModelEntry, prompt: str, subject: Subject = "figure") -> Spent:
    """Return the maximum cost of one call: prompt, largest picture (none for a text), longest reply."""
    return maximum_text_cost(options, len(prompt), int(options.kind.sees and subject != "text"))


def maximum_text_cost(options: ModelEntry, characters: int, pictures: int) -> Spent:
    """Return the maximum cost of one call by characters of its prompt and number of pictures."""
    read = math.ceil(characters / TOKEN_CHARACTERS) + pictures * math.ceil(options.max_side_px / PATCH_PX) ** 2
    return cost_of(options.price, Usage(1, read, options.max_tokens))


def maximum_embedding_cost(price: Price, characters: int, calls: int) -> Spent:
    """Return the maximum cost of embedding texts of so many characters."""
    return cost_of(price, Usage(calls, math.ceil(characters / TOKEN_CHARACTERS)))


def spent_on(descriptions: Sequence[Description]) -> Spent:
    """Return the recorded cost of descriptions."""
    return Spent(**{name: sum(getattr(description, name) for description in descriptions) for name in Spent.model_fields})


class Budget:
    """What calls may spend together; running calls count with their maximum cost."""

    def __init__(self, limit: Spend) -> None:
        self._limit = limit
        self._spent = self._reserved = Spent()
        self._lock = threading.Lock()

    def _allows(self, cost: Spent) -> bool:
        total = self._spent + self._reserved + cost
        pairs = (
            (total.calls, self._limit.calls),
            (total.input_tokens + total.output_tokens, self._limit.tokens),
            (total.money, self._limit.money),
        )
        return all(maximum is None or value <= maximum for value, maximum in pairs)

    def reserve(self, cost: Spent) -> bool:
        """Reserve the maximum cost of a call; False if it exceeds the budget."""
        with self._lock:
            is_allowed = self._allows(cost)
            if is_allowed:
                self._reserved += cost
            return is_allowed

    def calls_left(self, cost_a_call: Spent, most_calls: int) -> int:
        """Return how many calls of a cost the budget holds, at most ``most_calls``."""
        # A budget that allows some calls allows fewer as well, so the largest number is found by bisection.
        return bisect_left(range(1, most_calls + 1), True, key=lambda calls: not self._allows(cost_a_call.times(calls)))

    def settle(self, reserved: Spent, spent: Spent) -> None:
        """Replace a reservation by the actual cost."""
        with self._lock:
            self._reserved -= reserved
            self._spent += spent
