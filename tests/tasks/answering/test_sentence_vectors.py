"""Vectors of sentences are computed once, and are the same whether they were kept or not."""

from collections.abc import Sequence

import numpy as np

from schemas.ports import Vector
from tasks.answering.embedded_query import SentenceVectors


class _Model:
    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> Vector:
        self.calls.append(list(texts))
        return np.array([[len(text) / 3, 1 / 3] for text in texts], np.float32)


def test_distinct_new_sentences_are_embedded_in_one_call_and_kept() -> None:
    model = _Model()
    vectors = SentenceVectors(model)
    first = vectors(["a", "bb", "a"])
    assert np.array_equal(vectors(["bb", "ccc", "a"])[[2, 0]], first[:2])
    assert model.calls == [["a", "bb"], ["ccc"]]


def test_the_sentences_used_last_are_kept() -> None:
    model = _Model()
    vectors = SentenceVectors(model, max_sentences=2)
    for text in ("a", "bb", "a", "ccc", "a", "bb"):
        vectors([text])
    assert model.calls == [["a"], ["bb"], ["ccc"], ["bb"]]
    assert vectors(["a", "bb", "ccc", "dddd"]).shape == (4, 2)
