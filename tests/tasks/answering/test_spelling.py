"""Misspelt questions: corrected by the words of near passages, and left alone otherwise."""

from functools import partial

import pytest

from backends.models.languages import is_in_dictionary
from tasks.answering.rewrite import spelt, with_synonyms

PASSAGES = [
    "Mortgage closing costs are paid once.",
    "The Torch keeps its height; a price list follows.",
    "A marker prints point and route of a torch.",
]
INDEXED = {"mortgage", "closing", "costs", "torch", "height", "price", "list", "print", "marker", "largest"}


@pytest.mark.parametrize(
    ("question", "corrected"),
    [
        ("morgage clossing costs", "mortgage closing costs"),
        ("What is a Tourch, and its heigth?", "What is a torch, and its height?"),
        ("What is the price of SheetCam?", "What is the price of SheetCam?"),
        ("Which costs are closed?", "Which costs are closed?"),
        ("Where is F12345?", "Where is F12345?"),
        # Right words that no row has.
        ("Which marked points does it prints?", "Which marked points does it prints?"),
        ("What is the largest torches?", "What is the largest torches?"),
        ("Welche Routen gibt es zur Spindel?", "Welche Routen gibt es zur Spindel?"),
    ],
)
def test_a_word_of_no_row_becomes_the_most_similar_word_of_near_passages(question: str, corrected: str) -> None:
    assert (
        spelt(question, INDEXED.__contains__, partial(is_in_dictionary, question=question), lambda: PASSAGES) == corrected
    )


def test_the_passages_are_read_only_where_a_word_is_unknown() -> None:
    assert spelt("mortgage costs", INDEXED.__contains__, lambda word: False, list) == "mortgage costs"


SYNONYMS: list[list[str] | dict[str, str]] = [["ATC", "automatic tool changer"], {"spanner": "wrench"}]


@pytest.mark.parametrize(
    ("question", "expanded"),
    [
        ("How is the atc homed?", "How is the atc homed? (automatic tool changer)"),
        ("Does the automatic tool changer stop?", "Does the automatic tool changer stop? (ATC)"),
        ("Is the automatic tool changer (ATC) new?", "Is the automatic tool changer (ATC) new?"),
        ("Which spanner fits?", "Which spanner fits? (wrench)"),
        ("Which wrench fits the hatch?", "Which wrench fits the hatch?"),
    ],
)
def test_a_question_is_asked_with_its_synonyms(question: str, expanded: str) -> None:
    assert with_synonyms(question, SYNONYMS) == expanded
