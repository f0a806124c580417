"""Budgets of calls, tokens and money."""

import pytest

from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import Spend
from schemas.versions import Spent
from tasks.enriching.spending import Budget, maximum_text_cost


@pytest.mark.parametrize(
    "spent", [Spent(input_tokens=100), Spent(output_tokens=100), Spent(input_tokens=60, output_tokens=40)]
)
def test_tokens_that_are_read_and_written_count(spent: Spent) -> None:
    one_token = Spent(input_tokens=1)
    budget = Budget(Spend(tokens=101))
    assert budget.reserve(spent)
    assert budget.reserve(one_token)
    assert not budget.reserve(one_token)


def test_a_call_may_cost_what_it_reads_and_what_it_writes_at_most() -> None:
    options = ModelEntry.model_validate(
        {
            **{
                "kind": "vlm",
                "model": "tiny",
                "revision": "1",
                "endpoint": {"url": "http://127.0.0.1:1"},
                "max_tokens": 50,
            },
            **{"max_side_px": 280, "price": {"call": 1, "input": 2_000_000, "output": 3_000_000}},
        }
    )
    words_alone, with_pictures = (maximum_text_cost(options, 31, pictures) for pictures in (0, 2))
    assert words_alone == Spent(calls=1, input_tokens=11, output_tokens=50, money=1 + 2 * 11 + 3 * 50)
    assert with_pictures.input_tokens == 11 + 2 * 10 * 10
