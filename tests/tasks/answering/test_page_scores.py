"""Pages are judged by their best row and by the question's words on them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.answering.retrieve import PageRow, judge_pages
from tasks.answering.retrievers import pages_named


def test_a_hand_computed_example() -> None:
    rows = {
        "a": PageRow("d", 1, "pump valve"),
        "b": PageRow("d", 2, "pump"),
        "c": PageRow("d", 2, "valve"),
        "e": PageRow("other", 1, "gate gate"),
    }
    ranked = [("a", 0.8), ("b", 0.6), ("e", 0.4), ("c", 0.2), ("unknown", 0.1)]
    page_scores = judge_pages("Pump VALVE?", ranked, rows, words=0.5, further=0.7)
    # Pages 1 and 2 have the same words in the same number: both words count alike there, and none stands on the other's.
    assert page_scores == pytest.approx({"a": 1.5, "b": 0.75 + 0.5, "c": (0.75 + 0.5) * 0.7, "e": 0.5})


def test_a_word_that_few_pages_have_counts_more_and_repetition_less_and_less() -> None:
    rows = {str(number): PageRow("d", number, text) for number, text in enumerate(["a x", "a a", "a b", "c d"])}
    page_scores = judge_pages("a b", [(name, 0.0) for name in rows], rows, words=1, further=1)
    common, rare = math.log(1 + 1.5 / 3.5), math.log(1 + 3.5 / 1.5)  # idf of words on three pages of four, and on one
    once, twice = 2.2 / 2.2, 2 * 2.2 / 3.2
    best = (common + rare) * once
    assert page_scores == pytest.approx({"0": common * once / best, "1": common * twice / best, "2": 1.0, "3": 0.0})


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "pump", "valve gate", "水"])), max_size=8), st.floats(0, 1)
)
def test_no_row_is_lost_and_a_page_is_as_good_as_its_first_row(pages: list[tuple[int, str]], further: float) -> None:
    rows = {str(index): PageRow("d", number, text) for index, (number, text) in enumerate(pages)}
    page_scores = judge_pages("pump 水", [(name, 1.0) for name in rows], rows, words=0.25, further=further)
    assert page_scores.keys() == rows.keys()
    assert all(0 <= score <= 1.25 for score in page_scores.values())


@pytest.mark.parametrize(
    ("question", "pages"),
    [
        ("What does the chart on page 14 show?", {14}),
        ("Compare slides 3 to 5 and p. 9", {3, 4, 5, 9}),
        ("What is on pages 26 and 27", {26, 27}),
        ("What date is on the second page?", {2}),
        ("Who is on the 12th slide, page no. 7?", {12, 7}),
        ("Which of the pages 1 to 300 is it?", {1, 300}),
        ("How many pages are there in the second chapter? 40?", set()),
        ("What is the second last page about?", set()),
        ("page 0", set()),
    ],
)
def test_pages_that_a_question_names(question: str, pages: set[int]) -> None:
    assert pages_named(question) == pages
