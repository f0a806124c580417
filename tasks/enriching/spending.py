"""What calls of generative models cost, and whether a budget holds one more."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.corpus.budget import Spend
from schemas.corpus.captions import ModelCaptioner
from schemas.corpus.models import ModelConfig, Price
from schemas.generation import Description, Subject
from schemas.versions import Spent

TOKEN_CHARACTERS = 3
"""Characters of a prompt that make a token at least, in the languages of Europe."""

PATCH_PX = 28
"""Side of the square that becomes a token of Qwen2-VL and its kind, in pixels; other models see a picture more coarsely."""


def cost(price: Price, calls: int, input_tokens: int, output_tokens: int) -> float:
    """Return what calls cost, in the currency of the price."""
    return calls * price.call + (input_tokens * price.input + output_tokens * price.output) / 1e6


def most(options: ModelCaptioner, prompt: str, subject: Subject = "figure") -> Spent:
    """Return what one call may cost at most: its prompt, its picture at the largest size, and as many words as it may write.

    A text has no picture.
    """
    return most_of(options, len(prompt), pictures=int(options.kind.sees and subject != "text"))


def most_of(options: ModelCaptioner | ModelConfig, characters: int, pictures: int) -> Spent:
    """Return what one call may cost at most, by the characters of its prompt and the number of its pictures."""
    read = math.ceil(characters / TOKEN_CHARACTERS) + pictures * math.ceil(options.max_side_px / PATCH_PX) ** 2
    return Spent(
        calls=1,
        input_tokens=read,
        output_tokens=options.max_tokens,
        money=cost(options.price, 1, read, options.max_tokens),
    )


def spent_on(made: Sequence[Description]) -> Spent:
    """Return what descriptions cost when they were made."""
    return Spent(
        calls=sum(one.calls for one in made),
        input_tokens=sum(one.input_tokens for one in made),
        output_tokens=sum(one.output_tokens for one in made),
        money=sum(one.money for one in made),
    )


@dataclass(frozen=True)
class _Limit:
    """What may be spent, and what was before this refresh."""

    limit: Spend
    before: Spent

    def holds(self, spent: Spent) -> bool:
        """Return whether so much may be spent in this refresh."""
        total, limit = self.before + spent, self.limit
        pairs = (
            (total.calls, limit.calls),
            (total.input_tokens + total.output_tokens, limit.tokens),
            (total.money, limit.money),
        )
        return all(most is None or value <= most for value, most in pairs)


class Budget:
    """What a refresh may still spend on generative models. Calls that run count with the most that they may cost.

    Args:
        refresh: What one refresh may spend.
        corpus: What all refreshes of the corpus may spend together.
        before: What earlier refreshes spent.
    """

    def __init__(self, refresh: Spend, corpus: Spend, before: Spent) -> None:
        self._limits = _Limit(refresh, Spent()), _Limit(corpus, before)
        self._spent = self._reserved = Spent()
        self._lock = threading.Lock()

    def reserve(self, cost: Spent) -> bool:
        """Put the most that a call may cost aside; False where that is more than there is left."""
        with self._lock:
            if not all(limit.holds(self._spent + self._reserved + cost) for limit in self._limits):
                return False
            self._reserved += cost
            return True

    def calls_left(self, each: Spent, most: int) -> int:
        """Return how many calls it holds, each of a cost, up to a number."""
        held, beyond = 0, most + 1
        while beyond - held > 1:
            middle = (held + beyond) // 2
            if all(limit.holds(self._spent + self._reserved + each.times(middle)) for limit in self._limits):
                held = middle
            else:
                beyond = middle
        return held

    def settle(self, reserved: Spent, spent: Spent) -> None:
        """Count what a call did cost in place of what was put aside for it."""
        with self._lock:
            self._reserved -= reserved
            self._spent += spent
