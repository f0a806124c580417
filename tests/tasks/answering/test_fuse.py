"""Reciprocal rank fusion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ContractError
from tasks.answering.fuse import fuse

RANKING = st.lists(st.sampled_from("abcdefgh"), unique=True)


def test_a_hand_computed_example() -> None:
    fused = dict(fuse([["a", "b"], ["b", "c"]], k=60))
    assert fused == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})
    assert [name for name, _ in fuse([["a", "b"], ["b", "c"]])] == ["b", "a", "c"]


def test_ties_go_by_id() -> None:
    assert [name for name, _ in fuse([["b"], ["a"]])] == ["a", "b"]


def test_a_ranking_that_repeats_a_row_is_a_bug() -> None:
    with pytest.raises(ContractError):
        fuse([["a", "a"]])


@given(st.lists(RANKING, max_size=4))
def test_every_row_comes_out_once_best_first(rankings: list[list[str]]) -> None:
    fused = fuse(rankings)
    assert {name for name, _ in fused} == {name for ranking in rankings for name in ranking}
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)
