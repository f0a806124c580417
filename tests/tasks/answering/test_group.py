"""Hits by page or document."""

from tasks.answering.fuse import BestOfGroup, group


def test_the_best_of_each_group_comes_in_the_order_of_the_best() -> None:
    ranked = [("a", 0.9, "x"), ("b", 0.8, "y"), ("c", 0.7, "x"), ("d", 0.6, "x"), ("e", 0.5, "z")]
    assert group(ranked) == [BestOfGroup("a", 0.9, 2), BestOfGroup("b", 0.8, 0), BestOfGroup("e", 0.5, 0)]
    assert group([]) == []
