"""Budgets of calls, tokens and money."""

import pytest

from schemas.corpus.budget import Spend
from schemas.versions import Spent
from tasks.enriching.spending import Budget


@pytest.mark.parametrize(
    "spent", [Spent(input_tokens=100), Spent(output_tokens=100), Spent(input_tokens=60, output_tokens=40)]
)
def test_tokens_that_are_read_and_written_count(spent: Spent) -> None:
    more = Spent(input_tokens=1)
    assert Budget(Spend(tokens=101), Spend(), spent).reserve(more), "another run's budget is its own"
    budget = Budget(Spend(tokens=101), Spend(), Spent())
    assert budget.reserve(spent)
    assert budget.reserve(more)
    assert not budget.reserve(more)
    assert not Budget(Spend(), Spend(tokens=100), spent).reserve(more)
