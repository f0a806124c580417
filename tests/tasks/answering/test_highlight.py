"""What of a row matched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.evidence import Span
from schemas.ports import Vector
from schemas.text import words
from tasks.answering.highlight import content_words, excerpt, highlights, nearest_sentences, sentences


def _marked(text: str, spans: list[Span]) -> list[str]:
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("query", "remaining"),
    [
        ("How do I change the oil-filter?", "   change  oil-filter?"),
        ("to be", "to be"),  # made of nothing else, it means them
        ("Ölfilter wechseln", "Ölfilter wechseln"),
        ("", ""),
    ],
)
def test_words_that_only_ask_are_nothing_to_look_at(query: str, remaining: str) -> None:
    assert content_words(query) == remaining


@pytest.mark.parametrize(
    ("text", "matched", "phrases", "marked"),
    [
        ("oil  Filter, and oil", [(0, 3), (17, 20)], ["oil filter"], ["oil  Filter", "oil"]),
        ("one two three two three", [], ["two three", "one two"], ["one two three", "two three"]),
        ("oil filter", [(4, 10), (0, 3)], [], ["oil", "filter"]),
        ("nothing", [], [], []),
        ("", [], ["filter", "?"], []),
    ],
)
def test_words_and_phrases_are_marked(text: str, matched: list[Span], phrases: list[str], marked: list[str]) -> None:
    assert _marked(text, highlights(text, matched, phrases)) == marked


@given(st.text(), st.lists(st.text(), max_size=2))
def test_spans_are_in_order_and_apart(text: str, phrases: list[str]) -> None:
    spans = highlights(text, [(word.start, word.end) for word in words(text)], [*phrases, text])
    ends = [0, *(edge for span in spans for edge in span), len(text)]
    assert ends == sorted(ends)
    assert all(start < end for start, end in spans)


@pytest.mark.parametrize(
    ("length", "spans", "part"),
    [
        (50, [(40, 45)], (0, 50)),
        (900, [], (0, 300)),
        (900, [(99, 120), (880, 890)], (0, 300)),
        (900, [(500, 510)], (450, 750)),
        (900, [(890, 899)], (600, 900)),
        (0, [], (0, 0)),
    ],
)
def test_an_excerpt_shows_the_first_mark(length: int, spans: list[Span], part: Span) -> None:
    assert excerpt(length, spans, 300) == part


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (
            "Drain the oil. Then, at 3.5 bar, refill it! See e.g. page 4.",
            ["Drain the oil.", "Then, at 3.5 bar, refill it!", "See e.g. page 4."],
        ),
        ("Tools:\n- a spanner\n- a pan\n1. Drain it", ["Tools:", "- a spanner", "- a pan", "1. Drain it"]),
        ("B. Turn it on. Wait.", ["B. Turn it on.", "Wait."]),
        ("a line\nthat goes on\n\nA new one", ["a line\nthat goes on", "A new one"]),
        ("油を抜く。次に、外す！", ["油を抜く。", "次に、外す！"]),
        ("  one (two.)  Three ", ["one (two.)", "Three"]),
        ("... !", []),
        ("", []),
    ],
)
def test_sentences(text: str, marked: list[str]) -> None:
    assert _marked(text, sentences(text)) == marked


@given(st.text(alphabet="aA .!?\n-1。"))
def test_every_word_is_in_one_sentence(text: str) -> None:
    spans = sentences(text)
    assert all(start < end for start, end in spans)
    assert [edge for span in spans for edge in span] == sorted(edge for span in spans for edge in span)
    assert "".join(filter(str.isalnum, text)) == "".join(filter(str.isalnum, "".join(_marked(text, spans))))


class _Lengths:
    """Embeds a text by its length, so that the longest one is nearest to a positive question."""

    name = revision = "lengths"
    dimension = max_tokens = 1

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def count_tokens(self, texts: list[str]) -> list[int]:
        return [1] * len(texts)

    def embed_documents(self, texts: list[str]) -> Vector:
        self.calls.append(list(texts))
        return np.array([[len(text)] for text in texts], np.float32)

    def embed_query(self, text: str) -> Vector:
        return np.ones(1, np.float32)


def test_the_nearest_sentence_is_found_by_its_vector_in_one_call() -> None:
    texts = ["Short. The longest one of all. Mid one.", "Only one", "", "Aa. Bbb."]
    embedder = _Lengths()
    spans = nearest_sentences(texts, embedder.embed_query(""), embedder.embed_documents)  # type: ignore[arg-type]
    nearest = [span and text[slice(*span)] for text, span in zip(texts, spans, strict=True)]
    assert nearest == ["The longest one of all.", "Only one", None, "Bbb."]
    assert embedder.calls == [["Short.", "The longest one of all.", "Mid one.", "Aa.", "Bbb."]]
    assert nearest_sentences([], np.ones(1, np.float32), embedder.embed_documents) == []  # type: ignore[arg-type]
